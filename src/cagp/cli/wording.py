"""What the library says, in the words of the command line: options instead of arguments and attributes."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

_PHRASES = {
    "raise max_iterations, or start from better values.": (
        "start from better values (--lengthscale, --variance, --noise), or hold some of them (--fix)."
    ),
    "widen bounds=, or fix it on purpose.": "start elsewhere, or hold it on purpose (--fix).",
    "fix it, or give it bounds.": "hold it where it starts (--fix).",
    "`computational_variance` tells how much of the variance more iterations could remove.": (
        "More (--iterations) can make the error bars narrower; with --stop-share 0.05 each row stops when at most 5% "
        "of its variance is computational."
    ),
    "raise its iterations to get further": "more --iterations get further",
}


def in_options(text: str) -> str:
    """The text with the remedies that the command line has."""
    for phrase, said in _PHRASES.items():
        text = text.replace(phrase, said)
    return text


def suggestion(name: str, known: Sequence[str]) -> str:
    """ "; did you mean 'height'?" where a known name is close to the one that was written, else nothing."""
    by_case = {each.lower(): each for each in known}
    close = get_close_matches(name.strip().lower(), by_case, n=1, cutoff=0.6)
    return f"; did you mean {by_case[close[0]]!r}?" if close else ""
