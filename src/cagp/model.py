"""A prior that has seen data: predictions at any points."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from .algebra.weights import certified
from .errors import DivergenceError, InputError, InputTypeError
from .posterior import Posterior, guarantee_of
from .predicting.batches import Batches
from .predicting.elsewhere import find_workers, solve_with
from .predicting.memory_plan import MemoryPlan
from .predicting.solved import Solved
from .predicting.solving import Iterates, outcome_of
from .predicting.status import Status, status_of
from .predicting.with_data import WithData
from .prediction import Guarantee, Prediction
from .stopping import Rule
from .support.interrupt import Interrupt
from .support.progress import progress as progress_bar
from .support.validation import ArrayLike, as_float64

if TYPE_CHECKING:  # shortcuts into rooms above: a model can save and judge itself
    from .fields import Average, ModelSimulator, Simulation, Wanted
    from .left_out import Gaps, Geometry, LeftOut
    from .recalibration import ConformalModel, RecalibratedModel
    from .saving import About


class Model(WithData):
    """A prior conditioned on data with a solver; made by ``Prior.condition``.

    ``column_names`` are those of a data frame, None for anything else. ``recipe`` is what it takes to make the model
    again. ``gram`` and ``b`` = y − m₀(X) (d,) are in the order of the data.
    """

    def __repr__(self) -> str:
        picked = f" → {self.prepared.picked!r}" if self.prepared.picked else ""
        return f"Model({self.prior!r}, {self.prepared.gram!r}, solver={self.solver!r}{picked})"

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
        test, convert = self.test_points(X_test)
        if stop is not None and not isinstance(stop, Rule):
            raise InputTypeError(f"stop must be a rule such as ComputationalShare(0.05) | Seconds(60), got {stop!r}")
        workers = find_workers(n_jobs, devices)
        start, where = time.perf_counter(), ""
        model, cross, expected = self.settled(test)
        rule = stop if model.prepared.limit > 1 else None  # one step cannot be stopped
        size = MemoryPlan(model).batch(len(test), batch_size, rule)
        work = Batches(model, cross, self.offset(test), rule, size)
        with Interrupt() as interrupt, progress_bar("predict", len(test), progress) as advance:
            if workers is None:
                solved = work.solve(interrupt, advance)
            else:
                solved, where = solve_with(workers, work, batch_size is not None, interrupt, advance)
        seconds = time.perf_counter() - start
        status = status_of(model, solved, stop, interrupt.requested, seconds, where, expected)
        return Posterior(model, solved, convert, status, test)

    def average(
        self,
        X_test: ArrayLike,
        weights: ArrayLike | None = None,
        by: ArrayLike | None = None,
        *,
        stop: Rule | None = None,
        batch_size: int | None = None,
        progress: bool | None = None,
    ) -> Average:
        """The posterior of averages of f over the points X_test (T, p), or of other linear functionals of it.

        ``weights`` (T,) are those of one functional, (m, T), dense or sparse, those of m of them, taken as they are:
        1/T each for a mean, 1 and −1 for a difference, those of a quadrature for an integral. ``by`` (T,) are labels:
        the mean of each group, whose points count equally or by ``weights`` (T,), which are divided by their sum in
        each group; the result has the labels as ``groups``. With neither it is the mean over all points.

        The errors at different points go together, and how they do is taken into account exactly: the error bar of a
        mean is neither the mean of the error bars nor that over √T. It is as calibrated as a prediction. m averages
        cost m right-hand sides, not T, and T d + T²/2 kernel values, computed in tiles; for nearest neighbours d is the
        number of training points near any of the points. ``stop``, ``batch_size`` and ``progress`` are those of
        ``predict``, for averages in place of test points.

        >>> import numpy as np, cagp
        >>> X = np.linspace(0, 1, 50)[:, None]
        >>> model = cagp.Prior(cagp.Matern32(0.2), noise_variance=0.01).condition(X, np.sin(6 * X[:, 0]))
        >>> halves = model.average(X, by=X[:, 0] > 0.5)
        >>> halves.groups, halves.mean.shape, halves.covariance().shape
        (array([False,  True]), (2,), (2, 2))
        """
        from .fields import wanted

        test, _ = self.test_points(X_test)
        settings = {"stop": stop, "batch_size": batch_size, "progress": progress}
        return self.averaged(X_test, wanted(len(test), weights, by), **settings)

    def averaged(self, X_test: ArrayLike, asked: Wanted, **settings: Any) -> Average:
        """The functionals ``asked`` for, already checked; a layer around a model changes what this gives."""
        from .fields import average

        test, convert = self.test_points(X_test)
        return average(self, test, asked, convert, **settings)

    def iterate(self, X_test: ArrayLike, only: Collection[int] | None = None) -> Iterator[Posterior]:
        """The posteriors at X_test (T, p) after iterations 1, 2, 3, …, as they are computed.

        With ``only``, those after these iterations: cheaper where the solver works in a lower precision, because each
        posterior then costs a product with G. All test points are worked on together, so they must fit the memory
        budget.
        """
        test, convert = self.test_points(X_test)
        model, cross, _ = self.settled(test)
        MemoryPlan(model).batch(len(test), len(test))
        prior_mean, iterates = self.offset(test), Iterates(model, cross)
        for weights in iterates:
            if weights.iteration and (only is None or weights.iteration in only):
                message = f"Iteration {weights.iteration} of {self.solver!r}, {weights.passes:g} passes over G."
                outcome = outcome_of(iterates.reported(weights.frozen()))
                batch = Solved.of(model, cross, outcome, prior_mean, keep=True)
                yield Posterior(model, [batch], convert, Status("iterating", message), test)

    def posterior(self, X_test: ArrayLike, weights: ArrayLike) -> Posterior:
        """The posterior at X_test (T, p) from any kriging weights W (d, T), one column a test point.

        Whoever made them, and however badly: if they do not depend on y, the error bars are calibrated. Costs one
        product with G. Where the mean is unknown, they are made unbiased first.
        """
        test, convert = self.test_points(X_test)
        W = as_float64(weights, "weights", self.device).to(self.gram.dtype)
        if W.shape != (self.gram.size, len(test)):
            raise InputError(
                f"weights must have shape {(self.gram.size, len(test))}, one row a training point and one column a "
                f"test point, got {tuple(W.shape)}"
            )
        model, cross, _ = self.settled(test)
        MemoryPlan(model).batch(len(test), len(test))
        weights_given = certified(W.T.contiguous(), cross)
        if model.unbiasing is not None:
            weights_given = model.unbiasing.unbiased(weights_given, cross)
        given = outcome_of(weights_given)
        batch = Solved.of(model, cross, given, self.offset(test), keep=True)
        return Posterior(model, [batch], convert, Status("given", "The weights were given."), test)

    def prior_at(self, X_test: ArrayLike) -> Posterior:
        """What is known at X_test (T, p) before any iteration: the prior, or what an unknown trend alone says."""
        test, convert = self.test_points(X_test)
        cross = self.unarranged(test)
        nothing = outcome_of(Iterates(self, cross).nothing())
        batch = Solved.of(self, cross, nothing, self.offset(test), keep=False)
        return Posterior(self, [batch], convert, Status("prior", "Nothing was computed yet."), test)

    def predict_mean(self, X_test: ArrayLike) -> Any:
        """The posterior mean at X_test (T, p), shape (T,), without variances: T times cheaper where the solver allows.

        The same number as ``predict(X_test).mean``.
        """
        model = self._settled_at(X_test)
        coefficients = model._coefficients()
        if coefficients is None:
            return model.predict(X_test).mean
        *_, last = coefficients
        return next(model._means(X_test, iter([last])))

    def iterate_mean(self, X_test: ArrayLike) -> Iterator[Any]:
        """The posterior means at X_test (T, p) after iterations 1, 2, 3, …, each of shape (T,), without variances."""
        model = self._settled_at(X_test)
        coefficients = model._coefficients()
        if coefficients is None:
            return (posterior.mean for posterior in model.iterate(X_test))
        next(coefficients)  # iteration 0
        return model._means(X_test, coefficients)

    def _settled_at(self, X_test: ArrayLike) -> Model:
        """The model with the solver that predicts X_test, where ``Auto`` has yet to pick it."""
        return self.settled(self.test_points(X_test)[0])[0] if self.solver.picks else self

    def _coefficients(self) -> Iterator[torch.Tensor] | None:
        return self.prepared.coefficients((self.b - self._estimated(None)).to(self.recipe.solve_dtype))

    def _estimated(self, test: torch.Tensor | None) -> torch.Tensor:
        """What the estimated trend adds to the offset at test points (T, p), or at the training points."""
        if self.basis is None or self.unbiasing is None:
            return torch.zeros((), dtype=self.gram.dtype, device=self.device)
        functions = self.basis.at_training_points if test is None else self.basis(test)
        return functions.to(self.gram.dtype) @ self.unbiasing.estimate(self.b)

    @property
    def means_are_cheap(self) -> bool:
        """Whether the solver has means without variances, at a fraction of the cost."""
        return self._coefficients() is not None

    def _means(self, X_test: ArrayLike, coefficients: Iterator[torch.Tensor]) -> Iterator[Any]:
        """m₀ + V v for each v (d,) of ``coefficients``."""
        test, convert = self.test_points(X_test)
        prior_mean, size = self.offset(test) + self._estimated(test), MemoryPlan(self).means(len(test))
        crosses = [self.unarranged(part) for part in test.split(size)]
        for v in coefficients:
            products = []
            for cross in crosses:
                products.append(cross.matrix @ v.to(self.gram.dtype))
                if len(crosses) > 1:  # V as a whole would exceed the budget
                    cross.forget()
            means = prior_mean + torch.cat(products)
            if not bool(torch.isfinite(means).all()):
                raise DivergenceError(f"the means of {self.solver!r} are no longer finite; use a method that converges")
            yield convert(means)

    def simulate(
        self,
        X_test: ArrayLike,
        n: int = 1,
        seed: int = 0,
        *,
        observed: bool = False,
        noise_variance: Any = None,
        first: int = 0,
        method: str = "auto",
        progress: bool | None = None,
    ) -> Simulation:
        """``n`` joint draws of f at X_test (T, p): whole fields, with exactly the mean and covariance of the posterior.

        ``fields`` of the result has shape (n, T); ``how`` says how the prior was drawn and how good that is. With
        ``observed`` the fields are of new observations: noise is added, of ``noise_variance`` where that is given.

        ``method`` is how the prior is drawn at all points together: "dense" is exact, for a few thousand points;
        "circulant" is exact on regular grids that training and test points share; "vecchia" draws each point given its
        neighbours, anywhere, which is approximate. "auto" takes the first of them that suits the points and fits the
        memory budget.

        Field i depends on the model, X_test, the ``seed`` and i alone, not on n, on batches or on the device but for
        rounding: ``first`` = 10 gives the fields from number 10 on, so that many fields can be drawn in several calls.
        ``simulator`` keeps what such calls share.
        """
        simulator = self.simulator(X_test, method=method)
        return simulator.draw(n, seed, first=first, observed=observed, noise_variance=noise_variance, progress=progress)

    def simulator(self, X_test: ArrayLike, *, method: str = "auto") -> ModelSimulator:
        """What draws fields at X_test (T, p), in several calls of ``draw(n, seed, first=…)``; see ``simulate``."""
        from .fields import ModelSimulator

        test, convert = self.test_points(X_test)
        return ModelSimulator.of(self, test, convert, method)

    def left_out(
        self,
        like: ArrayLike | None = None,
        n: int | None = None,
        seed: int = 0,
        *,
        progress: bool | None = None,
    ) -> LeftOut:
        """Training observations predicted from the others: how the error bars hold on the data.

        With the hyperparameters of the model, which have seen them; the weights have not. ``n`` of them, drawn with
        ``seed``, by default all up to 100,000. An exact solver has them in closed form; NearestNeighbours predicts each
        from its neighbours; other solvers condition on a part of the data several times where that takes seconds, else
        neighbours stand in for them, and ``how`` says so.

        Leaving out single observations judges predictions next to data. ``like`` = X_test (T, p) judges those at the
        distances from the data that these test points have: around each observation all data are left out that are
        nearer than the nearest datum of one of them, drawn at random.
        """
        from .left_out import left_out

        return left_out(self, like, n, seed, progress)

    def leave_out(
        self,
        geometry: Geometry,
        rows: np.ndarray,
        gaps: Gaps | None,
        advance: Callable[[float], None] = lambda steps: None,
        seed: int = 0,
        correlated: bool = False,
    ) -> LeftOut:
        """The training points ``rows`` (n,) predicted from the others, but for those in the gap of each."""
        from .left_out import leave_out

        return leave_out(self, geometry, rows, gaps, advance, seed, correlated)

    @property
    def guarantee(self) -> Guarantee:
        """When the error bars of its predictions hold."""
        return guarantee_of(self.solver)

    @property
    def plain(self) -> Model:
        """The model itself; of a recalibrated model, the one that knows its prior alone."""
        return self

    def over(self, prediction: Prediction, X_test: ArrayLike) -> Prediction:
        """A prediction of this model at X_test (T, p) as it is; a recalibrated model changes its error bars."""
        return prediction

    def recalibrated(
        self,
        like: ArrayLike | None = None,
        n: int | None = None,
        seed: int = 0,
        *,
        calibration: tuple[ArrayLike, ArrayLike] | None = None,
        progress: bool | None = None,
    ) -> RecalibratedModel | ConformalModel:
        """The model with the same means and weights, and error bars that hold on its data, not only under its prior.

        Left-out predictions say how large errors are compared with what was promised: around each place, and at its
        distance from the data, for which gaps are left out too: of the widths of those that ``like`` = X_test (T, p)
        lies in, or of all widths. The std is scaled by that; intervals, quantiles, densities and samples get the shape
        of the left-out errors. This is empirical: right for observations like those left out. ``n`` single observations
        are left out, by default all up to a million.

        ``calibration`` = (X, y) are observations that the model has not seen: the result is a split conformal
        prediction on top, whose intervals hold at least as often as they promise, if new observations are exchangeable
        with these. The ``guarantee`` of a prediction says which of them holds. This model itself is not changed.
        """
        from .recalibration import recalibrated

        return recalibrated(self, like, n, seed, calibration=calibration, progress=progress)

    def jackknife_interval(
        self, X_test: ArrayLike, level: float = 0.95, *, noise_variance: Any = None
    ) -> tuple[Any, Any]:
        """Jackknife+ intervals for new observations at X_test (T, p): (lower, upper), each (T,). For exact solvers.

        For observations that are exchangeable with those of the model they hold at least 1 − 2 (1 − ``level``), 90% for
        a ``level`` of 95%, whatever the kernel, and usually about ``level``; this takes the hyperparameters as chosen
        without these data. No data are set aside for it, as ``recalibrated(calibration=…)`` does. Where there are too
        few observations for the level, fewer than 19 for 95%, intervals are infinite. ``noise_variance`` is that of the
        new observations, by default the prior's, where that is one number.
        """
        from .recalibration.jackknife import jackknife_interval

        return jackknife_interval(self, X_test, level, noise_variance)
