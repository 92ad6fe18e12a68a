"""What needs a look, and what to do about it, in the words of each front end; names and packages that are missing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from typing import Any

_FINDINGS = {
    "not converged": "The optimiser did not converge ({detail}); {remedy}.",
    "at a bound": "{subject} ended at {detail}; the likelihood may be higher beyond it: {remedy}.",
    "flat": "The likelihood is flat in {subject}: the data hardly say what it is, and predictions hardly depend on it. "
    "Nothing needs to be done; {remedy}.",
    "iterations done": " {remedy}.",
    "limit reached": ": {remedy}",
}

IN_PYTHON = {
    "not converged": "raise max_iterations, or start from better values",
    "at a bound": "widen bounds=, or fix it on purpose",
    "flat": "hold it fixed only if you know its value",
    "iterations done": "`computational_variance` tells how much of the variance more iterations could remove",
    "limit reached": "raise its iterations to get further",
}
"""What to do, for those who call the library: arguments and attributes."""


@dataclass(frozen=True)
class Advice:
    """A finding of a ``kind``, about a ``subject`` (a hyperparameter), with what else is known in ``detail``.

    >>> print(Advice("not converged", detail="stop: iteration limit"))
    The optimiser did not converge (stop: iteration limit); raise max_iterations, or start from better values.
    """

    kind: str
    subject: str = ""
    detail: str = ""

    def worded(self, remedies: Mapping[str, str] = IN_PYTHON, subject: str | None = None) -> str:
        """The sentence, with the ``remedies`` of a front end by kind, and the ``subject`` as its readers call it."""
        about = self.subject if subject is None else subject
        return _FINDINGS[self.kind].format(subject=about, detail=self.detail, remedy=remedies[self.kind])

    def __str__(self) -> str:
        return self.worded()


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
