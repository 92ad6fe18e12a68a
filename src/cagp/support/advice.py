"""What needs a look, and what to do about it: a finding that each front end puts into its own words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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
