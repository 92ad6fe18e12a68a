"""Bridges to other libraries; each is imported when first used."""

from __future__ import annotations

import importlib
from typing import Any

_WHERE = {"from_sklearn": "sklearn_kernels"}


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(importlib.import_module(f".{_WHERE[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(_WHERE)
