"""Averages of a recalibrated model: errors scaled at each point, going together as before.

A recalibration says how much larger errors are than promised at each point, s(x), and nothing about how errors at
different points go together. Taking that from the prior, the covariance C of the errors becomes D C D, D = diag(s), and
that of averages with weights A becomes (A D) C (A D)ᵀ: what the inner model says of the functionals A D. So the mean is
that of A and the error that of A D. Left-out blocks, not single observations, can tell whether this holds. The shape of
single errors is not used: an average of many is closer to a normal distribution than each of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ..fields import AveragePrediction, Wanted
from ..predicting.bounds import ComputationalVariance
from ..predicting.status import Status
from ..prediction import Guarantee, values_at
from ..support.convert import Output
from ..support.validation import ArrayLike, as_float64

SCALED = Guarantee(
    "empirical",
    "The errors of the field are scaled at each point as left-out observations say; how errors at different points go "
    "together is taken from the prior.",
)


class ScaledAverage(AveragePrediction):
    """Averages with the mean of the first half of ``both``, and the errors of the second half.

    ``both`` are 2m averages of the inner model: those ``asked`` for, then those of the scaled field.
    """

    def __init__(self, both: AveragePrediction, asked: Wanted, convert: Output) -> None:
        self._both, self._asked, self._convert = both, asked, convert
        self._m = len(asked)
        self.groups = asked.groups
        means = as_float64(both.mean, "mean")
        self._mean, self._shift = means[: self._m], means[: self._m] - means[self._m :]

    def __repr__(self) -> str:
        return f"ScaledAverage({self._m} averages of {self._asked.A.shape[1]} points)"

    def __len__(self) -> int:
        return self._m

    @property
    def status(self) -> Status:  # type: ignore[override]
        return self._both.status

    @property
    def guarantee(self) -> Guarantee:
        return SCALED

    @property
    def includes_noise(self) -> bool:
        return self._both.includes_noise

    @property
    def mean(self) -> Any:
        return self._convert(self._mean)

    @property
    def variance(self) -> Any:
        return self._convert(self._scaled(self._both.variance))

    @property
    def std(self) -> Any:
        return self._convert(self._scaled(self._both.std))

    @property
    def factor(self) -> Any:
        """How much wider or narrower than the inner ones the averages are: the ratio of their ``std``, shape (m,)."""
        std = as_float64(self._both.std, "std")
        return self._convert(std[self._m :] / std[: self._m])

    def covariance(self) -> Any:
        return self._convert(as_float64(self._both.covariance(), "covariance")[self._m :, self._m :])

    @property
    def computational_variance(self) -> ComputationalVariance:
        found = self._both.computational_variance
        parts = (self._scaled(each) for each in (found.lower, found.estimate, found.upper))
        return ComputationalVariance(*map(self._convert, parts))

    def quantile(self, p: ArrayLike) -> Any:
        found = self._scaled(self._both.quantile(p))
        return self._convert(found + (self._shift[:, None] if found.ndim == 2 else self._shift))

    def cdf(self, values: ArrayLike) -> Any:
        return self._convert(self._scaled(self._both.cdf(self._moved(values))))

    def log_density(self, values: ArrayLike) -> Any:
        return self._convert(self._scaled(self._both.log_density(self._moved(values))))

    def observed(self, noise_variance: Any = None) -> ScaledAverage:
        """Averages of new observations, one at each point, whose noise is scaled like the errors of the field."""
        return ScaledAverage(self._both.observed(noise_variance), self._asked, self._convert)  # type: ignore[arg-type]

    def sample(self, n: int = 1, seed: int = 0) -> Any:
        """``n`` joint draws of the averages, shape (n, m)."""
        draws = as_float64(self._both.sample(n, seed), "sample")[:, self._m :]
        return self._convert(draws + self._shift)

    def _scaled(self, values: Any) -> torch.Tensor:
        return as_float64(values, "values")[self._m :]

    def _moved(self, values: ArrayLike) -> Any:
        """The values (m,), as far from the mean of the scaled field as they are from that of the field; (2m,)."""
        given = values_at(values, self._m, self._mean) - self._shift
        both = torch.cat([given, given])
        return both if self._convert.device is not None else np.asarray(both.cpu())
