"""What to say to somebody who wrote a name that is not known, or lacks a package that only some of cagp needs."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from importlib import import_module
from typing import Any


def suggestion(name: str, known: Iterable[str]) -> str:
    """Such as "; did you mean 'height'?" where a known name is close to the one that was written, else nothing."""
    by_case = {each.lower(): each for each in known}
    close = get_close_matches(name.strip().lower(), by_case, n=1, cutoff=0.6)
    return f"; did you mean {by_case[close[0]]!r}?" if close else ""


def optional(module: str, purpose: str, extra: str) -> Any:
    """The module of that name, or an error that says what needs it and which ``extra`` of cagp brings it."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ImportError(f'{purpose} needs {package}: pip install "cagp[{extra}]"') from error
