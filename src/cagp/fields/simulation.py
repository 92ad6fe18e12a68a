"""Conditional simulation: joint draws of f at test points that have exactly the mean and the covariance of a posterior.

With f̃ drawn from the prior at training and test points together, and noise ε̃ like that of the data,

    f̃(X′) + Wᵀ (y − f̃(X) − ε̃)

has the mean Wᵀy and the covariance C(W), for any weights W that do not depend on y (Matheron). An unknown trend changes
nothing, because its weights are unbiased: any coefficients give the same. The weights are computed once for all draws.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from ..algebra.weights import Weights
from ..errors import InputError
from ..gram import Cross
from ..kernels import Kernel, Varying, map_embedding
from ..predicting.conditioned import Conditioned
from ..predicting.memory_plan import MemoryPlan
from ..predicting.solving import Solved, run, run_to
from ..predicting.status import Status, status_of
from ..prediction import Guarantee, Prediction, checked_noise
from ..support.interrupt import Interrupt
from ..support.memory import require
from ..support.progress import Advance
from ..support.progress import progress as progress_bar
from ..support.validation import as_float64, choice, count
from .circulant import circulant_draws
from .prior_draws import ChangedDraws, DenseDraws, PriorDraws, distinct
from .vecchia_draws import VecchiaDraws

METHODS = ("auto", "dense", "circulant", "vecchia")

_DENSE = 2500  # so many points at most have the factor of their whole covariance by themselves: seconds, and exact
_KEPT = 4  # weights are kept for further draws where they take at most one part in so many of the memory budget
_AT_ONCE = 16  # numbers per point and draw that are alive at once, at most, while fields are drawn together
# Each field has streams of random numbers of its own; the last says which component it falls to.
_PRIOR, _NOISE, _OBSERVED, _CHOICE = range(4)


@dataclass(frozen=True, eq=False)
class Simulation:
    """``fields`` (n, T): n joint draws at T test points; made by ``model.simulate``.

    ``how`` says in words how they were drawn and how good that is. ``prediction`` has the mean and variance of the
    fields at each point. ``numbers`` (n,) are those of the fields among all of that ``seed``.
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
        """The root mean square of (field − mean) / std over all fields and points: about one, if all is well."""
        moments = self.fields, self.prediction.mean, self.prediction.std
        fields, mean, std = (as_float64(each, "fields") for each in moments)
        total = sum(float(((field - mean) / std).square().sum()) for field in fields)
        return float(np.sqrt(total / fields.numel()))


class Simulator:
    """Draws fields at the test points that it was made for, as many and as often as one likes; see ``Model.simulator``.

    Each field is one of a single part, chosen by the ``weights`` (m,), with the margins of the prediction that
    ``predicted`` makes of what was found for all ``parts``; ``learned`` says in words what margins these are.
    """

    def __init__(
        self,
        parts: Sequence[ComponentSimulator],
        weights: np.ndarray,
        predicted: Callable[[Sequence[Found]], Prediction],
        new_noise: torch.Tensor | None,
        learned: Sequence[str],
    ) -> None:
        self._parts, self._weights, self._predicted, self._learned = parts, weights, predicted, learned
        self._new_noise = new_noise

    def __len__(self) -> int:
        """How many test points there are."""
        return len(self._parts[0])

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
        luck = [np.random.default_rng([count(seed, "seed"), number, _CHOICE]).random() for number in numbers]
        chosen = np.searchsorted(np.cumsum(self._weights)[:-1], luck, side="right")
        with_noise = observed or noise_variance is not None
        if with_noise:  # refused before any work is done
            checked_noise(self._new_noise, noise_variance, len(self))
        fields = torch.empty(n, len(self), dtype=torch.float64, device=self._parts[0].device)
        for i in np.unique(chosen).tolist():
            rows = np.flatnonzero(chosen == i)
            fields[rows] = self._parts[i].fields([numbers[j] for j in rows.tolist()], seed, progress).to(fields)
        prediction = self._predicted([part.found for part in self._parts])
        if with_noise:
            prediction = prediction.observed(noise_variance)
            for field, number, i in zip(fields, numbers, chosen.tolist(), strict=True):
                field += prediction.component_noise[i].sqrt() * self._parts[i].new_noise(seed, number)
        several = f"each from one of {len(self._parts)} models, by their weights; " if len(self._parts) > 1 else ""
        how = "; margins: ".join([several + self._parts[0].how, *self._learned])
        return Simulation(prediction.shaped(fields), prediction, how, seed, tuple(numbers))


@dataclass(frozen=True)
class Found:
    """Mean and variance of f by one component, each (T,), and how that was computed."""

    mean: torch.Tensor
    variance: torch.Tensor
    status: Status


