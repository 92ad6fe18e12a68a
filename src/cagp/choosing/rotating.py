"""Whether the axes of the kernel are turned: tried where the likelihood promises something, judged as all others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import gammaincc

from ..errors import InputError
from ..hyperparameters.directions import promise, turned
from ..kernels import Kernel, Rotated
from ..support.validation import choice
from .candidates import Candidate
from .search import Fit, Search

_CHANCE = 0.014
"""Turned axes are tried where so few fields without a direction raise the log-likelihood by as much."""

_FEWEST_VALUES = 8
"""A column with fewer different values is one of categories, or nearly."""

_ALIKE = 10.0
"""Columns whose spreads differ by more than this factor are not measured alike, and directions between them no angles
that one could read."""


def is_rotated(kernel: Kernel) -> bool:
    """Whether any part of the kernel has turned axes."""
    return any(isinstance(part.kernel, Rotated) for part in kernel.walk())


def rotation_wanted(rotate: Any, kernel: Kernel) -> None:
    """Refuse what cannot be: another word than "auto", or a rotation of a ``kernel`` without axes to turn."""
    if not isinstance(rotate, bool):
        choice(rotate, "rotate", ("auto",))
    if rotate is True and not turned(kernel)[1]:
        raise InputError(
            "rotate=True needs two or three columns that have a lengthscale each, beside those on the globe and times; "
            'leave it at "auto", or give a kernel such as Rotated(Matern32((4.0, 1.0)), 30).on(0, 1)'
        )


def try_rotated(search: Search, best: Fit, rotate: bool | str) -> None:
    """Fit the ``best`` candidate with turned axes, where that is promising, and tell what was found."""
    why_not = _unlike(best.prior.kernel, search.X) if rotate == "auto" else ""
    if why_not:
        search.failures.append(f"Turned axes were not tried, because {why_not}; rotate=True tries them.")
        return
    found = promise(best.prior, search.log_likelihoods)
    if found is None:
        return
    if rotate == "auto" and not gammaincc(found.freedom / 2, found.gain) < _CHANCE:
        search.failures.append(
            "Turned axes were not tried, because they would raise the log-likelihood by no more than about "
            f"{max(found.gain, 0.0):.2g}, which chance does as well; rotate=True tries them."
        )
        return
    search.run(rotated(best.candidate, best.prior).starting_at(found.prior))


def rotated(candidate: Candidate, fitted: Any) -> Candidate:
    """The candidate with axes that can be turned; what it holds keeps its values under their new names."""
    kernel, places = turned(fitted.kernel)
    fixed = tuple(_moved(name, places) for name in candidate.fixed)
    return replace(candidate, kernel=f"{candidate.kernel} rotated", start=replace(fitted, kernel=kernel), fixed=fixed)


def _moved(name: str, places: tuple[str, ...]) -> str:
    for place in places:
        if name.startswith((f"{place}.", f"{place}[")):
            return f"{place}.kernel{name[len(place) :]}"
    return name


def _unlike(kernel: Kernel, X: np.ndarray) -> str:
    """Why the columns X (n, p) that would be turned are not alike; "" where they are, or where there are none."""
    for part in turned(kernel)[0].walk(range(X.shape[1])):
        if not isinstance(part.kernel, Rotated):
            continue
        columns = X[:, list(part.columns)]
        if min(len(np.unique(column)) for column in columns.T) < _FEWEST_VALUES:
            return "a column has a few values only"
        spread = columns.std(axis=0)
        if spread.max() > _ALIKE * spread.min():
            return "the spreads of the columns differ by more than a factor of ten"
    return ""
