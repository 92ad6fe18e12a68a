"""The training data with a solver that has seen them: all that predictions need to know of a model."""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import cached_property, partial
from typing import Self

import torch

from ..errors import InputError, MemoryBudgetError
from ..gram import Cross, Gram
from ..kernels import map_embedding
from ..preconditioners import Nystrom, PreparedPreconditioner
from ..solvers import Prepared
from ..support.convert import tf32_refused
from ..support.memory import available_bytes, human
from ..workers.joblib_pool import Pool
from ..workers.parcel import Parcel
from .recipe import Recipe
from .representable import require_coordinates, require_trend, require_variances
from .trend import Constrained, EstimatedTrend, Trend, TrendBasis

_MAX_INDUCING = 1000


class Conditioned:
    """G, b and the prepared solver for the data of a ``recipe``, on a ``device``.

    ``gram`` and ``b`` = y − m₀(X) (d,) are in the order of the data and in the precision of the results; m₀ is the
    offset of the recipe. The solver may work in an order and a precision of its own: its ``prepared.gram`` is what it
    works with. ``basis`` is that of a trend with unknown coefficients, None where the mean is known. ``earlier`` is one
    for the first of these data, whose work is used again where that leads to the same results.
    """

    def __init__(self, recipe: Recipe, device: torch.device, earlier: Conditioned | None = None) -> None:
        self.recipe = recipe
        self.device = torch.empty(0, device=device).device  # "cuda" becomes the current one, with its number
        noise = recipe.prior.noise(self.X).to(recipe.dtype)
        if not recipe.accurate and tf32_refused(device, recipe.storage):
            raise InputError('solve_dtype="tf32" is for matrix-free products on a GPU; use "float32" here')
        kernel = recipe.prior.kernel
        self._origin = self.X.mean(dim=0)
        self.basis = TrendBasis(recipe.prior.mean, self.X) if recipe.prior.mean.unknown else None
        H = None if self.basis is None else self.basis.at_training_points
        embedding = kernel.embed(self.X, self._origin)
        require_coordinates(embedding, recipe.solve_dtype, "X")
        self.b = (self.y - recipe.offset(self.X)).to(recipe.dtype)
        require_variances(kernel.diagonal(embedding) + noise, noise, self.y, recipe.solve_dtype)
        low = map_embedding(embedding, lambda part: part.to(recipe.solve_dtype))
        self._given = Gram(
            kernel,
            low,
            noise.to(recipe.solve_dtype),
            storage=recipe.storage,
            budget=recipe.budget,
            accurate=recipe.accurate,
            basis=None if H is None else H.to(recipe.solve_dtype),
        )
        self._prepare(None if earlier is None else earlier._prepared)
        self.gram = self._given
        if recipe.certifies:  # the certificate is matrix-free
            full = map_embedding(embedding, lambda part: part.to(recipe.dtype))
            left = self._given.working_budget
            basis = None if H is None else H.to(recipe.dtype)
            self.gram = Gram(kernel, full, noise, storage="tiles", budget=left, basis=basis)

    @cached_property
    def X(self) -> torch.Tensor:
        """The training points (d, p), in float64; the model's own, not to be changed."""
        return torch.from_numpy(self.recipe.X).to(self.device)

    @cached_property
    def y(self) -> torch.Tensor:
        """The observations (d,), in float64; the model's own, not to be changed."""
        return torch.from_numpy(self.recipe.y).to(self.device)

    def _prepare(self, earlier: Prepared | None = None) -> None:
        grown = None if earlier is None else earlier.grown(self._given)
        self._prepared = grown or self.recipe.solver.prepared_for(self._given, self.b.to(self.recipe.solve_dtype))
        self._settled: Self | None = None

    @property
    def prepared(self) -> Prepared:
        """The solver that has seen the training points: where ``Auto`` was asked, what it picks as far as it knows."""
        return self._prepared.settled()[0]

    def settled(self, test: torch.Tensor) -> tuple[Self, Cross, str]:
        """The model for a prediction at test points (T, p), all of them together; V; what is expected, in words.

        It is the model itself, or one that shares everything with it and has the solver that ``Auto`` picks for these
        test points, for good: what is asked later about this prediction is answered by the solver that made it.
        Solvers that let test points share work find out here which of them do. Nothing else is computed yet.
        """
        cross = self.unarranged(test)
        prepared, expected = self._prepared.settled(cross)
        return self if prepared is self._prepared else self._with(prepared), prepared.arrange(cross), expected

    def _with(self, prepared: Prepared) -> Self:
        known = self._settled
        if known is None or known._prepared is not prepared:
            known = copy.copy(self)
            known._prepared, known._settled = prepared, None
            known.__dict__.pop("unbiasing", None)
            self._settled = known
        return known

    def unarranged(self, test: torch.Tensor) -> Cross:
        """The covariances with some test points (T, p), without a look at them; nothing is computed yet."""
        embedding = self.recipe.prior.kernel.embed(test, self._origin)
        require_coordinates(embedding, self.recipe.solve_dtype, "X_test")
        functions = None if self.basis is None else self.basis(test)
        if functions is not None:
            require_trend(functions, "X_test")
        return self.gram.cross(embedding, functions)

    def cross(self, test: torch.Tensor) -> Cross:
        """The covariances with test points (T, p), all those of a prediction, as the solver is to see them."""
        return self.settled(test)[1]

    def offset(self, test: torch.Tensor) -> torch.Tensor:
        """m₀ at test points (T, p), shape (T,)."""
        return self.recipe.offset(test).to(self.gram.dtype)

    @cached_property
    def unbiasing(self) -> Trend | None:
        """What makes weights unbiased for the trend, where there is one; a solve with q right-hand sides, once."""
        return None if self.basis is None else Trend(self.gram, self.prepared)

    @property
    def trend(self) -> EstimatedTrend | None:
        """The estimated coefficients of an unknown mean, with their covariance; None where the mean is known.

        They come from the solver's own approximation, or for nearest neighbours from some of the training points.
        """
        if self.basis is None or self.unbiasing is None:
            return None
        known = torch.tensor(self.recipe.offset.given, dtype=torch.float64, device=self.device)
        estimate, spread = self.unbiasing.estimate(self.b).double(), self.unbiasing.covariance.double()
        coefficients = known + self.basis.raw @ estimate
        return EstimatedTrend(self.recipe.prior.mean, coefficients, self.basis.raw @ spread @ self.basis.raw.T)

    def see(self, recipe: Recipe) -> None:
        """Take the observations of another recipe for the same points. Calibrated solvers have nothing to do anew."""
        self.__dict__.pop("y", None)
        self.recipe = recipe
        self.b = (self.y - recipe.offset(self.X)).to(recipe.dtype)
        self._settled = None
        if not recipe.solver.calibrated:
            self._prepare()
            self.__dict__.pop("unbiasing", None)

    @cached_property
    def bounding(self) -> PreparedPreconditioner:
        """A stand-in for G that is cheap to invert, for bounds on the computational variance."""
        precise = self.gram if self.gram.dtype == torch.float64 else self.gram.cast(torch.float64)
        affordable = self.gram.working_budget // (4 * 8 * self.gram.size)
        P = Nystrom(max(1, min(_MAX_INDUCING, affordable))).prepare(precise)
        return P if self.basis is None else Constrained(P)

    # --- elsewhere ------------------------------------------------------------------------------------------------

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


def _copy(recipe: Recipe, device: str) -> Conditioned:
    place = torch.device(device)
    if recipe.storage == "dense":
        d = len(recipe.X)
        needed, free = d * d * recipe.solve_dtype.itemsize, available_bytes(place)
        if needed > free:
            raise MemoryBudgetError(
                f"a further copy of the model on {device}, with the dense Gram matrix of {d} points, needs "
                f'{human(needed)}, {human(free)} are free; use storage="tiles", or fewer workers on a machine'
            )
    return Conditioned(recipe, place)
