"""A model: priors that have seen data, what was learned about their error bars, and how it came about."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from .averages import SCALED, Average, Functional, LinearAverage, SimulatedAverage, solve_functionals
from .design import Design, choose, each_of
from .errors import DataWarning, InputError, InputTypeError
from .fields import ComponentSimulator, Found, Simulation, Simulator
from .gradient import Gradient, require_slopes, solve_slopes
from .left_out import LeftOut, left_out
from .model_parts import ModelParts
from .posterior import Posterior, at_prior, from_weights, iterated, solve, with_weights
from .predicting.batches import find_workers
from .predicting.beyond import tell_rows_beyond
from .predicting.compacting import essential
from .predicting.conditioned import Conditioned
from .predicting.distributions import NormalMixture
from .predicting.memory_plan import MemoryPlan
from .predicting.recipe import Recipe
from .predicting.solving import cheap_means, coefficients
from .predicting.status import Status, joint_status
from .predicting.unexplained import told_of_unexplained
from .prediction import Prediction, checked_noise
from .prior import Prior
from .recalibration import Conformal, Margins, Recalibration, brought_up_to_date, jackknife_interval, learn
from .solvers import Solver
from .stopping import Rule, require_rule
from .story import Story
from .support.advice import warn_caller
from .support.coordinate_systems import system_of
from .support.frames import dates_of, series_name
from .support.interrupt import Interrupt
from .support.progress import progress as progress_bar
from .support.threads import threads_for
from .support.validation import ArrayLike, as_float64, column_names, count, positive, targets

if TYPE_CHECKING:  # a short cut into a room above: a model can save itself
    from .reports.names import Names
    from .saving import About

_JUDGED = 100  # training points, as many places between them, and as many far away, judge a model made compact
_LIKE = "like lets single observations stand in for points, not for {}; leave like out"


def require_model(model: Any) -> None:
    """Refuse what is no ``Model``; other kinds of models say as ``instead`` what is one."""
    if isinstance(model, Model):
        return
    remedy = model.instead if hasattr(type(model), "instead") else "prior.condition(X, y) makes one"
    remedy = "its model_ is one" if isinstance(getattr(model, "model_", None), Model) else remedy
    raise InputTypeError(f"model must be a cagp.Model, got {type(model).__name__}; {remedy}")


class Model(ModelParts):
    """Priors conditioned on the same data that predict together: what ``cagp.fit``, ``Prior.condition``, ``load`` give.

    ``components`` are the conditioned priors, heaviest first, with ``weights`` (m,) that add up to one; many models
    have one. ``margins`` are what left-out errors taught about the error bars: a recalibration, a split conformal
    prediction, or None. ``transform`` is the map to the scale that was modelled, or None; ``limited`` says that its
    means look only as far as observations support them, see ``reach``. ``story`` tells how ``cagp.fit`` came to it,
    ``record`` is the same with its table, ``result`` what the fit of the heaviest candidate found. ``prior``,
    ``solver`` (as it was asked for), ``gram``, ``recipe`` and ``device`` are those of the heaviest component; ``X``
    (d, p) and ``y`` (d,), in float64, are the data, the model's own, not to be changed. Where they came as a data
    frame, ``column_names`` are those of the columns of ``X``, ``encodings`` say how they were made of the frame's, and
    ``crs`` is the coordinate system of their geometry, such as "EPSG:28992"; ``target_name`` is that of a series y,
    and ``about`` the ``cagp.saving.About`` of a folder or a gridded field, with units and notes, or None. With a
    ``quantity`` a model of points (x, i), see ``cagp.QuantitiesModel``, is about that one: it takes places x, and ``X``
    and ``y`` are those of its observations.
    """

    @classmethod
    def of(
        cls, prior: Prior, X: ArrayLike, y: ArrayLike, solver: Solver | str, device: torch.device, **settings: Any
    ) -> Model:
        """The prior conditioned on observations y (d,) at points X (d, p); ``settings`` are those of ``Recipe.of``."""
        recipe = Recipe.of(prior, X, y, solver, device, **settings)
        with threads_for(recipe.solver.worth_threads * len(recipe.y) ** 3):
            called: Any = {"column_names": column_names(X), "encodings": dates_of(X), "target_name": series_name(y)}
            return cls([Conditioned(recipe, device)], **called, crs=system_of(X, "X"))

    def save(self, folder: str | Path, *, about: About | None = None, overwrite: bool = False) -> Path:
        """Save the model as a folder that ``cagp.load`` reads; ``about`` holds names, units and notes.

        An existing model is replaced only with ``overwrite``. A CustomKernel or a mean that is a function cannot be
        saved. Needs safetensors.
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
    ) -> Prediction:
        """What is predicted at X_test (T, p). numpy in, numpy out; torch in, torch out.

        A model of one prior gives a ``Posterior``. Test points are worked on in batches that fit the memory budget, or
        of ``batch_size``; the results do not depend on it. ``stop`` ends the work on each test point before the
        solver's own limit, see ``cagp.stopping``: ``ComputationalShare(0.05) | Seconds(60)``. ``progress`` shows a bar:
        None on a terminal only, True or False always or never. Ctrl-C stops after the iteration in hand and returns
        what there is, with honest error bars and a status that says so; a second Ctrl-C interrupts at once. A
        ``DataWarning`` tells rows far beyond the observations of a model with a trend or a transform.

        ``n_jobs`` spreads the batches over that many workers of joblib, each with the model and the memory budget of
        its own; None goes by ``joblib.parallel_config`` (a Dask cluster, say), else it is this process, as with 1.
        ``devices`` spreads them over this machine's: "all" CUDA devices, or names such as ["cuda:0", "cuda:1"].
        """
        test, convert = self.test_points(X_test)
        tell_rows_beyond([self], test[:, : self.X.shape[1]])
        require_rule(stop)
        workers = find_workers(n_jobs, devices)
        with Interrupt() as interrupt, progress_bar("predict", len(test) * len(self.components), progress) as advance:
            settings: Any = {"stop": stop, "batch_size": batch_size, "interrupt": interrupt, "advance": advance}
            found = solve(self.components, test, convert, workers=workers, **settings)
        return self._predicted(found, test, convert)

    def prediction_of(
        self, X_test: ArrayLike, means: ArrayLike, variances: ArrayLike, distance: ArrayLike | None = None
    ) -> Prediction:
        """The prediction at X_test (T, p) from the ``means`` and ``variances`` of f by its components, each (m, T).

        Those that were kept of an earlier one, on the scale that was modelled. It has no joint draws. ``distance`` (T,)
        is how far the nearest observation is, in the lengthscales of the heaviest component, where others than those of
        the model have predicted.
        """
        test, convert = self.test_points(X_test)
        shape = (len(self.components), len(test))
        given = []
        for name, each in (("means", means), ("variances", variances)):
            given.append(as_float64(each, name, self.device))
            if given[-1].shape != shape:
                raise InputError(f"{name} must have shape {shape}, one row a component, got {tuple(given[-1].shape)}")
        status = Status("kept", "The means and the variances were computed before.")
        away = None if distance is None else as_float64(distance, "distance", self.device)
        return self._prediction(given[0], given[1], status, test, convert, distance=away)

    def iterate(self, X_test: ArrayLike, only: Collection[int] | None = None) -> Iterator[Prediction]:
        """The predictions at X_test (T, p) after iterations 1, 2, 3, …, or after those in ``only``, as they come.

        In a lower precision each of them costs a product with G. All test points together must fit the memory budget.
        """
        test, convert = self.test_points(X_test)
        ready = [component.ready_for(test) for component in self.components]
        MemoryPlan([component for component, _, _ in ready]).batch(len(test), len(test))
        last: list[Posterior] = []
        own = only if len(ready) == 1 else None  # of several, some may be done before
        each_one = (iterated(component, cross, test, convert, own) for component, cross, _ in ready)
        for number, each in enumerate(zip_longest(*each_one), start=1):
            last = [new or last[i] for i, new in enumerate(each)]  # a component that is done stays where it is
            if own is not None or only is None or number in only:
                yield self._predicted(last, test, convert)

    def posterior(self, X_test: ArrayLike, weights: ArrayLike) -> Posterior:
        """The posterior at X_test (T, p) from any kriging weights W (d, T), one column a test point.

        However they were made: if they do not depend on y, the error bars are calibrated. Costs one product with G.
        Where the mean is unknown, they are made unbiased first. For a model of one prior, without a transform.
        """
        if len(self.components) > 1 or self.transform is not None:
            made_of = f"{len(self.components)} components" if self.transform is None else "a transform"
            raise InputError(
                f"kriging weights are those of one prior, and this model has {made_of}; use a model that "
                "Prior.condition made"
            )
        component = self.components[0]
        test, convert = self.test_points(X_test)
        W = as_float64(weights, "weights", self.device).to(component.gram.dtype)
        if W.shape != (component.gram.size, len(test)):
            raise InputError(
                f"weights must have shape {(component.gram.size, len(test))}, one row a training point and one column "
                f"a test point, got {tuple(W.shape)}"
            )
        return from_weights(component, test, convert, W)

    def prior_at(self, X_test: ArrayLike) -> Prediction:
        """What is known at X_test (T, p) before any iteration: the prior, or what an unknown trend alone says."""
        test, convert = self.test_points(X_test)
        return self._predicted([at_prior(each, test, convert) for each in self.components], test, convert)

    def predict_mean(self, X_test: ArrayLike) -> Any:
        """The mean at X_test (T, p), shape (T,), without variances: T times cheaper where the solver allows.

        The same number as ``predict(X_test).mean``. Ctrl-C ends it: a mean alone cannot say that it was cut short.
        """
        test, convert = self.test_points(X_test)
        tell_rows_beyond([self], test[:, : self.X.shape[1]])
        parts = self.components if self.transform is None else ()  # the mean of a transform takes the variance
        cheap = [each for each in (cheap_means(part, test, last=True) for part in parts) if each is not None]
        if len(cheap) < len(self.components):
            prediction = self.predict(X_test)
            if prediction.status.reason == "interrupted":
                raise KeyboardInterrupt(prediction.status.message)
            return prediction.mean
        total = torch.zeros((), device=self.device)
        for weight, each in zip(self.weights, cheap, strict=True):
            total = total + float(weight) * next(each)
        return convert(total)

    def iterate_mean(self, X_test: ArrayLike) -> Iterator[Any]:
        """The means at X_test (T, p) after iterations 1, 2, 3, …, each of shape (T,), without variances."""
        test, convert = self.test_points(X_test)
        if len(self.components) == 1 and self.transform is None:
            means = cheap_means(self.components[0], test)
            if means is not None:
                return (convert(each) for each in means)
        return (prediction.mean for prediction in self.iterate(X_test))

    @property
    def means_are_cheap(self) -> bool:
        """Whether the solver has means without variances, at a fraction of the cost."""
        return self.transform is None and coefficients(self.components[0]) is not None

    # --- fields ---------------------------------------------------------------------------------------------------

    def average(
        self,
        X_test: ArrayLike,
        weights: ArrayLike | None = None,
        by: ArrayLike | None = None,
        *,
        stop: Rule | None = None,
        batch_size: int | None = None,
        progress: bool | None = None,
        fields: int = 1000,
        seed: int = 0,
    ) -> Average:
        """The prediction of averages of f over the points X_test (T, p), or of other linear functionals of it.

        ``weights`` (T,) are those of one functional, (m, T), dense or sparse, those of m of them, taken as they are:
        1/T each for a mean, 1 and −1 for a difference, those of a quadrature for an integral. ``by`` (T,) are labels:
        the mean of each group, whose points count equally or by ``weights`` (T,), which are divided by their sum in
        each group; the result has the labels as ``groups``. With neither it is the mean over all points.

        How errors at different points go together is taken into account exactly, so it is as calibrated as a
        prediction. m averages cost m right-hand sides, not T, and T d + T²/2 kernel values, in tiles; for nearest
        neighbours d is the number of training points near any of the points. ``stop``, ``batch_size`` and ``progress``
        are those of ``predict``, for averages in place of test points.

        A recalibrated model scales the errors at each point by what it has learned there. Split conformal prediction
        promises nothing about averages: those are as they were without it. Averages of transformed observations, on
        their own scale, are those of so many simulated ``fields`` of that ``seed``: see ``averages.SimulatedAverage``.

        >>> import numpy as np, cagp
        >>> X = np.linspace(0, 1, 50)[:, None]
        >>> model = cagp.Prior(cagp.Matern32(0.2), noise_variance=0.01).condition(X, np.sin(6 * X[:, 0]))
        >>> halves = model.average(X, by=X[:, 0] > 0.5)
        >>> halves.groups, halves.mean.shape, halves.covariance().shape
        (array([False,  True]), (2,), (2, 2))
        """
        test, convert = self.test_points(X_test)
        asked = Functional.of(len(test), weights, by)
        require_rule(stop)
        whole = self.of_fields
        if self.transform is not None:
            if stop is not None:
                raise InputError("stop has no meaning for averages of simulated fields, which a transform needs")
            fields, seed = count(fields, "fields", minimum=2), count(seed, "seed")
            promised = {"guarantee": SCALED if whole.margins else whole.guarantee, "convert": convert}
            with self._threads(len(test)):
                return SimulatedAverage(whole.simulator(X_test), asked, fields, seed, promised, progress=progress)
        scale = None if whole._placed is None else whole._placed.scale(test)
        A = asked.A if scale is None else asked.beside_scaled(scale)
        show = progress_bar("average", A.shape[0] * len(self.components), progress)
        with self._threads(len(test)), Interrupt() as interrupt, show as advance:
            settings: Any = {"stop": stop, "batch_size": batch_size, "interrupt": interrupt, "advance": advance}
            found = solve_functionals(self.components, test, A, convert, **settings)
        noises = [component.prior.new_noise(test) for component in self.components]
        plain = self.replace(margins=None).guarantee
        return LinearAverage(found, self.weights, asked, noises, plain, convert, scale)

    def gradient(
        self,
        X_test: ArrayLike,
        *,
        stop: Rule | None = None,
        batch_size: int | None = None,
        progress: bool | None = None,
    ) -> Gradient:
        """The slopes of f along each column at X_test (T, p): mean, std and intervals (T, p), and covariance (T, p, p).

        By kriging weights of their own, for every solver, and as calibrated as a prediction; of nearest neighbours they
        are those of what they predict in a cell. Kernels whose functions have no slopes, as ``Matern12``, are refused.
        Means and trends are differentiated numerically, since they may be a user's functions. ``stop``, ``batch_size``
        and ``progress`` are those of ``predict``, for slopes in place of test points.

        Error bars are those of the priors: left-out errors of values say nothing about slopes. For a transformed model
        take ``model.replace(transform=None).gradient(…)``, which is about f on the scale that was modelled.

        >>> import numpy as np, cagp
        >>> X = np.linspace(0, 1, 50)[:, None]
        >>> model = cagp.Prior(cagp.RBF(0.3), noise_variance=1e-4).condition(X, np.sin(6 * X[:, 0]))
        >>> slope = model.gradient([[0.5]])
        >>> bool(abs(slope.mean[0, 0] - 6 * np.cos(3.0)) < 2 * slope.std[0, 0])
        True
        """
        require_slopes(self.components, self.transform, self.quantity)
        test, convert = self.test_points(X_test)
        require_rule(stop)
        show = progress_bar("gradient", test.numel() * len(self.components), progress)
        with self._threads(test.numel()), Interrupt() as interrupt, show as advance:
            settings: Any = {"stop": stop, "batch_size": batch_size, "interrupt": interrupt, "advance": advance}
            found = solve_slopes(self.components, test, convert, **settings)
        return Gradient(found, self.weights, self.replace(margins=None).guarantee, convert)

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
        ``observed`` the fields are of new observations: noise is added, of ``noise_variance`` where that is given. Each
        field is one of a single component, drawn by its weight; margins and a transform are those of the prediction.

        ``method`` is how the prior is drawn: "dense" is exact, for a few thousand points; "circulant" is exact on
        regular grids that training and test points share; "vecchia" draws each point given its neighbours, anywhere,
        which is approximate. "auto" takes the first that suits the points and fits the memory budget.

        Field i depends on the model, X_test, the ``seed`` and i alone, but for rounding: ``first`` = 10 gives the
        fields from number 10 on. ``simulator`` keeps what several such calls share.
        """
        simulator = self.simulator(X_test, method=method)
        with self._threads(len(simulator)):
            how: Any = {"observed": observed, "noise_variance": noise_variance, "progress": progress}
            return simulator.draw(n, seed, first=first, **how)

    def simulator(self, X_test: ArrayLike, *, method: str = "auto") -> Simulator:
        """What draws fields at X_test (T, p), in several calls of ``draw(n, seed, first=…)``; see ``simulate``."""
        test, convert = self.test_points(X_test)
        parts = [ComponentSimulator.of(component, test, method) for component in self.components]

        def predicted(found: Sequence[Found]) -> Prediction:
            status = joint_status([each.status for each in found])
            mean, variance = (torch.stack([getattr(one, name) for one in found]) for name in ("mean", "variance"))
            return self._prediction(mean, variance, status, test, convert)

        learned = [each.in_words for each in (self.margins, self.transform) if each is not None]
        return Simulator(parts, self.weights, predicted, self.new_noise(test), learned)

    def map(
        self,
        path: str | Path,
        *,
        like: ArrayLike | None = None,
        mask: Any = None,
        cells: int = 40_000,
        level: float = 0.95,
        observed: bool = False,
        threshold: float | None = None,
        names: Names | None = None,
        progress: bool | None = None,
    ) -> Path:
        """Write a map to look at, one HTML page without a network: mean, std, probability of more than a threshold.

        For a model of two columns, or with latitude and longitude: at about so many ``cells``, over the extent of the
        data or of points ``like`` (n, p), with all other columns at their medians there. ``mask`` are polygons, as for
        ``cagp.write_map``: the map is of their extent, without ``like``, and empty outside of them. The page has the
        distribution of each cell: its mean, std and interval of this ``level`` stand at the pointer, the threshold is
        moved by a slider that starts at ``threshold``, and places of which the data say little are hatched. It is about
        f, with ``observed`` about new observations. ``names`` are those of ``cagp.fit_report.Names``. Returns ``path``.
        """
        from .reports.map_page import write_map_page

        about: Any = {"level": level, "observed": observed, "threshold": threshold, "names": names}
        return write_map_page(self, path, like=like, mask=mask, cells=cells, progress=progress, **about)

    # --- where to measure next ------------------------------------------------------------------------------------

    def where_next(
        self,
        candidates: ArrayLike,
        n: int,
        *,
        region: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        costs: ArrayLike | None = None,
        noise_variance: Any = None,
    ) -> Design:
        """The ``n`` ``candidates`` (c, p) where observations lower the average variance of f over a ``region`` most.

        One after another, each given those before it: a greedy choice. The ``region`` (T, p) are places that stand for
        it, by default the candidates; ``weights`` (T,) say how much each counts. With ``costs`` (c,) it is the gain per
        cost that decides. Of equal candidates the first is taken, each row once: a place where several observations can
        be made stands in several rows. ``noise_variance`` is that of the new observations, one number or (c,), by
        default the prior's, where that is known.

        The promised variances hold whatever is measured. They are those of ``with_more`` afterwards where the solver is
        exact, and of the model's weights, corrected by the new observations, with any other: see the page "Where to
        measure next". They are about f on the scale that was modelled, under the prior; of a mixture, the average of
        its components' by their weights.

        >>> import numpy as np, cagp
        >>> X = np.array([[0.0], [0.1], [0.9], [1.0]])
        >>> model = cagp.Prior(cagp.Matern32(0.2), noise_variance=0.01).condition(X, np.sin(6 * X[:, 0]))
        >>> grid = np.linspace(0, 1, 11)[:, None]
        >>> grid[model.where_next(grid, 2).chosen].ravel().round(1).tolist()
        [0.5, 0.7]
        """
        places, _ = self.test_points(candidates, "candidates")
        number, c = count(n, "n", minimum=1), len(places)
        if number > c:
            raise InputError(f"n={number} of {c} candidates; give at least as many rows of candidates")
        where, convert = self.test_points(candidates if region is None else region, "region")
        share = each_of(weights, len(where), "weights", "places of the region", zero=True)
        share = share / share.max()  # whose sum is finite
        paid = each_of(costs, c, "costs", "candidates", zero=False)
        noises = [
            checked_noise(each.prior.new_noise(places), noise_variance, c, "candidate") for each in self.components
        ]
        both = places if region is None else torch.cat([where, places])
        at, new = slice(0, len(where)), slice(len(both) - c, len(both))
        with self._threads(len(both)):
            found = [with_weights(component, both, convert) for component in self.components]
            guarantee = self.replace(margins=None).guarantee
            return choose(found, self.weights, at, new, noises, share / share.sum(), paid, number, guarantee, convert)

    # --- error bars on the data -----------------------------------------------------------------------------------

    def left_out(
        self,
        like: ArrayLike | None = None,
        n: int | None = None,
        seed: int = 0,
        *,
        whole_places: bool = False,
        progress: bool | None = None,
    ) -> LeftOut:
        """Training observations predicted from the others: how the error bars of the priors hold on the data.

        With the hyperparameters of the model, which have seen them; the weights have not. ``n`` of them, drawn with
        ``seed``, by default all up to 100,000. An exact solver has them in closed form; NearestNeighbours predicts each
        from its neighbours; other solvers condition on a part of the data several times where that takes seconds, else
        neighbours stand in for them, and ``how`` says so. They are on the scale that was modelled, without margins.

        Single observations judge predictions next to data. With ``like`` = X_test (T, p) observations, by default up to
        2,000, stand in for these points: what is missing around a point is missing around them; ``stand_ins`` of the
        result has what each was predicted from. Outliers have a noise of their own, which these very errors chose.

        With ``whole_places`` each is left out together with all else at its place: repeated measurements, and other
        quantities where the model is one of several.
        """
        if like is not None and (whole_places or self.quantity is not None):
            raise InputError(_LIKE.format("whole_places" if whole_places else "one quantity of several"))
        test = None if like is None else self.places(like, "like")
        places = self.recipe.X if self.quantity is None else self.recipe.X[:, :-1]
        place = np.unique(places, axis=0, return_inverse=True)[1].reshape(-1) if whole_places else None
        with self._threads():
            at = None if place is None else torch.from_numpy(place).to(self.device)
            found = left_out(self, test, n, seed, progress, place=at)
        return found if self.quantity is None else replace(found, X=found.X[:, :-1])

    def recalibrated(
        self,
        like: ArrayLike | None = None,
        n: int | None = None,
        seed: int = 0,
        *,
        calibration: tuple[ArrayLike, ArrayLike] | None = None,
        progress: bool | None = None,
    ) -> Model:
        """The model with the same means and weights, and error bars that hold on its data, not only under its prior.

        Left-out predictions say how large errors are compared with what was promised: around each place, and at its
        distance from the data, for which observations are left out with what is near them, too; with ``like`` = X_test
        (T, p) they stand in for these points. The std is scaled by that; intervals, quantiles, densities and samples
        get the shape of the left-out errors. This is empirical: right for observations like those left out, ``n``
        single ones, by default all up to a million. What the model had learned about its error bars before is learned
        anew.

        ``calibration`` = (X, y) are observations that the model has not seen: the result is a split conformal
        prediction on top, whose intervals hold at least as often as they promise, if new observations are exchangeable
        with these. The ``guarantee`` of a prediction says which of them holds.
        """
        if like is not None and self.quantity is not None:
            raise InputError(_LIKE.format("one quantity of several"))
        test = None if like is None else self.places(like, "like")
        unseen = None if calibration is None else self._calibration(calibration)
        # the tails of learned margins are an assumption, which a transform multiplies
        with self._threads():
            found = self.replace(margins=learn(self, test, n, seed, progress), limited=True)
        if unseen is None:
            return found
        X, z = unseen
        prediction = found.replace(transform=None).predict(X, progress=False).observed()
        scores = as_float64(prediction.normal_score(z), "scores").cpu().numpy()
        assert isinstance(found.margins, Recalibration)
        return found.replace(margins=Conformal(np.sort(scores), found.margins))

    def jackknife_interval(
        self, X_test: ArrayLike, level: float = 0.95, *, noise_variance: Any = None
    ) -> tuple[Any, Any]:
        """Jackknife+ intervals for new observations at X_test (T, p): (lower, upper), each (T,). For exact solvers.

        For observations that are exchangeable with those of the model they hold at least 1 − 2 (1 − ``level``), 90% for
        a ``level`` of 95%, whatever the kernel, and usually about ``level``; this takes the hyperparameters as chosen
        without these data. No data are set aside, and margins have no part in it. With too few observations for the
        level, fewer than 19 for 95%, intervals are infinite. ``noise_variance`` is that of the new observations, on the
        scale that was modelled, by default the prior's, where that is one number.
        """
        if len(self.components) > 1:
            raise InputError(
                f"jackknife+ is known for one prior, and this model is a mixture of {len(self.components)}; take "
                "recalibrated(calibration=(X, y)), or fit with mixture=False, uncertainty=False"
            )
        if self.prior.mean.learned:
            raise InputError(
                "jackknife+ needs a trend that has not seen these observations, and a regressor learned this one from "
                "them; take recalibrated(calibration=(X, y))"
            )
        test, convert = self.test_points(X_test)
        ends = jackknife_interval(self.components[0], test, level, noise_variance)
        lower, upper = ends if self.transform is None else (self.transform.inverse(end) for end in ends)
        return convert(lower), convert(upper)

    def compact(self, like: ArrayLike | None = None, tolerance: float = 0.1) -> Model:
        """The model with only those components that predictions need, which answers so many times faster.

        Their weights are chosen such that medians and the ends of 95% intervals of f and of new observations, on the
        scale that was modelled, move by no more than ``tolerance`` standard deviations at ``like`` = X_test (T, p), by
        default at training points, half-way between them, and far from all of them; ``story`` tells how many components
        are left, and how far that was. What was learned about error bars stays. A model of one component stays as it
        is, and so does any after Ctrl-C; what a fit found on its way is let go. ``cagp.fit`` does this by itself: a
        larger ``tolerance`` makes its models smaller.
        """
        tolerance = positive(tolerance, "tolerance")
        some = self.X[torch.randperm(len(self.X), generator=torch.Generator().manual_seed(0))[:_JUDGED].to(self.device)]
        either = (self.X.eq(self.X.amin(0)) | self.X.eq(self.X.amax(0))).all(0)  # yes or no: nothing lies between
        between = torch.where(either, some, (some + some.roll(1, 0)) / 2)
        places = torch.cat([some, between]) if like is None else like
        test, _ = self.test_points(places, "like")
        if len(self.components) == 1:
            return self.replace(result=None)
        predictions = [self.predict(places, progress=False)]
        if predictions[0].status.reason == "interrupted":
            return self
        if like is None:
            predictions.append(self.prior_at(some))  # far away that is all that is known
        judged = sum(map(len, predictions))
        if self.new_noise(test) is not None:
            predictions += [each.observed() for each in predictions]
        parts = [each.mixture for each in predictions]
        means, variances = (torch.cat([getattr(part, name) for part in parts], 1) for name in ("means", "variances"))
        kept, weights, moved = essential(NormalMixture(means, variances, parts[0].weights), tolerance)
        told = (
            f"{len(kept)} of {len(self.components)} components are left, with weights found anew. At {judged:,} "
            f"places medians and ends of 95% intervals move by {moved:.2g} standard deviations at most."
        )
        story = None if self.record is None else self.record.telling("Made compact", told)
        components = [self.components[i] for i in kept]
        return self.replace(components=components, weights=weights, story=story, result=None)

    # --- other data -----------------------------------------------------------------------------------------------

    def with_observations(self, y: ArrayLike) -> Model:
        """The same with other observations y (d,), sharing what a calibrated solver did; without margins and story.

        Those of other quantities, where the model is one of several, stay what they are.
        """
        observations, own = self.components[0].y.clone(), slice(None) if self.quantity is None else self.recipe.judging
        observations[own] = self._modelled(targets(y, len(self.X), self.device))
        components = [component.with_observations(observations) for component in self.components]
        return self.replace(components=components, margins=None, story=None, result=None)

    def with_more(self, X: ArrayLike, y: ArrayLike, *, noise_variance: Any = None) -> Model:
        """The model of its own observations and further ones y (m,) at X (m, p); this one stays what it is.

        The results are those of ``prior.condition`` on all of them, to rounding. ``Cholesky`` extends its factor,
        O(d² m) in place of O(d³/3); other solvers are prepared anew, which takes them little.

        What was chosen stays as it was, and says so: hyperparameters, weights of components, a transform. A
        recalibration is learned anew from all observations where a hundredth came in and that takes seconds, by up
        to some 3,000 observations, or up to 20,000 left-out predictions from neighbours; else it stays and says so, as
        does one that was learned for certain points (``like``).

        ``noise_variance`` is that of the new observations, on the scale that was modelled, one number or (m,): by
        default the prior's, where that is known; with another one the model has one for each observation.

        A ``DataWarning`` names new observations that lie so far from what the model predicts that no error bar explains
        them.

        >>> import numpy as np, cagp
        >>> X = np.linspace(0, 1, 50)[:, None]
        >>> model = cagp.Prior(cagp.Matern32(0.2), noise_variance=0.01).condition(X, np.sin(6 * X[:, 0]), "cholesky")
        >>> more = model.with_more([[1.1], [1.2]], [0.31, 0.79])
        >>> len(model.y), len(more.y)
        (50, 52)
        """
        places = self.places(X, "X")
        given = targets(y, len(places), self.device)
        whole = self.extended(places, given, noise_variance)
        warn_caller(told_of_unexplained(self, places, given, noise_variance), DataWarning)
        return whole

    def extended(self, X: ArrayLike, y: ArrayLike, noise_variance: Any = None) -> Model:
        """The same as ``with_more``, without a look at what is added."""
        new, _ = self.test_points(X, "X")
        added = len(new)
        margins = None if self.margins is None else self.margins.after(added)
        values = self._modelled(targets(y, added, self.device))
        with self._threads():
            components = [component.with_more(new, values, noise_variance) for component in self.components]
        story = None if self.record is None else self.record.after(added)
        return self.grown(components, margins, story)

    def grown(self, components: Sequence[Conditioned], margins: Margins | None, story: Story | None) -> Model:
        """The model of components that have more observations, with these ``margins`` brought up to date."""
        grown = self.replace(components=components, margins=margins, story=story)
        with self._threads():
            return grown.replace(margins=brought_up_to_date(grown, margins))