class ComponentSimulator:
    """Draws of f at ``test`` (T, p) from one prior, by its weights, after ``iterations`` (T,) where a rule set them.

    ``crosses`` are the covariances with all test points, cut where they must be.
    """

    def __init__(
        self,
        component: Conditioned,
        test: torch.Tensor,
        crosses: Sequence[Cross],
        *,
        method: str = "auto",
        iterations: torch.Tensor | None = None,
        expected: str = "",
    ) -> None:
        self._model, self._test, self.device = component, test, component.device
        self._crosses, self._iterations, self._expected = crosses, iterations, expected
        self._method = choice(method, "method", METHODS)
        self._weights: list[tuple[torch.Tensor, Weights]] | None = None
        self._found: Found | None = None

    @classmethod
    def of(cls, component: Conditioned, test: torch.Tensor, method: str) -> ComponentSimulator:
        """For test points (T, p), with the solver that predicts them."""
        ready, cross, expected = component.ready_for(test)
        size = MemoryPlan([ready]).batch(len(test), None)
        parts = [cross] if size >= len(test) else [cross.rows(slice(i, i + size)) for i in range(0, len(test), size)]
        return cls(ready, test, parts, method=method, expected=expected)

    def __len__(self) -> int:
        return len(self._test)

    @property
    def how(self) -> str:
        """How fields are drawn, in words."""
        return f"given {self._model.gram.size:,} observations; the prior drawn {self.prior.how}"

    @cached_property
    def prior(self) -> PriorDraws:
        """How the prior is drawn jointly at the training points, then at the test points."""
        model = self._model
        points = torch.cat([model.X, self._test])
        return prior_draws(model.recipe.prior.kernel, points, self._method, model.gram.working_budget)

    def fields(self, numbers: Sequence[int], seed: int, progress: bool | None) -> torch.Tensor:
        """The fields of f with these ``numbers``, shape (n, T)."""
        n, T, budget = len(numbers), len(self._test), self._model.gram.working_budget
        require(3 * 8 * n * T, budget, f"{n} fields at {T} points", "draw fewer at a time, with first=…")
        at_once = max(1, budget // (_AT_ONCE * 8 * max(T + self._model.gram.size, self.prior.noises)))
        fields = torch.empty(n, T, dtype=self._model.gram.dtype, device=self._model.device)
        with progress_bar("simulate", n * T, progress) as advance:
            for start in range(0, n, at_once):
                self._some(fields[start : start + at_once], numbers[start : start + at_once], seed, advance)
        return fields

    def new_noise(self, seed: int, number: int) -> torch.Tensor:
        """Standard normal noise of new observations for the field of that ``number``, shape (T,)."""
        return self._normal(seed, number, _OBSERVED, len(self._test))

    @property
    def found(self) -> Found:
        """Mean and variance of f at the test points, and how they were computed."""
        if self._found is None:
            for _ in self._solved(keep=False):
                pass
        assert self._found is not None
        return self._found

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
            out[:, rows.to(out.device)] += weights.apply(residual).T
            advance(len(rows) * len(numbers))

    def _solved(self, keep: bool) -> Iterator[tuple[torch.Tensor, Weights]]:
        """Rows of test points (m,) with their weights: computed, or as they were kept."""
        if self._weights is not None:
            yield from self._weights
            return
        kept: list[tuple[torch.Tensor, Weights]] = []
        model, n_bytes, first = self._model, 0, 0
        every, solved, started = [], [], time.perf_counter()
        offset = model.offset(self._test)
        for cross in self._crosses:
            for piece in model.prepared.pieces(cross) or [torch.arange(cross.size)]:
                rows, part = first + piece, cross.rows(piece.to(model.device))
                if self._iterations is None:
                    outcome = run(model, part, [], Interrupt(), lambda steps: None)
                else:
                    iterations = self._iterations[rows.to(self._iterations.device)]
                    outcome = run_to(model, part, iterations), iterations, None
                if self._found is None:
                    every.append(rows)
                    solved.append(Solved.of(model, part, offset[rows.to(model.device)], False, *outcome))
                weights, *_ = outcome
                part.forget()
                n_bytes += weights.nbytes
                keep = keep and n_bytes <= model.gram.working_budget // _KEPT
                if keep:
                    kept.append((rows, weights))
                else:
                    kept.clear()
                yield rows, weights
            first += cross.size
        if self._found is None:
            whole, seconds = Solved.joined(cross, solved, torch.cat(every)), time.perf_counter() - started
            status = status_of(model, [whole], None, False, seconds, expected=self._expected)
            self._found = Found(whole.mean, whole.variance, status)
        if keep:
            self._weights = kept


def prior_draws(kernel: Kernel, points: torch.Tensor, method: str, budget: int) -> PriorDraws:
    """Draws at ``points`` (N, p) by that method; "auto" takes the first of dense, circulant and Vecchia that suits."""
    if isinstance(kernel, Varying):
        amplitude = kernel.amplitude.at(points)
        return ChangedDraws(prior_draws(kernel.kernel, points, method, budget), lambda draws: draws.mul_(amplitude))
    if method == "circulant" or (method == "auto" and len(points) > _DENSE):
        on_grid, reason = circulant_draws(kernel, points, budget)
        if on_grid is not None:
            return on_grid
        if method == "circulant":
            raise InputError(f'method="circulant" does not suit: {reason}; "vecchia" works anywhere')
    embedding = kernel.embed(points, points.mean(dim=0))
    first, place = distinct(embedding)
    if len(first) < len(points):
        embedding = map_embedding(embedding, lambda part: part[:, first].contiguous())
    size, needed = len(first), 5 * 8 * len(first) ** 2
    if method == "dense" or (method == "auto" and size <= _DENSE and needed <= budget):
        remedy = 'draw at fewer points, or use method="vecchia"'
        require(needed, budget, f"the covariance matrix of {size} points", remedy)
        inner: PriorDraws = DenseDraws(kernel, embedding)
    else:
        inner = VecchiaDraws(kernel, embedding)
    return inner if size == len(points) else ChangedDraws(inner, lambda draws: draws[:, place])
