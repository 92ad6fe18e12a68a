"""A prior that has seen data: predictions at any points."""

from __future__ import annotations

import copy
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from .algebra.weights import Weights, certified
from .errors import InputError, InputTypeError
from .gram import Cross, Gram
from .kernels import map_embedding, slice_embedding
from .posterior import Posterior, Solved
from .preconditioners import Nystrom, PreparedPreconditioner
from .predicting.batches import Batches, affordable_batch
from .predicting.bounds import ComputationalVariance, computational_variance
from .predicting.solving import certified_in_full, outcome_of
from .predicting.status import Status, status_of
from .solvers import Solver, as_solver
from .stopping import Rule
from .support.convert import Output, float_type, solving_type, tf32_refused
from .support.interrupt import Interrupt
from .support.memory import resolve_budget
from .support.progress import progress as progress_bar
from .support.validation import ArrayLike, as_float64, column_names, points, targets
from .workers.batch_workers import find_workers, solve_with
from .workers.recipe import Recipe

if TYPE_CHECKING:
    from .prior import Prior
    from .saving import About

_MAX_INDUCING = 1000


class Model:
    """A prior conditioned on data with a solver; made by ``Prior.condition``.

    ``prior`` is the prior with its mean filled in from the data, ``budget`` the memory budget in bytes. ``gram`` and
    ``b`` = y − m₀(X) (d,) are in the order the solver works in; ``order`` (d,) is that order, where it is not the given
    one. ``column_names`` are those of a data frame, None for anything else. ``storage`` is what was asked
    for. ``recipe`` is what it takes to make the model again elsewhere.
    """

    def __init__(
        self,
        prior: Prior,
        X: ArrayLike,
        y: ArrayLike,
        solver: Solver | str,
        *,
        storage: str,
        memory_budget: float | None,
        dtype: Any,
        solve_dtype: Any,
        device: str | torch.device | None,
    ) -> None:
        self.solver = as_solver(solver)
        dtype = float_type(dtype, "dtype")
        solve_dtype, accurate = solving_type(solve_dtype, dtype)
        place = torch.device(device) if device is not None else X.device if isinstance(X, torch.Tensor) else None
        train = points(X, "X", place).contiguous()  # sums, and so the last digits, would depend on the layout
        observations = targets(y, train.shape[0], train.device)
        noise = prior.noise(train.shape[0]).to(device=train.device, dtype=dtype)
        if bool((noise.to(solve_dtype) <= 0).any()):
            raise InputError(f"noise_variance is so small that it is zero in {solve_dtype}; solve in float64")
        if not accurate and tf32_refused(train.device, storage):
            raise InputError('solve_dtype="tf32" is for matrix-free products on a GPU; use "float32" here')
        self.budget = resolve_budget(memory_budget, train.device)
        self._mean = prior.mean
        self.prior = replace(prior, mean=prior.mean.fit(train, observations))
        self._columns, self.column_names = train.shape[1], column_names(X)
        self._device = train.device
        self.storage = storage
        self._origin = train.mean(dim=0)
        embedding = prior.kernel.embed(train, self._origin)
        low = map_embedding(embedding, lambda part: part.to(solve_dtype))
        gram = Gram(prior.kernel, low, noise.to(solve_dtype), storage=storage, budget=self.budget, accurate=accurate)
        self.recipe = Recipe.of(self.prior, train, observations, gram, self.solver, dtype)
        self._given = gram
        b = (observations - self.prior.mean(train)).to(dtype)
        self.prepared = self.solver.prepare(gram, b.to(solve_dtype))
        self.order = self.prepared.order
        if solve_dtype == dtype and accurate:
            self.gram, self.b = self.prepared.gram, self.prepared.b
        else:  # the solver works in low precision, the certificate is matrix-free in full precision
            full = map_embedding(embedding, lambda part: part.to(dtype))
            left = self.budget - (gram.dense_bytes if gram.storage == "dense" else 0)
            certificate = Gram(prior.kernel, full, noise, storage="tiles", budget=left)
            self.gram = certificate if self.order is None else certificate.permuted(self.order)
            self.b = b if self.order is None else b[self.order]

    @property
    def X(self) -> torch.Tensor:
        """The training points (d, p), in float64."""
        return torch.from_numpy(self.recipe.X).to(self._device)

    @property
    def y(self) -> torch.Tensor:
        """The observations (d,), in float64."""
        return torch.from_numpy(self.recipe.y).to(self._device)

    def with_observations(self, y: ArrayLike) -> Model:
        """The same prior, points and solver with other observations y (d,).

        The work that a calibrated solver did before it saw test points is shared: it does not depend on y.
        """
        observations = targets(y, self.gram.size, self._device)
        prior = replace(self.prior, mean=self._mean.fit(self.X, observations))
        b = (observations - prior.mean(self.X)).to(self.gram.dtype)
        own = b if self.order is None else b[self.order]
        other = copy.copy(self)
        other.prior, other.b = prior, own
        other.recipe = replace(self.recipe, prior=prior, y=observations.cpu().numpy().copy())
        if self.solver.calibrated:
            other.prepared = copy.copy(self.prepared)
            other.prepared.b = own.to(self.prepared.b.dtype)
        else:  # in the order of the data, from the Gram matrix as it was handed to the solver
            other.prepared = self.solver.prepare(self._given, b.to(self._given.dtype))
            if self.gram is self.prepared.gram:
                other.gram = other.prepared.gram
        return other

    def solver_cross(self, cross: Cross) -> Cross:
        """The same test points as the solver sees them: in its own precision."""
        return cross if self.prepared.gram is self.gram else self.prepared.gram.cross(cross.test)

    @cached_property
    def bounding(self) -> PreparedPreconditioner:
        """A stand-in for G that is cheap to invert, for bounds on the computational variance."""
        precise = self.gram if self.gram.dtype == torch.float64 else self.gram.cast(torch.float64)
        affordable = self.gram.working_budget // (4 * 8 * self.gram.size)
        return Nystrom(max(1, min(_MAX_INDUCING, affordable))).prepare(precise)

    def computational_variance(self, cross: Cross, weights: Weights) -> ComputationalVariance:
        """Bounds on the computational variance of weights, in float64 whatever the arithmetic of the model.

        At the price of three products with G; of four in a model of single precision.
        """
        precise = self.bounding.gram
        if precise is not self.gram:
            cross = precise.cross(cross.test)
            weights = certified(weights.dense().double(), cross)
        return computational_variance(cross, weights, self.bounding)

    def __repr__(self) -> str:
        picked = f" → {self.prepared.picked!r}" if self.prepared.picked else ""
        return f"Model({self.prior!r}, {self.gram!r}, solver={self.solver!r}{picked})"

    def save(self, folder: str | Path, *, about: About | None = None, overwrite: bool = False) -> Path:
        """Save the model as a folder that ``cagp.load`` reads; ``about`` holds names, units and notes.

        An existing model is replaced only with ``overwrite``; anything else is never touched. A CustomKernel or a mean
        that is a function cannot be saved. Needs safetensors.
        """
        from .saving import Saved, write

        return write(Saved.of(self, about), folder, overwrite=overwrite)

    # --- predictions ----------------------------------------------------------------------------------------------

    def predict(
        self,
        X_test: ArrayLike,
        *,
        stop: Rule | None = None,
        batch_size: int | None = None,
        progress: bool | None = None,
        n_jobs: int | None = None,
        devices: str | Sequence[str] | None = None,
    ) -> Posterior:
        """The posterior at X_test (T, p). numpy in, numpy out; torch in, torch out.

        Test points are worked on in batches that fit the memory budget, or of ``batch_size``; the results do not
        depend on it. ``stop`` ends the work on each test point before the solver's own limit, see ``cagp.stopping``:
        ``ComputationalShare(0.05) | Seconds(60)``. ``progress`` shows a bar: None on a terminal only, True or False
        always or never. Ctrl-C stops after the iteration in hand and returns what there is, with honest error bars
        and a status that says so; a second Ctrl-C interrupts at once.

        ``n_jobs`` spreads the batches over that many workers of joblib, each of which makes the model again and may
        use the memory budget; None goes by ``joblib.parallel_config`` (a Dask cluster, for example), which means this
        process where nothing is configured, and 1 always does. ``devices`` spreads them over devices of this machine,
        each with a copy of the model: "all" CUDA devices, or names such as ["cuda:0", "cuda:1"].
        """
        test, convert = self._test_points(X_test)
        if stop is not None and not isinstance(stop, Rule):
            raise InputTypeError(f"stop must be a rule such as ComputationalShare(0.05) | Seconds(60), got {stop!r}")
        workers = find_workers(n_jobs, devices)
        numbers = None if stop is None else 12 * self.gram.size
        size = affordable_batch(self, len(test), batch_size, numbers)
        rule = stop if self.prepared.limit > 1 else None  # one step cannot be stopped
        start, where = time.perf_counter(), ""
        cross = self.gram.cross(self.prior.kernel.embed(test, self._origin))
        work = Batches(self, cross, self.prior.mean(test).to(self.gram.dtype), rule, size)
        with Interrupt() as interrupt, progress_bar("predict", len(test), progress) as advance:
            if workers is None:
                solved = work.solve(interrupt, advance)
            else:
                solved, where = solve_with(workers, work, batch_size is not None, interrupt, advance)
        seconds = time.perf_counter() - start
        return Posterior(self, solved, convert, status_of(self, solved, stop, interrupt.requested, seconds, where))

    def iterate(self, X_test: ArrayLike, only: Collection[int] | None = None) -> Iterator[Posterior]:
        """The posteriors at X_test (T, p) after iterations 1, 2, 3, …, as they are computed.

        With ``only``, those after these iterations: cheaper where the solver works in a lower precision, because each
        posterior then costs a product with G. All test points are worked on together, so they must fit the memory
        budget.
        """
        test, convert = self._test_points(X_test)
        prior_mean = self.prior.mean(test).to(self.gram.dtype)
        (cross,) = self._crosses(test, len(test))
        own = self.solver_cross(cross)
        for weights in self.prepared.weights(own):
            if weights.iteration and (only is None or weights.iteration in only):
                message = f"Iteration {weights.iteration} of {self.solver!r}, {weights.passes:g} passes over G."
                outcome = outcome_of(certified_in_full(weights.frozen(), cross, own))
                batch = Solved.of(self, cross, outcome, prior_mean, keep=True)
                yield Posterior(self, [batch], convert, Status("iterating", message))

    def posterior(self, X_test: ArrayLike, weights: ArrayLike) -> Posterior:
        """The posterior at X_test (T, p) from any kriging weights W (d, T), one column a test point.

        Whoever made them, and however badly: if they do not depend on y, the error bars are calibrated. Costs one
        product with G.
        """
        test, convert = self._test_points(X_test)
        W = as_float64(weights, "weights", self._device).to(self.gram.dtype)
        if W.shape != (self.gram.size, len(test)):
            raise InputError(
                f"weights must have shape {(self.gram.size, len(test))}, one row a training point and one column a "
                f"test point, got {tuple(W.shape)}"
            )
        (cross,) = self._crosses(test, len(test))
        values = (W if self.order is None else W[self.order]).T.contiguous()
        given = outcome_of(certified(values, cross))
        batch = Solved.of(self, cross, given, self.prior.mean(test).to(self.gram.dtype), keep=True)
        return Posterior(self, [batch], convert, Status("given", "The weights were given."))

    def predict_mean(self, X_test: ArrayLike) -> Any:
        """The posterior mean at X_test (T, p), shape (T,), without variances: T times cheaper where the solver allows.

        The same number as ``predict(X_test).mean``.
        """
        coefficients = self.prepared.coefficients()
        if coefficients is None:
            return self.predict(X_test).mean
        for last in coefficients:
            v = last
        return next(self._means(X_test, iter([v])))

    def iterate_mean(self, X_test: ArrayLike) -> Iterator[Any]:
        """The posterior means at X_test (T, p) after iterations 1, 2, 3, …, each of shape (T,), without variances."""
        coefficients = self.prepared.coefficients()
        if coefficients is None:
            return (posterior.mean for posterior in self.iterate(X_test))
        next(coefficients)  # iteration 0
        return self._means(X_test, coefficients)

    def _means(self, X_test: ArrayLike, coefficients: Iterator[torch.Tensor]) -> Iterator[Any]:
        """m₀ + V v for each v (d,) of ``coefficients``."""
        test, convert = self._test_points(X_test)
        prior_mean = self.prior.mean(test).to(self.gram.dtype)
        crosses = self._crosses(test, None, 2 * self.gram.size)
        for v in coefficients:
            products = []
            for cross in crosses:
                products.append(cross.matrix @ v.to(self.gram.dtype))
                if len(crosses) > 1:  # V as a whole would exceed the budget
                    cross.forget()
            yield convert(prior_mean + torch.cat(products))

    # --- how ------------------------------------------------------------------------------------------------------

    def _test_points(self, X_test: ArrayLike) -> tuple[torch.Tensor, Output]:
        names = column_names(X_test)
        if self.column_names is not None and names is not None and names != self.column_names:
            raise InputError(
                f"X_test has the columns {names}, the training points have {self.column_names}; "
                f"put them in the same order: X_test[{self.column_names}]"
            )
        return points(X_test, "X_test", self._device, columns=self._columns), Output.like(X_test)

    def _crosses(self, test: torch.Tensor, batch_size: int | None, numbers: int | None = None) -> list[Cross]:
        """The test points in batches, nothing computed yet; ``numbers`` are alive per test point."""
        embedding = self.prior.kernel.embed(test, self._origin)
        size = affordable_batch(self, len(test), batch_size, numbers)
        return [self.gram.cross(slice_embedding(embedding, start, start + size)) for start in range(0, len(test), size)]
