"""Packages that only some of cagp needs."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def optional(module: str, purpose: str, extra: str) -> Any:
    """The module of that name, or an error that says what needs it and which ``extra`` of cagp brings it."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ImportError(f'{purpose} needs {package}: pip install "cagp[{extra}]"') from error
