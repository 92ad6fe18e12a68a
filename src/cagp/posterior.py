"""The posterior at the test points, exact about its own error.

For *any* weights W that do not depend on y, the error of m₀ + Wᵀb has, under the prior, exactly the covariance

    C(W) = K″ − V W − Wᵀ Vᵀ + Wᵀ G W  =  C_exact + (W − W*)ᵀ G (W − W*).

The second form splits it into what the data leave unknown and what the computation left undone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch

from .algebra.weights import Weights
from .errors import MemoryBudgetError
from .gram import Cross
from .predicting.batch_bounds import bounds_of_batches
from .predicting.bounds import ComputationalVariance
from .predicting.conditioned import Conditioned
from .predicting.memory_plan import MemoryPlan
from .predicting.solved import Solved
from .predicting.solving import run_to
from .predicting.status import Status
from .prediction import Guarantee, Normal
from .solvers import Solver
from .support.convert import Output
from .support.memory import human
from .support.positive_definite import joint_draws
from .support.validation import ArrayLike, as_float64, count

UNDER_THE_PRIOR = Guarantee(
    "under the prior",
    "The error bars are exactly right if the data follow the prior: they say nothing about a prior that does not fit.",
)
NO_GUARANTEE = Guarantee(
    "none", "The solver takes its directions from y, so its error bars are not calibrated, even under the prior."
)


def guarantee_of(solver: Solver) -> Guarantee:
    """When error bars hold that are made with the weights of a solver."""
    return UNDER_THE_PRIOR if solver.calibrated else NO_GUARANTEE


class Posterior(Normal):
    """A Gaussian belief about f at the test points; made by ``Model.predict``.

    ``mean``, ``variance`` and ``std`` have shape (T,) and are about the latent f; ``observed()`` is about y.
    ``status`` says why the solver stopped.
    """

    def __init__(
        self,
        model: Conditioned,
        batches: Sequence[Solved],
        convert: Output,
        status: Status,
        test: torch.Tensor,
    ) -> None:
        self._model, self._test = model, test
        self._batches = tuple(batches)
        limited = sum(int(batch.at_rounding.sum()) for batch in batches)
        if limited:
            note = f" The variance of {limited} test points is below what rounding can resolve; its limit is reported."
            status = replace(status, circumstances=status.circumstances + note)
        super().__init__(
            torch.cat([batch.mean for batch in batches]),
            torch.cat([batch.variance for batch in batches]),
            model.recipe.prior.new_noise(test),
            status,
            guarantee_of(model.recipe.solver),
            convert,
        )

    def __repr__(self) -> str:
        what = "" if self._noise is None else ", observations"
        return f"Posterior({len(self)} test points{what}, {self._model.recipe.solver!r}, {self.status.reason})"

    # --- covariances ----------------------------------------------------------------------------------------------

    def covariance(self) -> Any:
        """The posterior covariance between all test points, shape (T, T); computed when asked for."""
        return self._convert(self._covariance())

    def _covariance(self) -> torch.Tensor:
        cross, W = self._single_batch()
        MemoryPlan(self._model).require_covariance(len(W))
        residual = cross.matrix - cross.gram.matmul(W)
        C = cross.prior_covariance() - cross.matrix @ W.T - W @ residual.T
        C = (C + C.T) / 2
        C.diagonal().copy_(self._total_variance())
        return C

    def _single_batch(self) -> tuple[Cross, torch.Tensor]:
        MemoryPlan(self._model).require_dense_weights(len(self._mean))
        cross, weights = self._single()
        return cross, weights.dense()

    def _single(self) -> tuple[Cross, Weights]:
        batch = self._batches[0]
        if len(self._batches) > 1:
            size = human(len(self._mean) * self._model.gram.size * self._model.gram.dtype.itemsize)
            raise MemoryBudgetError(
                f"the weights of {len(self._mean)} test points ({size}) were not kept: they did not fit the memory "
                f"budget of {human(self._model.recipe.budget)} beside the work, or batch_size cut them up; predict "
                "fewer points at a time, raise memory_budget, or leave batch_size out"
            )
        # solved elsewhere: once more
        return batch.cross, batch.weights or run_to(self._model, batch.cross, batch.iterations)

    # --- what users do with it ------------------------------------------------------------------------------------

    @property
    def weights(self) -> Any:
        """The kriging weights W, shape (d, T), rows in the order of the training points: mean = m₀ + Wᵀ (y − m₀(X))."""
        _, rows = self._single_batch()
        return self._convert(rows.T)

    def sample(self, n: int = 1, seed: int = 0) -> Any:
        """``n`` joint draws at the test points, shape (n, T). The same ``seed`` gives the same draws.

        From the covariance of all test points where that fits the memory budget, else by ``Model.simulate``.
        """
        count(n, "n", minimum=1)
        remedy = "condition with dtype=torch.float64 or a larger noise_variance"
        seed = count(seed, "seed")
        try:
            covariance = self._covariance()
        except MemoryBudgetError:
            return self._simulated(n, seed)
        scale = float(self._model.gram.kernel_diagonal().max())
        return self._convert(joint_draws(self._mean, covariance, n, seed, "the posterior covariance", remedy, scale))

    def _simulated(self, n: int, seed: int) -> Any:
        from .fields import ModelSimulator

        crosses = [batch.cross for batch in self._batches]
        iterations = torch.cat([batch.iterations for batch in self._batches])
        simulator = ModelSimulator(self._model, self._test, self._convert, crosses, iterations=iterations)
        return simulator.draw(n, seed, noise_variance=self._noise, progress=False).fields

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


def kept(model: Conditioned, X_test: ArrayLike, mean: ArrayLike, variance: ArrayLike) -> Normal:
    """A posterior at X_test (T, p) of which the mean and the variance of f, each (T,), were kept and nothing else."""
    status = Status("kept", "The mean and the variance were computed before.")
    return Normal(
        as_float64(mean, "mean", model.device),
        as_float64(variance, "variance", model.device),
        model.recipe.prior.new_noise(as_float64(X_test, "X_test", model.device)),
        status,
        guarantee_of(model.recipe.solver),
        Output.like(mean),
    )
