"""What the library says, in the words of the command line: options instead of arguments and attributes."""

from __future__ import annotations

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
