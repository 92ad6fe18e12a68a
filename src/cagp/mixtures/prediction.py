"""A mixture of predictions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch

from ..predicting.status import Status
from ..prediction import Guarantee, Prediction, probabilities, values_at
from ..support.convert import Output
from ..support.validation import ArrayLike, as_float64, count

_STEPS = 60
_CLOSE = 1e-10
"""A quantile is found where its probability is right to so much."""


def guarantee_of_mixture(size: int) -> Guarantee:
    """When the error bars of a mixture of calibrated models hold."""
    return Guarantee(
        "under the prior",
        f"The error bars are right if the data follow one of {size} priors, as likely as their weights.",
    )


class Mixture(Prediction):
    """The prediction of several models with ``weights`` (m,) that add up to one.

    ``mean`` and ``variance`` are those of the mixture: the average of the means, and the average of the variances plus
    the spread of the means. Quantiles are those of the mixture, too.
    """

    def __init__(self, parts: Sequence[Prediction], weights: np.ndarray, convert: Output) -> None:
        self.parts, self.weights = tuple(parts), weights
        self._convert = convert
        self._heaviest = self.parts[int(np.argmax(weights))]

    def __repr__(self) -> str:
        return f"Mixture({len(self)} test points of {len(self.parts)} predictions)"

    def __len__(self) -> int:
        return len(self._heaviest)

    @property
    def status(self) -> Status:  # type: ignore[override]
        return self._heaviest.status

    @property
    def guarantee(self) -> Guarantee:
        inner = self._heaviest.guarantee
        return guarantee_of_mixture(len(self.parts)) if inner.kind == "under the prior" else inner

    @property
    def includes_noise(self) -> bool:
        return self._heaviest.includes_noise

    @cached_property
    def _moments(self) -> tuple[torch.Tensor, torch.Tensor]:
        means, variances = (
            torch.stack([as_float64(getattr(part, name), name) for part in self.parts]) for name in ("mean", "variance")
        )
        weights = torch.from_numpy(self.weights).to(means)[:, None]
        mean = (weights * means).sum(dim=0)
        return mean, (weights * (variances + (means - mean).square())).sum(dim=0)

    @property
    def mean(self) -> Any:
        return self._convert(self._moments[0])

    @property
    def variance(self) -> Any:
        return self._convert(self._moments[1])

    @property
    def std(self) -> Any:
        return self._convert(self._moments[1].sqrt())

    def quantile(self, p: ArrayLike) -> Any:
        chosen = probabilities(p, self._moments[0].device)
        columns = [self._quantile(float(each)) for each in chosen.reshape(-1)]
        return self._convert(torch.stack(columns, dim=1) if chosen.ndim else columns[0])

    def _quantile(self, p: float) -> torch.Tensor:
        each = torch.stack([as_float64(part.quantile(p), "quantile") for part in self.parts])
        low, high = each.amin(dim=0), each.amax(dim=0)  # the mixture's lies between those of its parts
        mean, variance = self._moments
        value = (mean + variance.sqrt() * torch.special.ndtri(torch.tensor(p, dtype=torch.float64)).item()).clamp(
            low, high
        )
        for _ in range(_STEPS):  # Newton's, kept inside
            excess = self._cdf(value) - p
            low, high = torch.where(excess < 0, value, low), torch.where(excess < 0, high, value)
            if bool((excess.abs() <= _CLOSE).all()):
                break
            newton = value - excess / self._density(value)
            value = torch.where((newton > low) & (newton < high), newton, (low + high) / 2)
        return value

    def cdf(self, values: ArrayLike) -> Any:
        return self._convert(self._cdf(values_at(values, len(self), self._moments[0])))

    def _cdf(self, values: torch.Tensor) -> torch.Tensor:
        parts = zip(self.weights, self.parts, strict=True)
        return torch.stack([float(w) * as_float64(part.cdf(values), "cdf") for w, part in parts]).sum(dim=0)

    def log_density(self, values: ArrayLike) -> Any:
        return self._convert(self._density(values_at(values, len(self), self._moments[0]), logarithm=True))

    def _density(self, values: torch.Tensor, logarithm: bool = False) -> torch.Tensor:
        each = torch.stack([as_float64(part.log_density(values), "density") for part in self.parts])
        total = (each + torch.from_numpy(self.weights).to(each).log()[:, None]).logsumexp(dim=0)
        return total if logarithm else total.exp()

    def expected(self, function: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        parts = zip(self.weights.tolist(), self.parts, strict=True)
        return torch.stack([weight * part.expected(function) for weight, part in parts]).sum(dim=0)

    def observed(self, noise_variance: Any = None) -> Mixture:
        return Mixture([part.observed(noise_variance) for part in self.parts], self.weights, self._convert)

    def sample(self, n: int = 1, seed: int = 0) -> Any:
        """``n`` joint draws, shape (n, T): each is a draw of one of the predictions, chosen by its weight."""
        count(n, "n", minimum=1)
        chosen = np.random.default_rng(count(seed, "seed")).choice(len(self.parts), n, p=self.weights)
        draws = self._moments[0].new_empty(n, len(self))
        for i, part in enumerate(self.parts):
            rows = np.flatnonzero(chosen == i)
            if len(rows):
                draws[rows] = as_float64(part.sample(len(rows), seed + i), "sample").to(draws)
        return self._convert(draws)
