"""What was predicted for training observations from the others."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from scipy.special import ndtr

from ..calibration import Scores, plots, score
from ..predicting.status import Status
from ..prediction import UNDER_THE_PRIOR, Guarantee, Prediction, Reshape
from ..support.convert import Output
from ..transforms import Transform
from .correlation import Correlation
from .stand_ins import StandIns

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False, repr=False)
class LeftOut:
    """Training observations and their predictions from the others; made by ``Model.left_out``.

    Each of shape (n,), noise included: ``index``, which training points they are; ``y``, ``mean`` and ``std``;
    ``distance``, how far the nearest observation that was used lies, in lengthscales. ``X`` (n, p) are their places,
    ``stand_ins`` say what each was predicted from, where they stand in for points to be predicted, else None. ``how``
    says in sentences how it was done, ``short`` in a few words.
    ``correlation`` is that of the errors, where asked for; ``guarantee`` says when the error bars hold.
    """

    index: np.ndarray
    X: np.ndarray
    y: np.ndarray
    mean: np.ndarray
    std: np.ndarray
    distance: np.ndarray
    how: str
    short: str
    stand_ins: StandIns | None = field(default=None, repr=False)
    correlation: Correlation | None = None
    guarantee: Guarantee = UNDER_THE_PRIOR

    def __len__(self) -> int:
        """How many there are."""
        return len(self.y)

    @property
    def number(self) -> np.ndarray:
        """What tells each from the others, shape (n,): an observation may stand in for several points."""
        return self.index if self.stand_ins is None else self.stand_ins.number

    @property
    def radius(self) -> np.ndarray:
        """Within which distance everything was left out with each, shape (n,): nothing else where it was alone."""
        return np.zeros(len(self)) if self.stand_ins is None else self.distance

    @property
    def worth(self) -> float:
        """How many independent observations their squared errors are worth; stand-ins have errors that go together."""
        if self.stand_ins is None:
            return float(len(self))
        square = 0.0 if self.correlation is None else self.correlation.square
        return len(self) / (1 + (len(self) - 1) * square)

    @property
    def z(self) -> np.ndarray:
        """(y − mean) / std, shape (n,): standard normal where the model is right."""
        return (self.y - self.mean) / self.std

    @property
    def pit(self) -> np.ndarray:
        """Φ(z), shape (n,): uniform where the model is right."""
        return ndtr(self.z)

    @property
    def prediction(self) -> Prediction:
        """The predictions in the form that all predictions have: quantiles, intervals, densities; noise included."""
        return self.reshaped(None)

    def reshaped(
        self,
        margins: Reshape | None,
        transform: Transform | None = None,
        reach: tuple[float, float] | None = None,
    ) -> Prediction:
        """The same with the error bars that ``margins`` make of them, on the scale before a ``transform``, whose means
        look as far as ``reach``.
        """
        mean, variance = (torch.from_numpy(each)[None] for each in (self.mean, self.std**2))
        status = Status("left out", "Observations were predicted from the others.")
        how: dict[str, Any] = {"status": status, "guarantee": self.guarantee, "convert": Output(None)}
        carried: dict[str, Any] = {"margins": margins, "transform": transform, "reach": reach}
        return Prediction(mean, variance, new_noise=0.0, **carried, **how).observed()

    @cached_property
    def scores(self) -> Scores:
        """RMSE, proper scores and coverage."""
        return score(self.mean, self.std, self.y, of=self.short)

    def some(self, chosen: np.ndarray) -> LeftOut:
        """Those at the places ``chosen``: a mask (n,) or indices."""
        arrays = {name: getattr(self, name)[chosen] for name in ("index", "X", "y", "mean", "std", "distance")}
        return replace(self, **arrays, stand_ins=None if self.stand_ins is None else self.stand_ins.some(chosen))

    def __repr__(self) -> str:
        spread = float(np.sqrt(np.square(self.z).mean())) if len(self) else float("nan")
        return f"LeftOut({len(self)} observations, {self.short}, rms of z {spread:.3g})"

    def plot(self, axes: Any = None) -> tuple[Axes, Axes, Axes]:
        """Histogram of the PIT, its ECDF difference with bands, and z against the distance to the data.

        ``axes`` are three matplotlib axes; without them a new figure is made.
        """
        first, second, third = plots.new_axes(3) if axes is None else axes
        plots.pit_histogram(self.pit, ax=first)
        plots.ecdf_difference(self.pit, ax=second)
        third.plot(self.distance, self.z, ".", markersize=3, alpha=min(1.0, 30 / len(self) ** 0.5), rasterized=True)
        for level in (-1.96, 1.96):
            third.axhline(level, color="0.5", linewidth=1)
        third.set(xlabel="distance to the data, in lengthscales", ylabel="z = error / std")
        return first, second, third
