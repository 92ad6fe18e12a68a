"""``cagp.fit``: from data to a model with error bars that hold, without an expert."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from ..errors import InputError, NotPositiveDefiniteError
from ..hyperparameters import GivenTerms
from ..hyperparameters import fit as fit_hyperparameters
from ..hyperparameters.starting_prior import Group
from ..kernels import Kernel
from ..means import Mean, as_mean
from ..mixtures import FittedModel, MixtureModel, Story, Tried
from ..mixtures.fitted import table_of
from ..model import Model
from ..prior import Prior
from ..recalibration import RecalibratedModel, recalibrated
from ..reports.diagnosis import diagnose
from ..solvers import Cholesky, NearestNeighbours, Solver, as_solver
from ..support.interrupt import Interrupt
from ..support.progress import progress as progress_bar
from ..support.validation import ArrayLike, choice, column_names, count, points, targets
from .candidates import DEFAULT_KINDS, KINDS, TRENDS, Candidate, first_candidate
from .integrating import JUDGED_ALONE, Part, integrated_over, plugged_in
from .integrating import wanted as uncertainty_wanted
from .scoring import Scored, Site, clearly_worse, stacked

EXACT_UP_TO = 2000
"""Up to so many observations likelihood and predictions are exact."""

_LIKELIHOOD = "likelihood"
_PLUGGED_IN = "The hyperparameters are plugged in as fitted, as if they were known (uncertainty=False)."
_ENOUGH = (
    f"The hyperparameters are plugged in as fitted: with more than {EXACT_UP_TO:,} observations their standard errors "
    "are small beside their values, and integrating over them would change little."
)
_SITES = 2000
_NEIGHBOURS = 30
_MOST_PARTS = 3
_CLOSE = 0.01
"""A candidate whose score is within so much of the best is as good."""

_JUDGED = 10_000
"""So many single observations that are left out say whether the error bars hold."""


@dataclass(frozen=True)
class _Fit:
    """A candidate after its fit: the ``prior`` found, the model that it makes, its scores, and how long it took."""

    candidate: Candidate
    fitted_by: str
    prior: Prior
    model: Model
    scores: Scored
    seconds: float


class _Search:
    """Fits candidates one after another, all judged by the same left-out observations."""

    def __init__(self, X: Any, y: Any, like: torch.Tensor | None, settings: dict[str, Any]) -> None:
        self._X, self._y, self._like, self._settings = X, y, like, settings
        self.site: Site | None = None
        self.fits: list[_Fit] = []
        self.failures: list[str] = []

    def run(self, candidate: Candidate, site_terms: bool = False) -> _Fit | None:
        """Fit a candidate by its likelihood, or by the log score of the left-out observations; None where it fails."""
        started, size = time.perf_counter(), len(self._y)
        by = "left-out score" if site_terms else _LIKELIHOOD
        options: dict[str, Any] = {"likelihood": "exact"}
        if size > EXACT_UP_TO or site_terms:
            options = {"likelihood": "nearest-neighbours", "n_neighbours": _NEIGHBOURS}
        if site_terms:
            options["terms"] = self._terms(candidate)
        try:
            result = fit_hyperparameters(
                candidate.start,
                self._X,
                self._y,
                fix=candidate.fixed,
                n_restarts=0,
                standard_errors=False,
                progress=False,
                seed=self._settings["seed"],
                device=self._settings["device"],
                **options,
            )
            model = self._model(result.prior)
            site = self.site or Site.chosen(model, self._like, _SITES, self._settings["seed"])
            scores = site.scored(model)
        except NotPositiveDefiniteError as error:
            self.failures.append(f"{candidate.name} could not be fitted ({error}).")
            return None
        self.site = site
        found = _Fit(candidate, by, result.prior, model, scores, time.perf_counter() - started)
        self.fits.append(found)
        return found

    def _model(self, prior: Prior) -> Model:
        return prior.condition(self._X, self._y, self._settings["solver"], device=self._settings["device"])

    def _terms(self, candidate: Candidate) -> GivenTerms:
        assert self.site is not None
        return self.site.terms(self._model(candidate.start))

    @property
    def best(self) -> _Fit:
        """The one with the best CRPS."""
        return min(self.fits, key=lambda each: float(each.scores.crps.mean()))


def fit(
    X: ArrayLike,
    y: ArrayLike,
    *,
    like: ArrayLike | None = None,
    kernel: Kernel | str | Sequence[str] | None = None,
    mean: Mean | str | None = None,
    noise_variance: float | np.ndarray | None = None,
    solver: Solver | str | None = None,
    mixture: bool = True,
    uncertainty: bool | str = "auto",
    recalibrate: bool | str = "auto",
    groups: Sequence[Group] | None = None,
    seed: int = 0,
    device: str | torch.device | None = None,
    progress: bool | None = None,
) -> FittedModel:
    """A model of observations y (n,) at X (n, p) with error bars that hold on the data; nothing needs to be chosen.

    Kernels of different roughness are fitted by maximum likelihood, with a constant and a linear trend, and judged by
    the CRPS of left-out observations. ``like`` = X_test (T, p) says where predictions are wanted: the observations are
    then left out with gaps as wide as those that these points lie in, the candidates are fitted to such predictions as
    well, and where candidates are about equally good or the points lie far from the data, a mixture of the best
    predicts. Up to 2,000 observations predictions also integrate over the hyperparameters of each candidate. Where the
    left-out observations say that the error bars are wrong, they are recalibrated. ``story`` tells all of this,
    ``candidates`` is the table.

    Everything can be said by hand: ``kernel`` is a kernel whose values are the start of the fit, the name of one
    ("matern12", "matern32", "matern52", "rbf", "rationalquadratic", "short and long"), or several names to choose from;
    ``mean`` a mean, or "constant" or "linear"; ``noise_variance`` where the noise starts, or the known noise of each
    observation (n,); ``solver`` what predicts, by default Cholesky up to 2,000 observations and NearestNeighbours
    beyond; ``mixture=False`` takes the best candidate alone; ``uncertainty=False`` plugs the hyperparameters in as if
    they were known; ``recalibrate`` True, False or "auto". ``groups`` say which columns are measured alike, on the
    globe for example. Ctrl-C ends the search and keeps the best so far.
    """
    names = column_names(X)
    place = torch.device(device or "cpu")
    train = points(X, "X", place)
    values = targets(y, len(train), place)
    wanted = None if like is None else points(like, "like", place, columns=train.shape[1])
    if not isinstance(recalibrate, bool):
        choice(recalibrate, "recalibrate", ("auto",))
    uncertain = uncertainty_wanted(uncertainty, len(values))
    kinds, own = _kinds(kernel)
    chosen_mean = None if mean is None or isinstance(mean, str) else as_mean(mean)
    if isinstance(mean, str):
        choice(mean, "mean", tuple(TRENDS))
    used = as_solver(solver) if solver is not None else None
    if used is None:
        used = Cholesky() if len(values) <= EXACT_UP_TO else NearestNeighbours()
    settings = {"seed": count(seed, "seed"), "solver": used, "device": device}
    data, observed = train.cpu().numpy(), values.cpu().numpy()
    start = first_candidate(data, observed, own or kinds[0], chosen_mean, noise_variance, groups)
    if isinstance(mean, str):
        start = start.with_trend(mean)
    started = time.perf_counter()
    search = _Search(data, observed, wanted, settings)
    with Interrupt() as interrupt, progress_bar("fit", len(kinds) + 3, progress) as advance:
        _tried(search, start, kinds, mean is None, interrupt, advance)
        parts = _parts(search, mixture)
        for each, _ in parts:
            each.model.column_names = names
        pieces = [
            Part(each.model, weight, each.candidate.fixed, each.fitted_by == _LIKELIHOOD) for each, weight in parts
        ]
        model = plugged_in(pieces)
        integrated = _PLUGGED_IN if uncertainty is False else _ENOUGH
        if uncertain:
            model, integrated = integrated_over(pieces, settings, interrupt)
        final: Any = model
        judged = ""
        if not interrupt.requested:
            final, judged = _judged(model, like, recalibrate, seed)
        advance(1)
    weights = {id(each): weight for each, weight in parts}
    table = tuple(
        Tried(
            each.candidate.name,
            each.fitted_by,
            float(each.scores.crps.mean()),
            float(each.scores.log_score.mean()),
            each.seconds,
            weights.get(id(each), 0.0),
        )
        for each in search.fits
    )
    seconds = time.perf_counter() - started
    story = _story(search, parts, table, integrated, judged, used, like is not None, interrupt.requested, seconds)
    return FittedModel(final, Story(story, table, final.guarantee))


def _kinds(kernel: Kernel | str | Sequence[str] | None) -> tuple[tuple[str, ...], Kernel | None]:
    """The kinds of kernels to try, and the kernel that was given."""
    if isinstance(kernel, Kernel):
        return ("as given",), kernel
    kinds = DEFAULT_KINDS if kernel is None else (kernel,) if isinstance(kernel, str) else tuple(kernel)
    known = (*KINDS, DEFAULT_KINDS[-1])
    if not kinds or any(kind not in known for kind in kinds):
        raise InputError(f"kernel must be a kernel, or names among {', '.join(known)}; got {kernel!r}")
    return kinds, None


def _tried(
    search: _Search, start: Candidate, kinds: tuple[str, ...], trends: bool, interrupt: Any, advance: Any
) -> None:
    """Fit the kinds one after another; the best also with a linear trend, and to the left-out observations."""
    first = search.run(start)
    advance(1)
    if first is None:
        raise NotPositiveDefiniteError(f"the first fit failed: {search.failures[0]} A larger noise_variance helps.")
    for kind in kinds[1:]:
        if interrupt.requested:
            return
        search.run(start.from_values_of(first.prior, kind))
        advance(1)
    if trends and not interrupt.requested and len(search._y) > 10 * search._X.shape[1]:
        best = search.best
        search.run(replace(best.candidate, start=best.prior).with_trend("linear"))
    advance(1)
    if search.site is not None and search.site.gaps is not None and not interrupt.requested:
        best = search.best
        search.run(replace(best.candidate, start=best.prior), site_terms=True)
    advance(1)


def _parts(search: _Search, mixture: bool) -> list[tuple[_Fit, float]]:
    """What predicts, with weights: the best candidate, or those that are about as good."""
    best = search.best
    if not mixture:
        return [(best, 1.0)]
    index = best.scores.index
    for each in search.fits:
        index = np.intersect1d(index, each.scores.index)
    scores = {id(each): each.scores.at(index) for each in search.fits}
    least = float(scores[id(best)].crps.mean())
    ranked = sorted(search.fits, key=lambda each: float(scores[id(each)].crps.mean()))
    close = [
        each
        for each in ranked
        if float(scores[id(each)].crps.mean()) <= (1 + _CLOSE) * least
        or not clearly_worse(scores[id(each)].crps, scores[id(best)].crps)
    ][:_MOST_PARTS]
    if len(close) == 1:
        return [(best, 1.0)]
    weights = stacked(np.stack([scores[id(each)].log_score for each in close]))
    return list(zip(close, weights.tolist(), strict=True))


def _judged(
    model: Model | MixtureModel,
    like: ArrayLike | None,
    recalibrate: bool | str,
    seed: int,
) -> tuple[Model | MixtureModel | RecalibratedModel, str]:
    """The model with error bars that hold, and what was found about those that it has, in words."""
    if recalibrate is False:
        return model, "The error bars were not compared with left-out observations (recalibrate=False)."
    if len(model.plain.y) < 20:
        return model, "There are too few observations to compare the error bars with left-out ones."
    size = len(model.plain.y)
    alone = isinstance(model, MixtureModel) and EXACT_UP_TO >= size > JUDGED_ALONE
    judged: Model | MixtureModel = model.plain if alone else model
    found = recalibrated(judged, like, min(size, _JUDGED), seed, progress=False)
    assert isinstance(found, RecalibratedModel)
    diagnosis = diagnose(judged.left_out(like, min(size, _SITES), seed, progress=False).z)
    local = any(band.local for band in found.recalibration.bands)
    held = ", ".join(f"{100 * c.level:g}% intervals hold {100 * c.found:.1f}%" for c in diagnosis.coverage[::3][:2])
    differs = " Their size differs from place to place." if local else ""
    by = ", predicted by the component with the most weight" if alone else ""
    said = f"Left-out observations{by}: {held}; the rms of z is {diagnosis.spread:.3g}.{differs}"
    if recalibrate is True or not diagnosis.right or local:
        if size > _JUDGED:  # what differs from place to place is learned from all of them
            whole = recalibrated(judged, like, seed=seed, progress=False)
            assert isinstance(whole, RecalibratedModel)
            found = whole
        found = RecalibratedModel(model, found.recalibration)
        return found, f"{said} The error bars are recalibrated: scaled and shaped by the left-out errors."
    return model, f"{said} The error bars hold and stay as they are under the prior."


def _story(
    search: _Search,
    parts: list[tuple[_Fit, float]],
    table: tuple[Tried, ...],
    integrated: str,
    judged: str,
    solver: Solver,
    geometry: bool,
    interrupted: bool,
    seconds: float,
) -> str:
    site = search.site
    assert site is not None
    where = "left out alone" if site.gaps is None else "left out with gaps as wide as those to be predicted"
    lines = [
        f"{len(table)} candidates were fitted to {len(search._y):,} observations and judged by the CRPS of "
        f"{len(site.rows):,} of them, {where}:",
        table_of(table),
    ]
    if len(parts) == 1:
        lines.append(f"Chosen: {parts[0][0].candidate.name}, {parts[0][0].prior!r}.")
    else:
        lines.append(
            "Chosen: a mixture, since these are about equally good: "
            + "; ".join(f"{weight:.2f} × {each.prior!r}" for each, weight in parts)
            + "."
        )
    if not geometry:
        lines.append("Where predictions are wanted was not said: like=X_test judges the candidates there.")
    lines += search.failures
    lines += [integrated, f"Predictions: {solver!r}."]
    if judged:
        lines.append(judged)
    if interrupted:
        lines.append("Interrupted: the best so far was kept, and the error bars were not judged.")
    return "\n".join([*lines, f"All of it took {seconds:.1f} s."])
