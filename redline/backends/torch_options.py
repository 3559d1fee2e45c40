"""What the options `device`, `dtype` and `threads` mean to backends that compute with torch."""

from __future__ import annotations

import torch

from redline.backends.cores import cores
from redline.core.errors import OptionError, is_whole


def find_device(name: str | None) -> torch.device:
    """The device of that name; CUDA where there is one, when left out.

    Raises:
        OptionError: There is no such device here.
    """
    try:
        device = torch.device(name or ("cuda" if torch.cuda.is_available() else "cpu"))
    except RuntimeError:
        raise OptionError(f"There is no device named {name!r}.", 'Use "cpu", "cuda" or "cuda:1".') from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise OptionError(f"This torch sees no CUDA device for {name!r}.", 'Use "cpu".')
    return device


def find_dtype(name: str | None, device: torch.device) -> torch.dtype:
    """The dtype of that name; float32 on a CPU and bfloat16 elsewhere, when left out.

    Raises:
        OptionError: There is no such dtype.
    """
    kinds = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
    if name is None:
        return torch.float32 if device.type == "cpu" else torch.bfloat16
    if name not in kinds:
        raise OptionError(f"There is no precision named {name!r} here.", f"Use one of {', '.join(kinds)}.")
    return kinds[name]


def set_threads(threads: int | None) -> None:
    """Give torch that many CPU threads, for the whole process; leave it alone when left out.

    Raises:
        OptionError: It is no number from 1 to one a core: more would only wait for each other.
    """
    if threads is None:
        return
    most = cores()
    if not is_whole(threads) or not 1 <= threads <= most:
        raise OptionError(f"threads is {threads!r}.", f"It must be from 1 to {most} on this machine.")
    torch.set_num_threads(threads)
