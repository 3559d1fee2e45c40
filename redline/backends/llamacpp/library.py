"""llama.cpp itself: loaded on first use, its log kept quiet, its errors remembered for ours."""

from __future__ import annotations

import ctypes
import logging
import re
from functools import cache
from types import ModuleType
from typing import Any

from redline.core.errors import NotInstalled

INSTALL = "pip install 'redline[llama]'"

log = logging.getLogger("redline.llamacpp")
"""Where llama.cpp's own messages go, all as DEBUG: what matters of them stands in our errors."""

_ERROR = 4  # GGML_LOG_LEVEL_ERROR
_errors: list[str] = []
_callbacks: list[Any] = []  # a callback that is collected while llama.cpp still calls it ends the process


@cache
def library() -> ModuleType:
    """The low-level module of llama-cpp-python.

    Raises:
        NotInstalled: It is not here, or broken; says the command that mends that.
    """
    try:
        import llama_cpp
    except (ImportError, OSError, RuntimeError, AttributeError) as error:
        if isinstance(error, ModuleNotFoundError) and error.name == "llama_cpp":
            raise NotInstalled("llama.cpp is not installed here.", f"Install it: {INSTALL}") from None
        raise NotInstalled(  # its shared library or a package that it needs
            f"The installed llama-cpp-python does not load: {str(error).rstrip('.')}.",
            "Build it again: pip install --force-reinstall --no-cache-dir llama-cpp-python",
        ) from error
    _callbacks.append(llama_cpp.llama_log_callback(_take))
    llama_cpp.llama_log_set(_callbacks[-1], ctypes.c_void_p(0))
    llama_cpp.llama_backend_init()
    return llama_cpp


def is_installed() -> bool:
    """Whether llama.cpp can be used here."""
    try:
        library()
    except NotInstalled:
        return False
    return True


def forget_errors() -> None:
    """Begin something whose errors should not be mixed with older ones."""
    _errors.clear()


def said() -> str:
    """llama.cpp's own words about what went wrong; the first complaint is the cause of the others."""
    if not _errors:
        return "it does not say why"
    return re.sub(r"^(\w+: )?(error loading model: )?(\w+: )?", "", _errors[0]).rstrip(".")


def _take(level: int, text: bytes, _: Any) -> None:
    message = text.decode(errors="replace").strip()
    if not message or message.strip(".") == "":
        return
    if level == _ERROR:
        _errors.append(message)
    log.debug(message)
