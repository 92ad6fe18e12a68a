"""The posterior at the test points, exact about its own error.

For *any* weights W that do not depend on y, the error of m₀ + Wᵀb has, under the prior, exactly the covariance

    C(W) = K″ − V W − Wᵀ Vᵀ + Wᵀ G W  =  C_exact + (W − W*)ᵀ G (W − W*).

The second form splits it into what the data leave unknown and what the computation left undone.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from .algebra.weights import Weights
from .errors import DivergenceError, InputError, MemoryBudgetError
from .gram.cross_covariance import Cross
from .predicting.batch_bounds import bounds_of_batches
from .predicting.bounds import ComputationalVariance
from .predicting.solving import Outcome, run_to
from .predicting.status import Status
from .support.convert import Output
from .support.memory import human, require
from .support.positive_definite import joint_draws
from .support.validation import as_float64, count, real

if TYPE_CHECKING:
    from .model import Model


@dataclass(frozen=True)
class Solved:
    """One batch of test points after some iteration; ``weights`` is None where they were not kept.

    ``stopped`` (T,) is the index of the rule that stopped a test point, or −1.
    """

    cross: Cross
    weights: Weights | None
    iterations: torch.Tensor
    stopped: torch.Tensor
    passes: float
    mean: torch.Tensor
    variance: torch.Tensor
    at_rounding: torch.Tensor

    @classmethod
    def of(cls, model: Model, cross: Cross, outcome: Outcome, prior_mean: torch.Tensor, keep: bool) -> Solved:
        """Mean and variance from the weights; without ``keep``, the weights and V are let go."""
        weights = outcome.weights
        mean = prior_mean + weights.apply(model.b)
        variance = cross.prior_variance() - weights.reduction
        prior_std, std = cross.prior_variance().sqrt(), model.gram.diagonal().sqrt()
        variance, at_rounding = _no_finer_than_rounding(variance, weights, outcome.iterations, prior_std, std)
        if not bool(torch.isfinite(variance).all()):
            raise DivergenceError(
                f"the weights of {model.solver!r} are no longer finite after {int(outcome.iterations.max())} "
                "iterations; ask for fewer, or use a method that converges"
            )
        if not keep:
            cross.forget()
        kept = weights if keep else None
        return cls(cross, kept, outcome.iterations, outcome.stopped, weights.passes, mean, variance, at_rounding)

    def numbers(self) -> dict[str, Any]:
        """What was found for each test point, on the CPU and without the weights: to be sent from elsewhere."""
        found = {name: getattr(self, name).cpu() for name in _PER_POINT}
        return {**found, "passes": self.passes}

    @classmethod
    def from_numbers(cls, cross: Cross, numbers: dict[str, Any]) -> Solved:
        """A batch that was solved elsewhere."""
        device = cross.gram.device
        found = {name: numbers[name].to(device) for name in _PER_POINT}
        return cls(cross, None, passes=numbers["passes"], **found)

    @classmethod
    def joined(cls, cross: Cross, parts: Sequence[Solved]) -> Solved:
        """Several batches as one, with ``cross`` for all their test points."""
        found = {name: torch.cat([getattr(part, name) for part in parts]) for name in _PER_POINT}
        return cls(cross, None, passes=sum(part.passes for part in parts), **found)


_PER_POINT = ("iterations", "stopped", "mean", "variance", "at_rounding")


def _no_finer_than_rounding(
    variance: torch.Tensor, weights: Weights, iterations: torch.Tensor, prior_std: torch.Tensor, std: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The variances, and where they are below what this arithmetic can resolve and were replaced by that limit.

    C(W) is a sum of terms of at most (√k(x′, x′) + Σ |wᵢ| √Gᵢᵢ)² together, and each iteration adds to the sum, so
    rounding moves it by about eps times that for each. A variance below this is not known any better; reporting the
    limit instead makes the error bar wider, never wrong.
    """
    scale = std if weights.indices is None else std[weights.indices]
    magnitude = (prior_std + (weights.values.abs() * scale).sum(dim=1)).square()
    limit = 2 * torch.finfo(variance.dtype).eps * (1 + iterations) * magnitude
    # torch.maximum keeps NaN, so that a method that diverged is noticed
    return torch.maximum(variance, limit), variance < limit


