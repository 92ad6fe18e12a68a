"""The posterior at the test points, exact about its own error.

For *any* weights W that do not depend on y, the error of m₀ + Wᵀb has, under the prior, exactly the covariance

    C(W) = K″ − V W − Wᵀ Vᵀ + Wᵀ G W  =  C_exact + (W − W*)ᵀ G (W − W*).

The second form splits it into what the data leave unknown and what the computation left undone.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from typing import Any

import scipy.sparse as sp
import torch

from .algebra.weights import Weights, certified
from .errors import MemoryBudgetError
from .fields import ComponentSimulator
from .gram import Cross, error_covariance
from .predicting.batches import Batches, Workers, bounds_of_batches
from .predicting.bounds import ComputationalVariance
from .predicting.conditioned import Conditioned, Known
from .predicting.memory_plan import MemoryPlan
from .predicting.solving import Iterates, Solved, joined, run, run_to
from .predicting.status import Status, status_of
from .prediction import Prediction, guarantee_of
from .solvers import Solver
from .stopping import Rule
from .support.convert import Output
from .support.interrupt import Interrupt
from .support.memory import human
from .support.positive_definite import joint_draws
from .support.progress import Advance
from .support.threads import threads_for
from .support.validation import count
from .workers.devices import Devices

_VALUE = 30  # operations in a value of a kernel


class Posterior(Prediction):
    """The prediction of one prior: of a model that is just that, and among the ``components`` of all others."""

    def __init__(
        self, component: Conditioned, batches: Sequence[Solved], convert: Output, status: Status, test: torch.Tensor
    ) -> None:
        self._component, self._test, self._batches = component, test, tuple(batches)
        limited = sum(int(batch.at_rounding.sum()) for batch in batches)
        if limited:
            note = f" The variance of {limited} test points is below what rounding can resolve; its limit is reported."
            status = status.noting(note)
        super().__init__(
            joined([batch.mean for batch in batches])[None],
            joined([batch.variance for batch in batches])[None],
            new_noise=component.prior.new_noise(test),
            status=status,
            guarantee=guarantee_of(
                component.solver, outliers=len(component.prior.outliers), learned=component.prior.mean.learned
            ),
            convert=convert,
        )
        self._dtype = component.gram.dtype

    def __repr__(self) -> str:
        what = ", observations" if self.includes_noise else ""
        return f"Posterior({len(self)} test points{what}, {self._component.solver!r}, {self.status.reason})"

    @property
    def components(self) -> tuple[Prediction, ...]:
        return (self,)

    def covariance(self) -> Any:
        """The posterior covariance between all test points, shape (T, T); computed when asked for."""
        C = self.latent_covariance()
        C.diagonal().add_(self._noise.to(C))
        return self._convert(C)

    def latent_covariance(self) -> torch.Tensor:
        """That of f, in the arithmetic of the model."""
        cross, W = self._single_batch()
        MemoryPlan([self._component]).require_covariance(len(W))
        residual = cross.matrix - cross.gram.matmul(W)
        C = cross.prior_covariance() - cross.matrix @ W.T - W @ residual.T
        C = (C + C.T) / 2
        C.diagonal().copy_(self._variances[0])
        return C

    def error_covariance(self, rows: slice | torch.Tensor, columns: slice | torch.Tensor) -> torch.Tensor:
        """C(W) between the errors of f at ``rows`` (a,) of the test points and at ``columns`` (b,), shape (a, b)."""
        cross, weights = self._single()
        A, B = cross.rows(rows), cross.rows(columns)
        if self.sparse_weights is not None:
            places = (part if isinstance(part, slice) else part.cpu().numpy() for part in (rows, columns))
            W, U = (self.sparse_weights[part] for part in places)
            return error_covariance(A, W, B, U).double()
        W, U = (weights.rows(part).dense() for part in (rows, columns))
        residual = cross.matrix[rows] - cross.gram.matmul(W)
        return (cross.kernel.matrix(A.test, B.test) - W @ cross.matrix[columns].T - residual @ U.T).double()

    @cached_property
    def sparse_weights(self) -> sp.csr_array | None:
        """The kriging weights as sparse rows (T, d), where the solver uses some of the training points only."""
        weights = self._single()[1]
        return weights.sparse() if weights.is_sparse else None

    @property
    def search_coordinates(self) -> torch.Tensor | None:
        """The test points where near means strongly correlated, shape (T, q); None where the kernel has no such."""
        return self._component.gram.search_coordinates(self._batches[0].cross.test)

    @property
    def variances_tensor(self) -> torch.Tensor:
        """The variance of f at each test point, shape (T,)."""
        return self._variances[0]

    @property
    def working_budget(self) -> int:
        """The bytes that work on the prediction may take."""
        return self._component.gram.working_budget

    @property
    def _prior_scale(self) -> float:
        return float(self._component.gram.kernel_diagonal().max())

    def _single_batch(self) -> tuple[Cross, torch.Tensor]:
        MemoryPlan([self._component]).require_dense_weights(len(self))
        cross, weights = self._single()
        return cross, weights.dense()

    def _single(self) -> tuple[Cross, Weights]:
        batch, component = self._batches[0], self._component
        if len(self._batches) > 1:
            size = human(len(self) * component.gram.size * component.gram.dtype.itemsize)
            raise MemoryBudgetError(
                f"the weights of {len(self)} test points ({size}) were not kept: they did not fit the memory "
                f"budget of {human(component.recipe.budget)} beside the work, or batch_size cut them up; predict "
                "fewer points at a time, raise memory_budget, or leave batch_size out"
            )
        # solved elsewhere, or not kept: once more
        return batch.cross, batch.weights or run_to(component, batch.cross, batch.iterations)

    @property
    def weights(self) -> Any:
        """The kriging weights W, shape (d, T), rows in the order of the training points: mean = m₀ + Wᵀ (y − m₀(X))."""
        _, rows = self._single_batch()
        return self._convert(rows.T)

    def sample(self, n: int = 1, seed: int = 0) -> Any:
        """``n`` joint draws, shape (n, T): from the covariance where that fits the memory budget, else simulated."""
        n, seed = count(n, "n", minimum=1), count(seed, "seed")
        remedy = "condition with dtype=torch.float64 or a larger noise_variance"
        try:
            covariance = self.latent_covariance()
        except MemoryBudgetError:
            return self._simulated(n, seed)
        covariance.diagonal().add_(self._noise.to(covariance))
        mean, what = self._means[0].to(covariance), "the posterior covariance"
        return self._convert(joint_draws(mean, covariance, n, seed, what, remedy, self._prior_scale))

    def _simulated(self, n: int, seed: int) -> Any:
        crosses = [batch.cross for batch in self._batches]
        simulator = ComponentSimulator(self._component, self._test, crosses, iterations=self.iterations_tensor)
        fields = simulator.fields(range(n), seed, progress=False)
        for number, field in enumerate(fields):
            field += self._noise.sqrt().to(field) * simulator.new_noise(seed, number).to(field)
        return self._convert(fields)

    @property
    def iterations_tensor(self) -> torch.Tensor:
        """How many iterations each test point got, shape (T,)."""
        return joined([batch.iterations for batch in self._batches])

    @property
    def passes(self) -> float:
        """How often the whole Gram matrix was read, in all batches together."""
        return sum(batch.passes for batch in self._batches)

    @cached_property
    def bounds(self) -> ComputationalVariance:
        """Bounds on the computational variance, as tensors.

        They cost three products with G, which for nearest neighbours is far more than the prediction: ask for some of
        the test points. Weights that were not kept are computed again, by workers where ``joblib`` is told of any.
        """
        return bounds_of_batches(self._component, self._batches)


def at_prior(component: Conditioned, test: torch.Tensor, convert: Output) -> Posterior:
    """What is known at test points (T, p) before any iteration."""
    cross = component.cross(test)
    batch = Solved.of(component, cross, component.offset(test), False, Iterates(component, cross).nothing())
    return Posterior(component, [batch], convert, Status("prior", "Nothing was computed yet."), test)


def from_weights(component: Conditioned, test: torch.Tensor, convert: Output, W: torch.Tensor) -> Posterior:
    """The posterior at test points (T, p) with kriging weights W (d, T), made unbiased where the mean is unknown."""
    ready, cross, _ = component.ready_for(test)
    MemoryPlan([ready]).batch(len(test), len(test))
    given = certified(W.T.contiguous(), cross)
    if ready.unbiasing is not None:
        given = ready.unbiasing.unbiased(given, cross)
    batch = Solved.of(ready, cross, component.offset(test), True, given)
    return Posterior(ready, [batch], convert, Status("given", "The weights were given."), test)


def with_weights(component: Conditioned, test: torch.Tensor, convert: Output) -> Posterior:
    """The posterior at test points (T, p) that are solved all at once, with their weights."""
    ready, cross, expected = component.ready_for(test)
    MemoryPlan([ready]).batch(len(test), len(test))
    started, interrupt = time.perf_counter(), Interrupt()
    batch = Solved.of(ready, cross, component.offset(test), True, *run(ready, cross, [], interrupt, lambda steps: None))
    status = status_of(ready, [batch], None, False, time.perf_counter() - started, "", expected)
    return Posterior(ready, [batch], convert, status, test)


def iterated(
    component: Conditioned, cross: Cross, test: torch.Tensor, convert: Output, only: Collection[int] | None
) -> Iterator[Posterior]:
    """The posteriors after iterations 1, 2, 3, …, or after those in ``only``."""
    offset, iterates = component.offset(test), Iterates(component, cross)
    for weights in iterates:
        if weights.iteration and (only is None or weights.iteration in only):
            message = f"Iteration {weights.iteration} of {component.solver!r}, {weights.passes:g} passes over G."
            batch = Solved.of(component, cross, offset, True, iterates.reported(weights.frozen()))
            yield Posterior(component, [batch], convert, Status("iterating", message), test)


def stacked(found: Sequence[Prediction]) -> tuple[torch.Tensor, torch.Tensor]:
    """The means and the variances of several posteriors at the same points, each (m, T), float64."""
    return torch.cat([each._means for each in found]), torch.cat([each._variances for each in found])


def solve(
    components: Sequence[Conditioned],
    test: torch.Tensor,
    convert: Output,
    *,
    stop: Rule | None = None,
    batch_size: int | None = None,
    interrupt: Interrupt | None = None,
    advance: Advance = lambda steps: None,
    workers: Workers | Devices | None = None,
) -> list[Posterior]:
    """The posteriors of components at test points (T, p); the keywords are those of ``solve_each``."""
    interrupt = interrupt or Interrupt()
    with threads_for(_operations(components, len(test))):
        known: Known = {}
        seen = [component.ready_for(test, known) for component in components]
        with threads_for(_operations([component for component, *_ in seen], len(test))):
            offsets = [component.offset(test, known) for component in components]
            found = solve_each(seen, offsets, stop, batch_size, interrupt, advance, workers)
        return [Posterior(component, solved, convert, status, test) for component, solved, status in found]


def _operations(components: Sequence[Conditioned], tests: int) -> float:
    """About how many operations the predictions at ``tests`` points by the component that needs the most take; of
    ``Auto`` what it may have to prepare.
    """
    size = len(components[0].recipe.y)
    if any(component.undecided for component in components):
        return float(size**3)
    most = 0.0
    for component in components:
        flops, values = _flops_and_values(component, tests)
        most = max(most, _at_work(component).worth_threads * (flops + _VALUE * values))
    return most


def _flops_and_values(component: Conditioned, tests: int) -> tuple[float, float]:
    """About how many operations of algebra, and how many values of a kernel, predictions at ``tests`` points take."""
    all_of_it, before = (_at_work(component).operations(len(component.recipe.y), n) for n in (tests, 0))
    return all_of_it.flops - before.flops, all_of_it.kernel_values - before.kernel_values


def _at_work(component: Conditioned) -> Solver:
    """The solver, or what ``Auto`` has picked."""
    return component.prepared.picked or component.solver


def solve_each(
    seen: Sequence[tuple[Conditioned, Cross, str]],
    offsets: Sequence[torch.Tensor],
    stop: Rule | None,
    batch_size: int | None,
    interrupt: Interrupt,
    advance: Advance,
    workers: Workers | Devices | None = None,
) -> Iterator[tuple[Conditioned, list[Solved], Status]]:
    """Components one after another, with one budget of time and memory: each with its batches and its status.

    ``seen`` are those of ``Conditioned.ready_for``, ``offsets`` their prior means (T,).
    """
    started, plan = time.perf_counter(), MemoryPlan([component for component, _, _ in seen])
    values = sum(
        _flops_and_values(component, cross.size)[1] for component, cross, _ in seen
    )  # one code for all of them
    for i, ((component, cross, expected), offset) in enumerate(zip(seen, offsets, strict=True)):
        cross.gram.expect(values, in_short_rows=False)
        begun, where = time.perf_counter(), ""
        rule = stop if component.prepared.limit > 1 else None  # one step cannot be stopped
        size, keep = plan.batch(cross.size, batch_size, rule), plan.keeps(cross.size)
        if rule is not None:
            rule = rule.after(begun - started).shared(len(seen) - i)
        work = Batches(component, cross, offset, rule, size, keep)
        if workers is None:
            solved = work.solve(interrupt, advance)
        else:
            solved, where = work.solve_with(workers, batch_size is not None, interrupt, advance)
        seconds = time.perf_counter() - begun
        yield component, solved, status_of(component, solved, stop, interrupt.requested, seconds, where, expected)
