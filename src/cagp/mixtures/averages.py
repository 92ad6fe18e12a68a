"""A mixture of averages: that of the averages of each model, with the covariance between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ..fields import Average, AveragePrediction
from ..predicting.bounds import ComputationalVariance
from ..support.convert import Output
from ..support.validation import as_float64
from .prediction import Mixture


class MixtureOfAverages(Mixture, AveragePrediction):
    """The mixture of the averages that several models predict, with ``weights`` that add up to one."""

    def __init__(
        self, parts: Sequence[Average], weights: np.ndarray, convert: Output, groups: np.ndarray | None
    ) -> None:
        super().__init__(parts, weights, convert)
        self._averages = tuple(parts)
        self.groups = groups

    def __repr__(self) -> str:
        return f"MixtureOfAverages({len(self)} averages of {len(self.parts)} predictions)"

    def covariance(self) -> Any:
        """The average of the covariances, and the spread of the means, shape (m, m)."""
        mean, total = self._moments[0], self._moments[0].new_zeros(len(self), len(self))
        for weight, part in zip(self.weights, self._averages, strict=True):
            away = as_float64(part.mean, "mean") - mean
            total += float(weight) * (as_float64(part.covariance(), "covariance") + torch.outer(away, away))
        return self._convert(total)

    @property
    def computational_variance(self) -> ComputationalVariance:
        """The average of those of the models, each (m,)."""

        def mixed(name: str) -> Any:
            each = torch.stack(
                [as_float64(getattr(part.computational_variance, name), name) for part in self._averages]
            )
            return self._convert(torch.from_numpy(self.weights).to(each) @ each)

        return ComputationalVariance(mixed("lower"), mixed("estimate"), mixed("upper"))

    def observed(self, noise_variance: Any = None) -> MixtureOfAverages:
        """The mixture for averages of new observations, one at each point; see ``Average.observed``."""
        parts = [part.observed(noise_variance) for part in self._averages]
        return MixtureOfAverages(parts, self.weights, self._convert, self.groups)