class Posterior:
    """A Gaussian belief about f at the test points; made by ``Model.predict``.

    ``mean``, ``variance`` and ``std`` have shape (T,) and are about the latent f; ``observed()`` is about y.
    ``status`` says why the solver stopped.
    """

    def __init__(self, model: Model, batches: Sequence[Solved], convert: Output, status: Status) -> None:
        self._model = model
        self._batches = tuple(batches)
        self._convert = convert
        self._noise: torch.Tensor | None = None
        self._mean = torch.cat([batch.mean for batch in batches])
        self._variance = torch.cat([batch.variance for batch in batches])
        limited = sum(int(batch.at_rounding.sum()) for batch in batches)
        if limited:
            note = f" The variance of {limited} test points is below what rounding can resolve; its limit is reported."
            status = replace(status, circumstances=status.circumstances + note)
        self.status = status

    def __repr__(self) -> str:
        what = "" if self._noise is None else ", observations"
        return f"Posterior({len(self)} test points{what}, {self._model.solver!r}, {self.status.reason})"

    def __len__(self) -> int:
        """How many test points there are."""
        return len(self._mean)

    # --- moments --------------------------------------------------------------------------------------------------

    @property
    def includes_noise(self) -> bool:
        """Whether this is about observations y, made by ``observed``, and not about f."""
        return self._noise is not None

    @property
    def mean(self) -> Any:
        """The posterior mean, shape (T,)."""
        return self._convert(self._mean)

    @property
    def variance(self) -> Any:
        """The posterior variance, mathematical and computational together, shape (T,)."""
        return self._convert(self._total_variance())

    @property
    def std(self) -> Any:
        """The posterior standard deviation, shape (T,)."""
        return self._convert(self._total_variance().sqrt())

    def _total_variance(self) -> torch.Tensor:
        return self._variance if self._noise is None else self._variance + self._noise

    def covariance(self) -> Any:
        """The posterior covariance between all test points, shape (T, T); computed when asked for."""
        return self._convert(self._covariance())

    def _covariance(self) -> torch.Tensor:
        cross, W = self._single_batch()
        T, d = W.shape
        what = f"the covariance of {T} test points"
        require(
            (5 * T * T + 3 * T * d) * W.dtype.itemsize,
            self._model.gram.working_budget,
            what,
            "predict fewer points at a time",
        )
        residual = cross.matrix - cross.gram.matmul(W)
        C = cross.prior_covariance() - cross.matrix @ W.T - W @ residual.T
        C = (C + C.T) / 2
        C.diagonal().copy_(self._total_variance())
        return C

    def _single_batch(self) -> tuple[Cross, torch.Tensor]:
        batch = self._batches[0]
        if len(self._batches) > 1:
            size = human(len(self._mean) * self._model.gram.size * self._model.gram.dtype.itemsize)
            raise MemoryBudgetError(
                f"the weights of {len(self._mean)} test points ({size}) were not kept: they did not fit the memory "
                f"budget of {human(self._model.budget)} beside the work, or batch_size cut them up; predict fewer "
                "points at a time, raise memory_budget, or leave batch_size out"
            )
        n_bytes = 2 * len(self._mean) * self._model.gram.size * self._mean.itemsize
        what = f"the weights of {len(self._mean)} test points as a dense matrix"
        require(n_bytes, self._model.gram.working_budget, what, "predict fewer points at a time")
        weights = batch.weights or run_to(self._model, batch.cross, batch.iterations)  # solved elsewhere: once more
        return batch.cross, weights.dense()

    # --- what users do with it ------------------------------------------------------------------------------------

    @property
    def weights(self) -> Any:
        """The kriging weights W, shape (d, T), rows in the order of the training points: mean = m₀ + Wᵀ (y − m₀(X))."""
        _, rows = self._single_batch()
        order = self._model.order
        W = rows.T
        if order is not None:
            W = torch.empty_like(W)
            W[order] = rows.T
        return self._convert(W)

    def observed(self, noise_variance: Any = None) -> Posterior:
        """The belief about observations y at the test points: the noise variance is added.

        ``noise_variance`` is one number or one per test point (T,); by default the prior's, where that is one number.
        """
        noise = self._model.prior.noise_variance if noise_variance is None else noise_variance
        if noise_variance is None and np.ndim(noise):
            raise InputError(
                "the noise of the training observations, one variance each, says nothing about new ones: call "
                "observed(noise_variance=...) with one number or one per test point"
            )
        tensor = as_float64(noise, "noise_variance", self._mean.device).to(self._mean.dtype)
        if tensor.ndim and tensor.shape != self._mean.shape:
            raise InputError(
                f"noise_variance has shape {tuple(tensor.shape)} for {len(self._mean)} test points; "
                "give one number, or one per test point"
            )
        if bool((tensor < 0).any()):
            raise InputError(f"noise_variance must not be negative, got {float(tensor.min()):g}")
        result = copy.copy(self)
        result._noise = tensor.expand(self._mean.shape)
        return result

    def interval(self, level: float = 0.95) -> tuple[Any, Any]:
        """The central interval that holds the truth with probability ``level``: (lower, upper), each (T,)."""
        level = real(level, "level")
        if not 0 < level < 1:
            raise InputError(f"level must be between 0 and 1, got {level!r}; for 95% write 0.95")
        half = self._total_variance().sqrt() * (2**0.5 * torch.erfinv(torch.tensor(level, dtype=torch.float64)).item())
        return self._convert(self._mean - half), self._convert(self._mean + half)

    def sample(self, n: int = 1, seed: int = 0) -> Any:
        """``n`` joint draws at the test points, shape (n, T). The same ``seed`` gives the same draws."""
        count(n, "n", minimum=1)
        remedy = "condition with dtype=torch.float64 or a larger noise_variance"
        seed = count(seed, "seed")
        draws = joint_draws(self._mean, self._covariance(), n, seed, "the posterior covariance", remedy)
        return self._convert(draws)

    # --- what the computation left undone -------------------------------------------------------------------------

    @property
    def iterations(self) -> Any:
        """How many iterations each test point got, shape (T,)."""
        return self._convert(torch.cat([batch.iterations for batch in self._batches]))

    @property
    def passes(self) -> float:
        """How often the whole Gram matrix was read, in all batches together."""
        return sum(batch.passes for batch in self._batches)

    @cached_property
    def computational_variance(self) -> ComputationalVariance:
        """How much of the variance more computation would remove: lower bound, estimate, upper bound, each (T,).

        Costs three products with G and an inducing-point approximation of it, which for nearest neighbours is far more
        than the prediction: ask for some of the test points. Weights of large predictions that were
        not kept are computed again, by the workers of ``joblib.parallel_config`` where there are any.
        """
        bounds = bounds_of_batches(self._model, self._batches)
        return ComputationalVariance(*(self._convert(bound) for bound in (bounds.lower, bounds.estimate, bounds.upper)))
