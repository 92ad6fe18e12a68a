"""Conditional simulation: joint draws of f at test points that have exactly the mean and the covariance of a posterior.

With f̃ drawn from the prior at training and test points together, and noise ε̃ like that of the data,

    f̃(X′) + Wᵀ (y − f̃(X) − ε̃)

has the mean Wᵀy and the covariance C(W), for any weights W that do not depend on y (Matheron). An unknown trend changes
nothing, because its weights are unbiased: any coefficients give the same. The weights are computed once for all draws.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from ..algebra.weights import Weights
from ..gram import Cross
from ..posterior import guarantee_of
from ..predicting.conditioned import Conditioned
from ..predicting.memory_plan import MemoryPlan
from ..predicting.solved import Solved
from ..predicting.solving import Outcome, run, run_to
from ..predicting.status import Status, status_of
from ..prediction import Guarantee, Normal, Prediction
from ..support.convert import Output
from ..support.interrupt import Interrupt
from ..support.memory import require
from ..support.progress import Advance
from ..support.progress import progress as progress_bar
from ..support.validation import as_float64, choice, count
from .prior_draws import PriorDraws
from .vecchia_draws import weighted_sums
from .ways import METHODS, prior_draws

_KEPT = 4
"""Weights are kept for further draws where they take at most one part in so many of the memory budget."""

_AT_ONCE = 16
"""Numbers per point and draw that are alive at once, at most, while fields are drawn together."""

_PRIOR, _NOISE, _OBSERVED = range(3)
"""Each field has three streams of random numbers of its own."""


@dataclass(frozen=True, eq=False)
class Simulation:
    """``fields`` (n, T): n joint draws at T test points; made by ``model.simulate``.

    ``how`` says in words how they were drawn and how good that is. ``prediction`` is the prediction at the same points,
    each by itself: its mean and variance are those that the fields have. ``spread`` is the root mean square of
    (field − mean) / std over all fields and points: about one, and a check of the way that was taken. ``numbers`` (n,)
    are those of the fields among all of that ``seed``.
    """

    fields: Any
    prediction: Prediction
    how: str
    seed: int
    numbers: tuple[int, ...]

    def __repr__(self) -> str:
        n, T = self.fields.shape
        return f"Simulation({n} fields at {T} points, {self.how})"

    def __len__(self) -> int:
        """How many fields there are."""
        return len(self.fields)

    @property
    def guarantee(self) -> Guarantee:
        """When the spread of the fields holds: as for the prediction."""
        return self.prediction.guarantee

    @property
    def status(self) -> Status:
        """Why the solver stopped."""
        return self.prediction.status

    @cached_property
    def spread(self) -> float:
        """The root mean square of (field − mean) / std over all fields and points."""
        fields, mean, std = (as_float64(each, "fields") for each in self._moments)
        total = sum(float(((field - mean) / std).square().sum()) for field in fields)
        return float(np.sqrt(total / fields.numel()))

    @property
    def _moments(self) -> tuple[Any, Any, Any]:
        return self.fields, self.prediction.mean, self.prediction.std


class Simulator(ABC):
    """Draws fields at the test points that it was made for, as many and as often as one likes."""

    def draw(
        self,
        n: int = 1,
        seed: int = 0,
        *,
        first: int = 0,
        observed: bool = False,
        noise_variance: Any = None,
        progress: bool | None = None,
    ) -> Simulation:
        """The fields numbered ``first`` … ``first + n − 1`` of that ``seed``; see ``Model.simulate``."""
        count(n, "n", minimum=1)
        numbers = range(count(first, "first"), first + n)
        return self.numbered(
            numbers, count(seed, "seed"), observed or noise_variance is not None, noise_variance, progress
        )

    @abstractmethod
    def numbered(
        self, numbers: Sequence[int], seed: int, observed: bool, noise_variance: Any, progress: bool | None
    ) -> Simulation:
        """The fields of these ``numbers``; with none of them, the prediction alone."""


class ModelSimulator(Simulator):
    """Draws of f at ``test`` (T, p) from one prior, by its weights; made by ``Model.simulator``.

    ``crosses`` are the covariances with all test points, cut where they must be; ``iterations`` are those of each test
    point where the solver was stopped by a rule, else None. ``method`` is how the prior is drawn.
    """

    def __init__(
        self,
        model: Conditioned,
        test: torch.Tensor,
        convert: Output,
        crosses: Sequence[Cross],
        *,
        method: str = "auto",
        iterations: torch.Tensor | None = None,
        expected: str = "",
    ) -> None:
        self._model, self._test, self._convert = model, test, convert
        self._crosses, self._iterations, self._expected = crosses, iterations, expected
        self._method = choice(method, "method", METHODS)
        self._weights: list[tuple[torch.Tensor, Weights]] | None = None
        self._prediction: Normal | None = None

    @classmethod
    def of(cls, model: Conditioned, test: torch.Tensor, convert: Output, method: str) -> ModelSimulator:
        """For test points (T, p), with the solver that predicts them."""
        settled, cross, expected = model.settled(test)
        size = MemoryPlan(settled).batch(len(test), None)
        parts = [cross] if size >= len(test) else [cross.rows(slice(i, i + size)) for i in range(0, len(test), size)]
        return cls(settled, test, convert, parts, method=method, expected=expected)

    @cached_property
    def prior(self) -> PriorDraws:
        """How the prior is drawn jointly at the training points, then at the test points."""
        model = self._model
        points = torch.cat([model.X, self._test])
        return prior_draws(model.recipe.prior.kernel, points, self._method, model.gram.working_budget)

    def numbered(
        self, numbers: Sequence[int], seed: int, observed: bool, noise_variance: Any, progress: bool | None
    ) -> Simulation:
        n, T, budget = len(numbers), len(self._test), self._model.gram.working_budget
        require(3 * 8 * n * T, budget, f"{n} fields at {T} points", "draw fewer at a time, with first=…")
        at_once = max(1, budget // (_AT_ONCE * 8 * max(T + self._model.gram.size, self.prior.noises)))
        fields = torch.empty(n, T, dtype=self._model.gram.dtype, device=self._model.device)
        with progress_bar("simulate", n * T, progress) as advance:
            for start in range(0, n, at_once):
                self._some(fields[start : start + at_once], numbers[start : start + at_once], seed, advance)
        prediction = self._predicted
        if observed:
            latent = as_float64(prediction.variance, "variance")
            prediction = prediction.observed(noise_variance)
            added = (as_float64(prediction.variance, "variance") - latent).clamp_min(0).sqrt().to(fields)
            for field, number in zip(fields, numbers, strict=True):
                field += added * self._normal(seed, number, _OBSERVED, T).to(fields)
        how = f"given {self._model.gram.size:,} observations; the prior drawn {self.prior.how}"
        return Simulation(self._convert(fields), prediction, how, seed, tuple(numbers))

    @property
    def _predicted(self) -> Normal:
        if self._prediction is None:
            for _ in self._solved(keep=False):
                pass
        assert self._prediction is not None
        return self._prediction

    def _normal(self, seed: int, number: int, stream: int, size: int) -> torch.Tensor:
        """Standard normal numbers (size,), the same whatever else is drawn, on every device."""
        drawn = np.random.default_rng([seed, number, stream]).standard_normal(size)
        return torch.from_numpy(drawn).to(self._model.device)

    def _some(self, out: torch.Tensor, numbers: Sequence[int], seed: int, advance: Advance) -> None:
        """The fields of these ``numbers`` into ``out`` (n, T)."""
        model, d = self._model, self._model.gram.size
        noise = torch.stack([self._normal(seed, number, _PRIOR, self.prior.noises) for number in numbers])
        drawn = self.prior(noise)
        del noise
        observed = torch.stack([self._normal(seed, number, _NOISE, d) for number in numbers])
        observed *= model.recipe.prior.noise(model.X).to(observed).sqrt()
        observed += drawn[:, :d]
        residual = (model.b - observed.to(model.b)).T.contiguous()
        out.copy_(model.offset(self._test) + drawn[:, d:].to(out))
        del observed, drawn
        for rows, weights in self._solved(keep=True):
            at = rows.to(out.device)
            out[:, at] += _applied(weights, residual).T
            advance(len(rows) * len(numbers))

    def _solved(self, keep: bool) -> Iterator[tuple[torch.Tensor, Weights]]:
        """Rows of test points (m,) with their weights: computed, or as they were kept."""
        if self._weights is not None:
            yield from self._weights
            return
        kept: list[tuple[torch.Tensor, Weights]] = []
        model, n_bytes, first = self._model, 0, 0
        solved, started = [], time.perf_counter()
        offset = model.offset(self._test)
        for cross in self._crosses:
            for piece in model.prepared.pieces(cross):
                rows, at = first + piece, piece.to(model.device)
                part = cross.rows(at)
                outcome = self._outcome(part, rows)
                if self._prediction is None:
                    solved.append((rows, Solved.of(model, part, outcome, offset[rows.to(model.device)], keep=False)))
                weights = outcome.weights
                part.forget()
                n_bytes += _bytes_of(weights)
                keep = keep and n_bytes <= model.gram.working_budget // _KEPT
                if keep:
                    kept.append((rows, weights))
                else:
                    kept.clear()
                yield rows, weights
            first += cross.size
        if self._prediction is None:
            self._prediction = self._together(solved, time.perf_counter() - started)
        if keep:
            self._weights = kept

    def _outcome(self, cross: Cross, rows: torch.Tensor) -> Outcome:
        if self._iterations is None:
            return run(self._model, cross, [], Interrupt(), lambda steps: None)
        iterations = self._iterations[rows.to(self._iterations.device)]
        return Outcome(run_to(self._model, cross, iterations), iterations, torch.full_like(iterations, -1))

    def _together(self, solved: list[tuple[torch.Tensor, Solved]], seconds: float) -> Normal:
        order = torch.cat([rows for rows, _ in solved])
        back = torch.empty_like(order).index_copy_(0, order, torch.arange(len(order))).to(self._model.device)
        parts = [each for _, each in solved]
        mean, variance = (torch.cat([getattr(part, name) for part in parts])[back] for name in ("mean", "variance"))
        status = status_of(self._model, parts, None, False, seconds, expected=self._expected)
        recipe = self._model.recipe
        noise = recipe.prior.new_noise(self._test)
        return Normal(mean, variance, noise, status, guarantee_of(recipe.solver), self._convert)


def _applied(weights: Weights, b: torch.Tensor) -> torch.Tensor:
    """Wᵀ b for b (d, n), shape (T, n); where test points have training points of their own, without copies of b."""
    if weights.indices is None or weights.indices.ndim == 1:
        return weights.apply(b)
    own = b if weights.order is None else b[weights.order]
    product = weighted_sums(weights.indices, weights.values, own)
    if weights.shift is not None:
        D, S = weights.shift
        product = product + D @ (S @ b)
    return product


def _bytes_of(weights: Weights) -> int:
    parts = [weights.values, weights.reduction, weights.indices, *(weights.shift or ())[:1]]
    return sum(part.nbytes for part in parts if part is not None)
