"""Doors to other libraries: each is imported when first used, and needs that library installed."""

from __future__ import annotations

import importlib
from typing import Any

_NAMES = {
    "from_gpytorch": "gpytorch",
    "from_sklearn": "sklearn_kernels",
    "from_variogram": "variograms",
    "register_xarray": "xarray",
}
"""Public name → the module of this package that has it."""


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(importlib.import_module(f".{_NAMES[name]}", __name__), name)
    if name in _NAMES.values():
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*_NAMES, *_NAMES.values()})
