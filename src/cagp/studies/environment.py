"""Where the numbers came from: versions and machine."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version

import torch

_PACKAGES = ("torch", "numpy", "scipy", "pandas", "matplotlib", "joblib", "scoringrules")


def describe() -> dict[str, str]:
    """Versions of Python, cagp and what it stands on, the processor and the system; all as text."""
    from .. import __version__

    found = {"cagp": __version__, "Python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue  # an optional package that this study did not need
    found["processor"] = f"{_processor()}, {os.cpu_count()} logical cores"
    if torch.cuda.is_available():
        found["accelerator"] = torch.cuda.get_device_name()
    found["system"] = platform.platform()
    return found


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass  # not Linux: the name that Python knows is shorter
    return platform.processor() or platform.machine()
