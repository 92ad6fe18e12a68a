"""Names that somebody may have meant, and text that can be shown."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from difflib import get_close_matches


def suggestion(name: str, known: Iterable[str]) -> str:
    """Such as "; did you mean 'height'?" where a known name is close to the one that was written, else nothing."""
    by_case = {each.lower(): each for each in known}
    close = get_close_matches(name.strip().lower(), by_case, n=1, cutoff=0.6)
    return f"; did you mean {by_case[close[0]]!r}?" if close else ""


def printable(text: str) -> str:
    """Without control characters, which a terminal would obey; lines stay lines."""
    return "".join(each for each in text if each in "\n\t" or unicodedata.category(each) != "Cc")
