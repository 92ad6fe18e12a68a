"""What needs a look, and what to do about it, in the words of each front end; names and packages that are missing."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any

from .numbers import listed

_PACKAGE = f"{Path(__file__).parents[1]}{os.sep}"

_FINDINGS = {
    "not converged": "The optimiser did not converge ({detail}); {remedy}.",
    "at a bound": "{subject} ended at {detail}; the likelihood may be higher beyond it: {remedy}.",
    "flat": "The data say next to nothing about {subject}: other values fit about as well, and predictions at places "
    "like those of the data hardly depend on it: nothing needs to be done there. Elsewhere they may depend on it.",
    "iterations done": " {remedy}.",
    "limit reached": ": {remedy}",
}

IN_PYTHON = {
    "not converged": "raise max_iterations, or start from better values",
    "at a bound": "widen bounds=, or fix it on purpose",
    "iterations done": "`computational_variance` tells how much of the variance more iterations could remove",
    "limit reached": "raise its iterations to get further",
}
"""What to do, for those who call the library: arguments and attributes; nothing about what is flat."""


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
        return _FINDINGS[self.kind].format(subject=about, detail=self.detail, remedy=remedies.get(self.kind, ""))

    def __str__(self) -> str:
        return self.worded()


def all_worded(
    advice: Iterable[Advice],
    remedies: Mapping[str, str] = IN_PYTHON,
    called: Callable[[Sequence[str]], str] | None = None,
) -> tuple[str, ...]:
    """The sentences of all findings, with the ``remedies`` of a front end; ``called`` is how readers call subjects.

    What the data say nothing about is told in one sentence, the same everywhere.
    """
    found, name = list(advice), called or listed
    flat = [each.subject for each in found if each.kind == "flat"]
    said = [each.worded(remedies, name([each.subject])) for each in found if each.kind != "flat"]
    if flat:
        sentence = Advice("flat").worded(remedies, name(flat))
        said.append(sentence if len(flat) == 1 else sentence.replace("depend on it", "depend on them"))
    return tuple(sentence[:1].upper() + sentence[1:] if called else sentence for sentence in said)


def warn_caller(message: str, category: type[Warning]) -> None:
    """A warning, where there is a message, at the line that called cagp."""
    if not message:
        return
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


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
