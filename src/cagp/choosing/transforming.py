"""Whether the observations are transformed, and how: by what left-out observations say on their own scale."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from ..errors import InputError, NotPositiveDefiniteError
from ..prior import Prior
from ..transforms import (
    KINDS,
    BoxCox,
    Log,
    Logit,
    Profile,
    SinhArcsinh,
    Transform,
    YeoJohnson,
    most_likely,
    named,
)
from .candidates import Candidate
from .scoring import clearly_worse
from .search import Search

_FEWEST = 50
"""With fewer observations a transform is not sought: their shape is not known well enough."""

_MORE_LIKELY = 5.0
"""By so much a transform must raise the log-likelihood for a fit with it to be tried."""

_BETTER = 0.02
"""By so much of the score without it a transform must be better to be taken."""


@dataclass(frozen=True)
class Begun:
    """A search with its first candidate, ``start``, and what was found about transforms, in words."""

    search: Search
    start: Candidate
    found: str


Beginning = Callable[[Transform | None], tuple[Search, Candidate]]
"""A search in the observations as a transform makes them, and its first candidate, before anything is fitted."""


def transform_wanted(transform: Any, y: np.ndarray) -> None:
    """Refuse what cannot be: another word than those that are known, or observations that it is not for."""
    if transform is None or transform == "auto":
        return
    if isinstance(transform, str) and transform not in KINDS:
        known = ", ".join(f'"{name}"' for name in ("auto", *KINDS))
        raise InputError(f"transform must be None, {known}, or a transform such as BoxCox(0.5); got {transform!r}")
    kind = named(transform)
    chosen = kind.starting(y) if isinstance(kind, type) else kind
    chosen.of(torch.from_numpy(y))


def begun(transform: Any, X: np.ndarray, y: np.ndarray, beginning: Beginning, by_hand: bool, seed: int) -> Begun:
    """The search in y (n,) at X (n, p), transformed as asked for: None, a transform, the name of one, or "auto".

    With "auto", the first candidate is fitted without and, where one makes the observations more likely, with a
    transform, and the better one by the CRPS of left-out observations goes on. Kernels, means and noise that were given
    ``by_hand`` are on the scale of the observations, which then stay as they are.
    """
    if transform is None:
        return Begun(*beginning(None), "")
    if transform == "auto":
        return Begun(*beginning(None), "") if by_hand else _chosen(X, y, beginning, seed)
    kind = named(transform)
    found = kind.starting(y) if isinstance(kind, type) else kind
    search, start = beginning(found)
    if isinstance(kind, type) and kind.free and (first := search.run(start)) is not None:
        found, _ = most_likely(found, Profile(first.prior, X, y, found, seed))
        search, start = beginning(found)
    return Begun(search, start, f"The observations are transformed: {found.in_words}, as asked for.")


def _chosen(X: np.ndarray, y: np.ndarray, beginning: Beginning, seed: int) -> Begun:
    search, start = beginning(None)
    as_they_are = Begun(search, start, "")
    if len(y) < _FEWEST or np.ptp(y) == 0:
        return as_they_are
    first = search.run(start)
    if first is None or search.site is None:
        return as_they_are
    try:
        proposed = _proposal(first.prior, X, y, seed)
    except NotPositiveDefiniteError:
        return as_they_are
    if proposed is None:
        said = "The observations are taken as they are: no transform makes them clearly more likely."
        return replace(as_they_are, found=said)
    changed, its_start = beginning(proposed)
    changed.site = replace(search.site, transform=proposed)
    other = changed.run(its_start)
    if other is None:
        return as_they_are
    index = np.intersect1d(first.scores.index, other.scores.index)
    without, within = first.scores.at(index).crps, other.scores.at(index).crps
    digits = 4 if f"{within.mean():.4g}" != f"{without.mean():.4g}" else 7
    scores = (
        "the CRPS of left-out observations, predicted by the first candidate, is "
        f"{within.mean():.{digits}g} with it and {without.mean():.{digits}g} without"
    )
    if within.mean() < (1 - _BETTER) * without.mean() and clearly_worse(without, within):
        return Begun(changed, its_start, f"The observations are transformed: {proposed.in_words}; {scores}.")
    said = f"The observations are taken as they are. Tried: {proposed.in_words}; {scores}."
    return replace(as_they_are, found=said)


def _proposal(prior: Prior, X: np.ndarray, y: np.ndarray, seed: int) -> Transform | None:
    """The most likely transform of y (n,), where one is clearly more likely than none.

    Of data that end at 0 those are tried that end there as well, so that nothing below is predicted.
    """
    kinds: tuple[type[Transform], ...]
    if y.min() >= 0 and y.min() <= np.ptp(y):
        kinds = (Log, BoxCox) if y.min() > 0 else (BoxCox,)
        if y.min() > 0 and y.max() < 1:
            kinds = (*kinds, Logit)
    else:
        kinds = (YeoJohnson, SinhArcsinh)
    starts = [kind.starting(y) for kind in kinds]
    profile = Profile(prior, X, y, starts[0], seed)
    found = [most_likely(each, profile) for each in starts]
    # a parameter more must be worth it
    best, likely = max(found, key=lambda each: each[1] - len(each[0].free))
    return best if likely > profile(YeoJohnson(1.0)) + _MORE_LIKELY else None
