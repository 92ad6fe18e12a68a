"""A prior that has seen data: predictions at any points."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch

from .bounds import InducingBound
from .errors import InputError, InputTypeError
from .gram import Cross, Gram
from .interrupt import Interrupt
from .kernels import Embedding, map_embedding
from .memory import human, require, resolve_budget
from .posterior import Posterior, Solved
from .progress import progress as progress_bar
from .solvers import Solver, as_solver
from .status import Status
from .validation import ArrayLike, as_float64, count, points, targets
from .weights import Weights, certified, zero_weights

if TYPE_CHECKING:
    from .prior import Prior

_ROWS_PER_TEST_POINT = 6
"""Vectors of length d that are alive per test point during a prediction: V, W, right-hand sides, temporaries."""


class Model:
    """A prior conditioned on data with a solver; made by ``Prior.condition``.

    ``prior`` is the prior with its mean filled in from the data, ``budget`` the memory budget in bytes.
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
        dtype: torch.dtype,
        device: str | torch.device | None,
    ) -> None:
        self.solver = as_solver(solver)
        if dtype not in (torch.float64, torch.float32):
            raise InputTypeError(f"dtype must be torch.float64 or torch.float32, got {dtype!r}")
        place = torch.device(device) if device is not None else X.device if isinstance(X, torch.Tensor) else None
        train = points(X, "X", place)
        observations = targets(y, train.shape[0], train.device)
        noise = prior.noise(train.shape[0]).to(device=train.device, dtype=dtype)
        self.budget = resolve_budget(memory_budget, train.device)
        self.prior = type(prior)(prior.kernel, prior.mean.fit(train, observations), prior.noise_variance)
        self._columns = train.shape[1]
        self._device = train.device
        self._origin = train.mean(dim=0)
        embedding = map_embedding(prior.kernel.embed(train, self._origin), lambda part: part.to(dtype))
        gram = Gram(prior.kernel, embedding, noise, storage=storage, budget=self.budget)
        b = (observations - self.prior.mean(train)).to(dtype)
        self._prepared = self.solver.prepare(gram, b)

    @property
    def gram(self) -> Gram:
        """The Gram matrix, in the order the solver works in."""
        return self._prepared.gram

    @property
    def b(self) -> torch.Tensor:
        """y − m₀(X), shape (d,), in the order the solver works in."""
        return self._prepared.b

    @property
    def order(self) -> torch.Tensor | None:
        """The solver's order of the training points, shape (d,), where it is not the given one."""
        return self._prepared.order

    @cached_property
    def inducing_bound(self) -> InducingBound:
        """A matrix below G that is cheap to invert, for bounds on the computational variance."""
        return InducingBound(self.gram)

    def __repr__(self) -> str:
        return f"Model({self.prior!r}, {self.gram!r}, solver={self.solver!r})"

    # --- predictions ----------------------------------------------------------------------------------------------

    def predict(self, X_test: ArrayLike, *, batch_size: int | None = None, progress: bool | None = None) -> Posterior:
        """The posterior at X_test (T, p). numpy in, numpy out; torch in, torch out.

        Test points are worked on in batches that fit the memory budget, or of ``batch_size``; the results do not
        depend on it. ``progress`` shows a bar: None on a terminal only, True or False always or never.
        Ctrl-C stops after the iteration in hand and returns what there is, with honest error bars and a status
        that says so; a second Ctrl-C interrupts at once.
        """
        test, convert = self._test_points(X_test)
        prior_mean = self.prior.mean(test).to(self.gram.dtype)
        crosses = self._crosses(test, batch_size)
        batches = []
        with Interrupt() as interrupt, progress_bar("predict", len(test), progress) as advance:
            for cross, mean in zip(crosses, torch.split(prior_mean, crosses[0].size), strict=True):
                weights = self.solve(cross, interrupt=interrupt)
                batches.append(Solved.of(self, cross, weights, mean, keep=len(crosses) == 1))
                advance(cross.size)
        return Posterior(self, batches, convert, self._status(batches, interrupt.requested))

    def iterate(self, X_test: ArrayLike) -> Iterator[Posterior]:
        """The posteriors at X_test (T, p) after iterations 1, 2, 3, …, as they are computed.

        All test points are worked on together, so they must fit the memory budget.
        """
        test, convert = self._test_points(X_test)
        prior_mean = self.prior.mean(test).to(self.gram.dtype)
        (cross,) = self._crosses(test, len(test))
        for weights in self._prepared.weights(cross):
            if weights.iteration:
                message = f"Iteration {weights.iteration} of {self.solver!r}, {weights.passes:g} passes over G."
                batch = Solved.of(self, cross, weights.frozen(), prior_mean, keep=True)
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
        given = certified(values, cross)
        batch = Solved.of(self, cross, given, self.prior.mean(test).to(self.gram.dtype), keep=True)
        return Posterior(self, [batch], convert, Status("given", "The weights were given."))

    def predict_mean(self, X_test: ArrayLike) -> Any:
        """The posterior mean at X_test (T, p), shape (T,), without variances: T times cheaper where the solver allows.

        The same number as ``predict(X_test).mean``.
        """
        coefficients = self._prepared.coefficients()
        if coefficients is None:
            return self.predict(X_test).mean
        for last in coefficients:
            v = last
        return next(self._means(X_test, iter([v])))

    def iterate_mean(self, X_test: ArrayLike) -> Iterator[Any]:
        """The posterior means at X_test (T, p) after iterations 1, 2, 3, …, each of shape (T,), without variances."""
        coefficients = self._prepared.coefficients()
        if coefficients is None:
            return (posterior.mean for posterior in self.iterate(X_test))
        next(coefficients)  # iteration 0
        return self._means(X_test, coefficients)

    def _means(self, X_test: ArrayLike, coefficients: Iterator[torch.Tensor]) -> Iterator[Any]:
        """m₀ + V v for each v (d,) of ``coefficients``."""
        test, convert = self._test_points(X_test)
        prior_mean = self.prior.mean(test).to(self.gram.dtype)
        crosses = self._crosses(test, None)
        for v in coefficients:
            products = []
            for cross in crosses:
                products.append(cross.matrix @ v)
                if len(crosses) > 1:  # V as a whole would exceed the budget
                    cross.forget()
            yield convert(prior_mean + torch.cat(products))

    # --- how ------------------------------------------------------------------------------------------------------

    def _test_points(self, X_test: ArrayLike) -> tuple[torch.Tensor, Callable[[torch.Tensor], Any]]:
        test = points(X_test, "X_test", self._device, columns=self._columns)
        if isinstance(X_test, torch.Tensor):
            home = X_test.device
            return test, lambda tensor: tensor.to(home)
        return test, lambda tensor: tensor.cpu().numpy()

    def _crosses(self, test: torch.Tensor, batch_size: int | None) -> list[Cross]:
        """The test points in batches, nothing computed yet."""
        embedding = self.prior.kernel.embed(test, self._origin)
        size = self._batch_size(len(test), batch_size)
        return [self.gram.cross(_slice(embedding, start, start + size)) for start in range(0, len(test), size)]

    def _batch_size(self, T: int, asked: int | None) -> int:
        per_point = _ROWS_PER_TEST_POINT * self.gram.size * self.gram.dtype.itemsize
        spare = self.gram.working_budget
        remedy = "predict fewer points at a time, or raise memory_budget"
        if asked is not None:
            size = min(count(asked, "batch_size", minimum=1), T)
            require(size * per_point, spare, f"a batch of {size} test points", remedy)
            return size
        require(per_point, spare, "a single test point", remedy)
        return min(T, spare // per_point)

    def solve(self, cross: Cross, iteration: int | None = None, interrupt: Interrupt | None = None) -> Weights:
        """The weights for a batch of test points: the last, or those after ``iteration``, or as far as it came."""
        if interrupt is not None and interrupt.requested:
            return zero_weights(cross.size, self.gram.size, self.b)
        if iteration is None and (final := self._prepared.final(cross)) is not None:
            return final
        for weights in self._prepared.weights(cross):
            if weights.iteration == iteration or (interrupt is not None and interrupt.requested):
                break
        return weights

    def _status(self, batches: Sequence[Solved], interrupted: bool) -> Status:
        size = human(self.gram.dense_bytes) if self.gram.storage == "dense" else "matrix-free"
        where = f" G: {self.gram.storage}, {size}."
        if not interrupted:
            return Status("finished", self._prepared.stopped(batches[0].iteration) + where)
        done: dict[int, int] = {}
        for batch in batches:
            done[batch.iteration] = done.get(batch.iteration, 0) + len(batch.mean)
        each = ", ".join(f"{n} test points after iteration {i}" for i, n in sorted(done.items(), reverse=True))
        message = f"Interrupted: {each}. Iteration 0 is the prior. The error bars are right for what was computed."
        return Status("interrupted", message + where)


def _slice(embedding: Embedding, start: int, stop: int) -> Embedding:
    return map_embedding(embedding, lambda part: part[:, start:stop])
