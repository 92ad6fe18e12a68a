"""Left-out predictions as a prediction like any other: normal, of observations, one by one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from ..predicting.status import Status
from ..prediction import Guarantee, Prediction, probabilities, values_at
from ..support.validation import ArrayLike, count


class LeftOutPrediction(Prediction):
    """What was predicted for n left-out observations, noise included: ``mean`` and ``std``, each (n,).

    Each was predicted from data of its own, so joint draws are independent of one another.
    """

    def __init__(self, mean: np.ndarray, std: np.ndarray, guarantee: Guarantee) -> None:
        self._mean, self._std, self._guarantee = torch.from_numpy(mean), torch.from_numpy(std), guarantee
        self.status = Status("left out", "Observations were predicted from the others.")

    def __repr__(self) -> str:
        return f"LeftOutPrediction({len(self)} observations)"

    def __len__(self) -> int:
        return len(self._mean)

    @property
    def guarantee(self) -> Guarantee:
        return self._guarantee

    @property
    def includes_noise(self) -> bool:
        return True

    @property
    def mean(self) -> np.ndarray:
        return self._mean.numpy().copy()

    @property
    def variance(self) -> np.ndarray:
        return self.std**2

    @property
    def std(self) -> np.ndarray:
        return self._std.numpy().copy()

    def quantile(self, p: ArrayLike) -> Any:
        score = torch.special.ndtri(probabilities(p, self._mean.device))
        if score.ndim:
            return (self._mean[:, None] + self._std[:, None] * score).numpy()
        return (self._mean + self._std * score).numpy()

    def cdf(self, values: ArrayLike) -> np.ndarray:
        return torch.special.ndtr(self._z(values)).numpy()

    def log_density(self, values: ArrayLike) -> np.ndarray:
        return (-0.5 * (self._z(values).square() + math.log(2 * math.pi)) - self._std.log()).numpy()

    def _z(self, values: ArrayLike) -> torch.Tensor:
        return (values_at(values, len(self), self._mean) - self._mean) / self._std

    def observed(self, noise_variance: Any = None) -> LeftOutPrediction:
        """The same: what was left out are observations, each with the noise of its own."""
        return self

    def sample(self, n: int = 1, seed: int = 0) -> np.ndarray:
        draws = torch.randn(
            count(n, "n", minimum=1),
            len(self),
            generator=torch.Generator().manual_seed(count(seed, "seed")),
            dtype=torch.float64,
        )
        return (self._mean + self._std * draws).numpy()
