"""One component of a model: a prior conditioned on data, with a solver that has seen them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch

from ..errors import InputError, MemoryBudgetError
from ..gram import Cross, Gram, Slopes, slopes_of_embedding
from ..kernels import Embedding, embedding_leaves, map_embedding
from ..preconditioners import Nystrom, PreparedPreconditioner
from ..prior import Prior
from ..solvers import Prepared, Solver
from ..support.convert import tf32_refused
from ..support.memory import available_bytes, human
from ..support.validation import ROOM, largest_squared, magnitude, squarable_variance
from ..workers.pool import Parcel, Pool
from .recipe import Recipe
from .trend import Constrained, EstimatedTrend, TrendBasis, UnbiasedTrend

_MAX_INDUCING = 1000
_STEP = 6e-6  # of the spread of the data: the cube root of the rounding, where both errors of a difference are small
Known = dict[int, torch.Tensor]
"""What the functions that components share, trends and offsets, are at the test points of one prediction."""


class Conditioned:
    """G, b and the prepared solver for the data of a ``recipe``, on a ``device``.

    ``X`` (d, p) and ``y`` (d,) are in float64, ``gram`` and ``b`` = y − m₀(X) (d,), m₀ the offset of the recipe, in the
    precision of the results; the solver has an order and a precision of its own, in ``prepared.gram``. ``basis`` is
    that of a trend with unknown coefficients, or None, made here unless it is given. ``earlier`` is one for the first
    of these data, whose work may be used again.
    """

    def __init__(
        self,
        recipe: Recipe,
        device: torch.device,
        earlier: Conditioned | None = None,
        basis: TrendBasis | None = None,
    ) -> None:
        self.recipe, self.prior, self.solver = recipe, recipe.prior, recipe.solver
        self.device = torch.empty(0, device=device).device  # "cuda" becomes the current one, with its number
        self.X, self.y = (torch.from_numpy(each).to(self.device) for each in (recipe.X, recipe.y))
        noise = recipe.prior.noise(self.X).to(recipe.dtype)
        if not recipe.accurate and tf32_refused(device, recipe.storage):
            raise InputError('solve_dtype="tf32" is for matrix-free products on a GPU; use "float32" here')
        kernel = recipe.prior.kernel
        self._origin = self.X.mean(dim=0)
        self.basis = basis or (TrendBasis(recipe.prior.mean, self.X) if recipe.prior.mean.unknown else None)
        H = None if self.basis is None else self.basis.at_training_points
        embedding = kernel.embed(self.X, self._origin)
        _require_coordinates(embedding, recipe.solve_dtype, "X")
        self.b = (self.y - recipe.offset(self.X)).to(recipe.dtype)
        _require_variances(kernel.diagonal(embedding) + noise, noise, self.y, recipe.solve_dtype)

        def gram(dtype: torch.dtype, storage: str, budget: int, exact: bool) -> Gram:
            points, own = map_embedding(embedding, lambda part: part.to(dtype)), noise.to(dtype)
            basis = None if H is None else H.to(dtype)
            return Gram(kernel, points, own, storage=storage, budget=budget, accurate=exact, basis=basis)

        self.gram = self._given = gram(recipe.solve_dtype, recipe.storage, recipe.budget, recipe.accurate)
        self._prepare(None if earlier is None else earlier._prepared)
        if recipe.certifies:  # the certificate is matrix-free
            self.gram = gram(recipe.dtype, "tiles", self._given.working_budget, exact=True)

    @property
    def picked(self) -> Solver | None:
        """What ``Auto`` has picked, where it was asked and has; nothing is computed to find out."""
        return self._prepared.picked

    def _prepare(self, earlier: Prepared | None = None) -> None:
        grown = None if earlier is None else earlier.grown(self._given)
        self._prepared = grown or self.recipe.solver.prepared_for(self._given, self.b.to(self.recipe.solve_dtype))
        self._settled: Conditioned | None = None

    @property
    def prepared(self) -> Prepared:
        """The solver that has seen the training points: where ``Auto`` was asked, what it picks as far as it knows."""
        return self._prepared.picked_for()[0]

    @property
    def undecided(self) -> bool:
        """Whether ``Auto`` has still to choose what to prepare, which depends on the test points."""
        return self._prepared.undecided

    def ready_for(self, test: torch.Tensor, known: Known | None = None) -> tuple[Conditioned, Cross, str]:
        """The model for a prediction at test points (T, p), all of them together; V; what is expected, in words.

        It is this one, or one that shares everything with it and has for good the solver that ``Auto`` picks for them.
        """
        cross = self.cross(test, known)
        prepared, expected = self._prepared.picked_for(cross)
        return self if prepared is self._prepared else self._with(prepared), cross, expected

    def _with(self, prepared: Prepared) -> Conditioned:
        known = self._settled
        if known is None or known._prepared is not prepared:
            known = copy.copy(self)
            known._prepared, known._settled = prepared, None
            known.__dict__.pop("unbiasing", None)
            self._settled = known
        return known

    def cross(self, test: torch.Tensor, known: Known | None = None) -> Cross:
        """The covariances with some test points (T, p); nothing is computed yet."""
        functions = None if self.basis is None else _once(self.basis, test, known)
        return self.gram.cross(self.embedded(test), functions)

    def embedded(self, test: torch.Tensor) -> Embedding:
        """Test points (T, p) in the coordinates of the kernel."""
        embedding = self.recipe.prior.kernel.embed(test, self._origin)
        _require_coordinates(embedding, self.recipe.solve_dtype, "X_test")
        dtype = self.gram.dtype
        return map_embedding(embedding, lambda part: part.to(dtype))

    def slopes(self, test: torch.Tensor) -> tuple[Slopes, torch.Tensor, torch.Tensor]:
        """The slopes of f at test points (T, p), their prior mean (T p,), and prior covariance at each (T, p, p)."""
        points = self.cross(test)
        embedded = slopes_of_embedding(lambda X: self.recipe.prior.kernel.embed(X, self._origin), test)
        basis = None if self.basis is None else self._steepness(self.basis, test).flatten(0, 1)
        cross, within = Slopes.of(points, embedded, basis)
        return cross, self._steepness(self.recipe.offset, test).flatten().to(self.gram.dtype), within

    def _steepness(self, function: Callable[[torch.Tensor], torch.Tensor], test: torch.Tensor) -> torch.Tensor:
        """Slopes (T, p, …) of any function of points, which may be a user's own: by differences over small steps."""
        spread = self.X.amax(dim=0) - self.X.amin(dim=0)
        steps = torch.diag(torch.where(spread > 0, spread, 1.0) * _STEP)
        each = [(function(test + step) - function(test - step)) / (2 * step.sum()) for step in steps]
        return torch.stack(each, dim=1)

    @cached_property
    def unseeing(self) -> tuple[torch.Tensor, torch.Tensor]:
        """b (g, d) by trends that have not seen one group of observations after the other, and the groups (d,)."""
        means, group = self.recipe.offset.unseeing(self.X)
        return (self.y - means).to(self.recipe.dtype), group

    def offset(self, test: torch.Tensor, known: Known | None = None) -> torch.Tensor:
        """m₀ at test points (T, p), shape (T,)."""
        return _once(self.recipe.offset, test, known).to(self.gram.dtype)

    @cached_property
    def unbiasing(self) -> UnbiasedTrend | None:
        """What makes weights unbiased for the trend, where there is one; a solve with q right-hand sides, once."""
        return None if self.basis is None else UnbiasedTrend(self.gram, self.prepared)

    @property
    def trend(self) -> EstimatedTrend | None:
        """The estimated coefficients of an unknown mean, with their covariance; None where the mean is known."""
        if self.basis is None or self.unbiasing is None:
            return None
        known = torch.tensor(self.recipe.offset.given, dtype=torch.float64, device=self.device)
        estimate, spread = self.unbiasing.estimate(self.b).double(), self.unbiasing.covariance.double()
        raw = self.basis.raw
        return EstimatedTrend(self.prior.mean, known + raw @ estimate, raw @ spread @ raw.T)

    def with_observations(self, y: torch.Tensor) -> Conditioned:
        """The same with other observations y (d,); what a calibrated solver did before is shared."""
        other = copy.copy(self)
        other.recipe = recipe = self.recipe.seeing(y)
        other.y = torch.from_numpy(recipe.y).to(self.device)
        other.b = (other.y - recipe.offset(self.X)).to(recipe.dtype)
        other._settled = None
        other.__dict__.pop("unseeing", None)
        if not recipe.solver.calibrated:
            other._prepare()
            other.__dict__.pop("unbiasing", None)
        return other

    def with_more(self, X: torch.Tensor, y: torch.Tensor, noise_variance: Any = None) -> Conditioned:
        """The same with further observations y (m,) at X (m, p), whose noise is as for ``Model.with_more``."""
        return Conditioned(self.recipe.with_more(X, y, noise_variance), self.device, self)

    def with_prior(self, prior: Prior) -> Conditioned:
        """Another prior, conditioned on the same data in the same way."""
        if prior.mean == self.prior.mean:
            return Conditioned(replace(self.recipe, prior=prior), self.device, basis=self.basis)
        offset = prior.mean.fit(torch.from_numpy(self.recipe.X), torch.from_numpy(self.recipe.y))
        return Conditioned(replace(self.recipe, prior=prior, offset=offset), self.device)

    def judged_by(self, rows: np.ndarray | None) -> Conditioned:
        """The same, of whose training points only ``rows`` (m,) may be left out; None for all."""
        found = copy.copy(self)
        found.recipe = replace(self.recipe, whole=rows)
        return found

    def rebuilt(self, kept: np.ndarray | None = None, **settings: Any) -> Conditioned:
        """Once more, on training points ``kept`` (n,) or all, with other settings, in half the free memory."""
        recipe = self.recipe if kept is None else self.recipe.restricted(kept)
        if kept is not None:
            settings = {"solver": self.solver.for_points(kept, len(self.y)), **settings}
        budget = max(1, min(self.recipe.budget, available_bytes(self.device) // 2))
        return Conditioned(replace(recipe, **{"budget": budget, **settings}), self.device)

    @cached_property
    def bounding(self) -> PreparedPreconditioner:
        """A stand-in for G that is cheap to invert, for bounds on the computational variance."""
        precise = self.gram if self.gram.dtype == torch.float64 else self.gram.cast(torch.float64)
        affordable = self.gram.working_budget // (4 * 8 * self.gram.size)
        P = Nystrom(max(1, min(_MAX_INDUCING, affordable))).prepare(precise)
        return P if self.basis is None else Constrained(P)

    def copy_on(self, device: str) -> Conditioned:
        """The same once more on a device; nothing is shared."""
        return _copy(self._decided, device)

    def to_send(self, pool: Pool, device: str | None = None) -> Conditioned | Parcel[Conditioned]:
        """As the workers of a pool get it: itself where they share its memory, else its recipe."""
        if pool.shared and device is None:
            return self
        return Parcel.of(partial(_copy, self._decided, device or self.device.type))

    @property
    def _decided(self) -> Recipe:
        """The recipe with what was decided here, so that nobody else decides it again."""
        return replace(self.recipe, storage=self._given.storage, solver=self.prepared.picked or self.recipe.solver)


def _once(function: Callable[[torch.Tensor], torch.Tensor], test: torch.Tensor, known: Known | None) -> torch.Tensor:
    """``function`` at test points (T, p), where it is not ``known`` from another component."""
    if known is None:
        return function(test)
    if id(function) not in known:
        known[id(function)] = function(test)
    return known[id(function)]


def _copy(recipe: Recipe, device: str) -> Conditioned:
    place, d = torch.device(device), len(recipe.X)
    if recipe.storage == "dense":
        needed, free = d * d * recipe.solve_dtype.itemsize, available_bytes(place)
        if needed > free:
            raise MemoryBudgetError(
                f"a further copy of the model on {device}, with the dense Gram matrix of {d} points, needs "
                f'{human(needed)}, {human(free)} are free; use storage="tiles", or fewer workers on a machine'
            )
    return Conditioned(recipe, place)


def _require_coordinates(embedding: Embedding, dtype: torch.dtype, name: str) -> None:
    """Refuse points whose squared distances, in the coordinates of the kernel, would overflow."""
    furthest = max((magnitude(leaf) for leaf in embedding_leaves(embedding) if leaf.numel()), default=0.0)
    if not furthest <= largest_squared(dtype):
        raise InputError(
            f"{name} is too far out for its kernel: a coordinate of {furthest:g}, counted from the middle of the "
            f"training points in lengthscales, has no square in {dtype}; rescale the points, or give a longer "
            "lengthscale"
        )


def _require_variances(diagonal: torch.Tensor, noise: torch.Tensor, y: torch.Tensor, dtype: torch.dtype) -> None:
    """Refuse a diagonal of G (d,), a noise (d,) and observations y (d,) that would overflow."""
    if bool((noise.to(dtype) < torch.finfo(dtype).tiny).any()):
        remedy = "give a larger one, or rescale y" if dtype == torch.float64 else "solve in float64"
        raise InputError(f"noise_variance is so small that it is as good as zero in {dtype}; {remedy}")
    squarable_variance(float(diagonal.max()), dtype)
    if not magnitude(y) <= torch.finfo(dtype).max / ROOM:
        raise InputError(f"y has the magnitude {magnitude(y):g}, too large for {dtype}; rescale y")
