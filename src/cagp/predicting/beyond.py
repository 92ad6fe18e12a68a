"""Rows far beyond the observations of a model with a trend, which goes on there, or a transform, which makes much of
what is not known there: nothing has checked it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ..errors import DataWarning
from ..kernels import Geographic, Periodic
from ..means import ByQuantity, Constant, Polynomial, Zero
from ..prior import Prior
from ..support.advice import warn_caller
from ..support.frames import DAYS
from ..support.numbers import datum
from ..support.validation import ArrayLike, as_float64

_SHARE = 0.5  # of the range of the observations: so far beyond them predictions are trusted
_NAMED = 5
_PACKAGE = f"{__name__.partition('.')[0]}."


def ends_of(model: Any) -> tuple[torch.Tensor, torch.Tensor] | None:
    """How far rows may lie along each column, (p,) and (p,), before that is told; None for all the way."""
    low, high = torch.aminmax(model.X, dim=0)
    span = high - low
    goes_on = torch.full_like(span, model.transform is not None, dtype=torch.bool)
    for component in model.components:
        goes_on |= _trend(component.prior, len(span)).to(goes_on.device)
        for part in component.prior.kernel.walk(range(len(span))):  # along which there is no beyond
            if isinstance(part.kernel, (Geographic, Periodic)):
                goes_on[list(part.columns)] = False
    room = torch.where(goes_on & (span > 0), _SHARE * span, torch.inf)
    return None if bool(room.isinf().all()) else (low - room, high + room)


def _trend(prior: Prior, p: int) -> torch.Tensor:
    """Along which of p columns the mean of a prior goes on."""
    mean, found = prior.mean, torch.ones(p, dtype=torch.bool)
    flat = isinstance(mean, (Zero, Constant)) or (isinstance(mean, (ByQuantity, Polynomial)) and not mean.degree)
    if flat:
        return ~found
    if isinstance(mean, Polynomial) and mean.columns is not None:
        found[:] = False
        found[list(mean.columns)] = True
    return found


class Beyond:
    """The rows beyond the data of a model, as they come, piece by piece."""

    def __init__(self, model: Any) -> None:
        self._model, self._ends, self._rows, self._of = model, model.ends, 0, 0
        self._seen: dict[int, tuple[float, float]] = {}

    def look(self, X: ArrayLike) -> Beyond:
        """Count those of X (n, p)."""
        if self._ends is None:
            return self
        points, (low, high) = as_float64(X, "X", self._model.device), self._ends
        out = (points < low) | (points > high)
        self._of += len(points)
        if bool(out.any()):
            self._rows += int(out.any(dim=1).sum())
            for column in out.any(dim=0).nonzero()[:, 0].tolist():
                far = points[out[:, column], column]
                before = self._seen.get(column, (np.inf, -np.inf))
                self._seen[column] = min(before[0], float(far.min())), max(before[1], float(far.max()))
        return self

    @property
    def told(self) -> str:
        """What is to be said of them; nothing where there are none."""
        if not self._rows:
            return ""
        names = self._model.column_names or [f"x{i}" for i in range(self._model.X.shape[1])]
        days = {each.column for each in self._model.encodings if each.kind == "date"}
        said = []
        for column, (low, high) in sorted(self._seen.items())[:_NAMED]:
            first, last = (float(end) for end in torch.aminmax(self._model.X[:, column]))
            values = datum(low) if low == high else f"{datum(low)} to {datum(high)}"
            unit = f", {DAYS}" * (names[column] in days)
            said.append(f"{names[column]!r} is {values}, and {datum(first)} to {datum(last)} in the observations{unit}")
        more = f"; so it is in {len(self._seen) - _NAMED} more columns" if len(self._seen) > _NAMED else ""
        trend = any(bool(_trend(each.prior, len(names)).any()) for each in self._model.components)
        what = "The model has a trend there" if trend else "The transform makes much of what is unknown there"
        remedy = ", or fit with mean='constant'" if trend and self._model.transform is None else ""
        lie = "1 row lies" if self._rows == 1 else f"{self._rows:,} rows lie"
        return (
            f"{lie} beyond the observations by more than half of their range: {'; '.join(said)}{more}. {what}, "
            f"which nothing has checked; ask for rows like those that were fitted to, in the same units{remedy}."
        )


def told_beyond(models: Sequence[Any], X: ArrayLike) -> str:
    """What is to be said of rows of X (n, p) beyond the data of any of several models, once for all."""
    return next(filter(None, (Beyond(each).look(X).told for each in models)), "")


def tell_rows_beyond(models: Sequence[Any], X: ArrayLike) -> None:
    """Warn whoever calls the method of the models that calls this.

    Other parts of cagp are told nothing: they work on pieces, or make trials by the thousand, and tell once for all.
    """
    caller = sys._getframe(1).f_back
    if caller is None or not str(caller.f_globals.get("__name__", "")).startswith(_PACKAGE):
        warn_caller(told_beyond(models, X), DataWarning)
