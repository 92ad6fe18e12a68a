"""Predictions whose error bars are scaled and shaped by left-out predictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch

from ..fields import Wanted
from ..left_out import Geometry, Leaving
from ..prediction import Guarantee, Prediction, probabilities
from ..prediction import values_at as one_each
from ..support.convert import Output
from ..support.validation import ArrayLike
from .conformal import ConformalModel
from .layer import Layer, LayeredModel, Predicting
from .learning import EMPIRICAL, Recalibration, learn
from .scaled_average import ScaledAverage
from .shape import scores_at, values_at

_ROWS = 2**17
"""Test points that are worked on at once."""


class RecalibratedModel(LayeredModel):
    """A model with the same means and weights, and error bars from left-out predictions; see ``Model.recalibrated``.

    ``learned``, or ``recalibration``, is what was learned from them.
    """

    learned: Recalibration
    learns = Recalibration

    def __init__(self, inner: Predicting, learned: Recalibration) -> None:
        super().__init__(inner, learned)
        self._geometry = Geometry(self.plain)
        self._sizes = [band.sizes(self._geometry, learned.seed) for band in learned.bands]

    @property
    def recalibration(self) -> Recalibration:
        """What was learned from left-out predictions."""
        return self.learned

    def __repr__(self) -> str:
        return f"RecalibratedModel({self.inner!r}, {self.learned!r})"

    def wrapped(self, prediction: Prediction, test: torch.Tensor, convert: Output) -> Recalibrated:
        adjustment = self.adjustment(test, self._geometry.distance(test))
        return Recalibrated(prediction, convert, adjustment, self.guarantee)

    def averaged(self, X_test: ArrayLike, asked: Wanted, **settings: Any) -> ScaledAverage:
        test, convert = self.plain.test_points(X_test)
        spread = self.adjustment(test, self._geometry.distance(test)).spread.cpu().numpy()
        both = self.inner.averaged(X_test, asked.beside_scaled(spread), **settings)
        return ScaledAverage(both, asked, convert)

    def adjustment(self, test: torch.Tensor, distance: torch.Tensor) -> Adjustment:
        """What changes at ``test`` (T, p), at a ``distance`` (T,) from the data that predict there."""
        parts = [self._adjusted(*each) for each in zip(test.split(_ROWS), distance.split(_ROWS), strict=True)]
        joined = [torch.cat([getattr(part, name) for part in parts]) for name in ("size", "band", "share")]
        values = np.stack([band.values for band in self.recalibration.bands])
        spreads = np.array([band.spread for band in self.recalibration.bands])
        return Adjustment(*joined, *(torch.from_numpy(each).to(self.plain.device) for each in (values, spreads)))

    def _adjusted(self, test: torch.Tensor, distance: torch.Tensor) -> Adjustment:
        """The size of the errors at test points (T, p), between those of two bands by the ``distance`` (T,)."""
        places, distance = self._geometry.coordinates(test), distance.double()
        centres = torch.tensor([band.distance for band in self.recalibration.bands], device=test.device).double()
        centres = centres.clamp_min(torch.finfo(torch.float64).tiny).log()
        at = distance.clamp_min(torch.finfo(torch.float64).tiny).log()
        last = len(centres) - 1
        band = (torch.searchsorted(centres, at) - 1).clamp(0, max(last - 1, 0))
        share = torch.zeros_like(at)
        if last:
            share = ((at - centres[band]) / (centres[band + 1] - centres[band])).clamp(0.0, 1.0)
        size = torch.zeros_like(at)
        for i, sizes in enumerate(self._sizes):
            for weight, chosen in ((1 - share, band == i), (share, band + 1 == i)):
                rows = (chosen & (weight > 0)).nonzero()[:, 0]
                if len(rows):
                    size[rows] += weight[rows] * sizes.around(places[rows]).double().log()
        nothing = size.new_empty(0)
        return Adjustment(size.exp(), band, share, nothing, nothing)


@dataclass(frozen=True)
class Adjustment:
    """How much larger errors are than promised: ``size`` (T,). The shape is that of ``band`` (T,), and to a ``share``
    (T,) that of the next one; ``values`` (bands, J) and ``spreads`` (bands,) are those of all of them.
    """

    size: torch.Tensor
    band: torch.Tensor
    share: torch.Tensor
    values: torch.Tensor
    spreads: torch.Tensor

    @classmethod
    def joined(cls, parts: Sequence[Adjustment], order: torch.Tensor) -> Adjustment:
        """Those of several models one after the other, then in another ``order`` (T,)."""
        ends = np.cumsum([0, *(len(part.spreads) for part in parts)])
        band = torch.cat([part.band + int(end) for part, end in zip(parts, ends, strict=False)])
        size, share, values, spreads = (
            torch.cat([getattr(part, name) for part in parts]) for name in ("size", "share", "values", "spreads")
        )
        return cls(size[order], band[order], share[order], values, spreads)

    def shapes(self, rows: slice) -> torch.Tensor:
        """The shape at some test points, shape (T, J)."""
        return self._between(self.values, rows, self.share[rows, None])

    @property
    def spread(self) -> torch.Tensor:
        """The root mean square of z at the test points, shape (T,)."""
        return self.size * self._between(self.spreads, slice(None), self.share)

    def _between(self, each: torch.Tensor, rows: slice, share: torch.Tensor) -> torch.Tensor:
        band = self.band[rows]
        return torch.lerp(each[band], each[(band + 1).clamp_max(len(each) - 1)], share)


class Recalibrated(Layer):
    """A prediction with the mean of the ``inner`` one, and error bars from left-out predictions.

    ``std`` is the inner one times the root mean square of the left-out z at this place and distance; quantiles,
    intervals, densities and the margins of samples have their shape. What is learned is about observations; the
    prediction of f is scaled and shaped in the same way, which no observation can check.
    """

    def __init__(
        self, inner: Prediction, convert: Output, adjustment: Adjustment, guarantee: Guarantee = EMPIRICAL
    ) -> None:
        super().__init__(inner, convert)
        self._adjustment, self._guarantee = adjustment, guarantee
        device = adjustment.size.device
        self._centre, self._promised = (self._tensor(each).to(device) for each in (inner.mean, inner.std))

    @property
    def guarantee(self) -> Guarantee:
        return self._guarantee

    @property
    def std(self) -> Any:
        return self._convert(self._promised * self._adjustment.spread)

    @property
    def factor(self) -> Any:
        """How much wider or narrower than the inner one it is: the ratio of their ``std``, shape (T,)."""
        return self._convert(self._adjustment.spread)

    def quantile(self, p: ArrayLike) -> Any:
        chosen = probabilities(p, self._centre.device)
        scores = torch.special.ndtri(chosen).reshape(-1)
        columns = [self._at_scores(score.expand(len(self))) for score in scores]
        return self._convert(torch.stack(columns, dim=1) if chosen.ndim else columns[0])

    def normal_score(self, values: ArrayLike) -> Any:
        return self._convert(self._scores(values)[0])

    def at_normal_score(self, score: float) -> Any:
        return self._convert(self._at_scores(self._centre.new_full((len(self),), score)))

    def cdf(self, values: ArrayLike) -> Any:
        return self._convert(torch.special.ndtr(self._scores(values)[0]))

    def log_density(self, values: ArrayLike) -> Any:
        return self._convert(self._scores(values)[1])

    def observed(self, noise_variance: Any = None) -> Recalibrated:
        observed = self.inner.observed(noise_variance)
        return Recalibrated(observed, self._convert, self._adjustment, self._guarantee)

    def shaped(self, draws: Any) -> Any:
        """Joint draws (n, T) of the inner prediction with margins of the left-out shape."""
        scores = [self._tensor(self.inner.normal_score(draw)).to(self._centre.device) for draw in draws]
        return self._convert(torch.stack([self._at_scores(score) for score in scores]))

    def _at_scores(self, scores: torch.Tensor) -> torch.Tensor:
        parts = [values_at(self._adjustment.shapes(rows), scores[rows]) for rows in self._parts()]
        return self._centre + self._promised * self._adjustment.size * torch.cat(parts)

    def _scores(self, values: ArrayLike) -> tuple[torch.Tensor, torch.Tensor]:
        """The normal scores of ``values`` (T,) and their log densities."""
        unit = self._promised * self._adjustment.size
        z = (one_each(values, len(self), self._centre) - self._centre) / unit
        parts = [scores_at(self._adjustment.shapes(rows), z[rows]) for rows in self._parts()]
        return torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts]) - unit.log()

    def _parts(self) -> list[slice]:
        return [slice(start, start + _ROWS) for start in range(0, max(len(self), 1), _ROWS)]


class LeavingModel(Predicting, Leaving, Protocol):
    """A model that can be recalibrated."""


def recalibrated(
    model: LeavingModel,
    like: ArrayLike | None = None,
    n: int | None = None,
    seed: int = 0,
    *,
    calibration: tuple[ArrayLike, ArrayLike] | None = None,
    progress: bool | None = None,
) -> RecalibratedModel | ConformalModel:
    """A model with error bars that hold on its data; see ``Model.recalibrated``."""
    found = RecalibratedModel(model, learn(model, like, n, seed, progress))
    return found if calibration is None else ConformalModel.calibrated(found, calibration)
