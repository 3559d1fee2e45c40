"""What a number was measured on and with."""

from __future__ import annotations

import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import redline
from redline.backends.cores import cores
from redline.core.ports import Backend

PACKAGES = ("redline", "torch", "numpy", "llama-cpp-python", "transformers")


def machine() -> dict[str, Any]:
    """Processor, cores, system and Python."""
    return {
        "processor": _processor(),
        "cores": cores(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def versions() -> dict[str, str | None]:
    """Of the packages that decide about speed; None for one that is not installed."""
    return {name: _version(name) for name in PACKAGES}


def commit(folder: Path | None = None) -> dict[str, Any] | None:
    """The commit that ran, and whether tracked files were changed since; None outside of a checkout.

    Args:
        folder: Where to look; the folder that holds this package when left out.
    """
    root = folder or Path(redline.__file__).resolve().parent.parent
    if not (root / ".git").exists():  # a folder above it may be some other repository
        return None
    head = _git(root, "rev-parse", "HEAD")
    changes = _git(root, "status", "--porcelain", "--untracked-files=no")
    return None if head is None else {"id": head, "dirty": bool(changes)}


def describe(backend: Backend | None) -> dict[str, Any] | None:
    """A model and the engine that runs it; None for a drafter without one."""
    if backend is None:
        return None
    traits, inner = backend.traits, getattr(backend, "inner", backend)  # a wrapper is no engine
    return {
        "name": backend.name,
        "engine": type(inner).__module__.removeprefix("redline.backends.").partition(".")[0],
        "dtype": traits.dtype,
        "device": traits.device,
        "threads": traits.threads,
        "row_invariant": traits.row_invariant,
        "exact_widths": list(traits.exact_widths),
    }


def _git(root: Path, *command: str) -> str | None:
    try:
        ran = subprocess.run(["git", "-C", root, *command], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):  # no git here, or no commit yet
        return None
    return ran.stdout.strip()


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
