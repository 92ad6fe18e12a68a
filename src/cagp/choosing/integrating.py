"""From fitted candidates to a model whose predictions integrate over the hyperparameters of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from ..errors import NotPositiveDefiniteError
from ..hyperparameters import Hyperpriors, posterior
from ..hyperparameters.hyperpriors import SmallDeviation
from ..hyperparameters.uncertainty import HyperparameterPosterior, affordable
from ..model import Model
from ..prior import Prior
from ..solvers import Cholesky, Solver
from ..solvers.exact import EXACT_UP_TO
from ..support import clock
from ..support.validation import ArrayLike
from .search import CandidateSearch

_FEWEST_COMPONENTS, _FEWEST_EVALUATIONS = 4, 24  # for each of several candidates that share what there is time for
_ASKED = ("fix_noise", "bounds", "memory_budget")  # options of a fit that the posterior has too
_FEWEST_EFFECTIVE = 4.0  # points that are worth fewer equally weighted ones say nothing of a posterior
_FLAT, _WELL_TOLD = 0.05, 1.0  # information about a lengthscale that does not matter, and about what is known
_BEYOND = 2.0  # so many times the standard deviation that was expected
_TOLERANCE = 0.1  # in standard deviations: mostly predictions move by as much where other hyperparameters are drawn
_JUDGED = 400  # so many of the points ``like`` say which components predictions need
_PLUGGED_IN = "The hyperparameters are plugged in as fitted, as if they were known (uncertainty=False)."
_ENOUGH = (
    "The hyperparameters are plugged in as fitted: with so many observations what is not known of them hardly changes "
    "predictions."
)
_SCARCE = 20  # observations for each hyperparameter: with fewer these are learned by heart
_WELL_KNOWN = 100  # observations for each hyperparameter: with more, mostly, the CRPS changes by less than 0.1%


def integrate(search: CandidateSearch) -> CandidateSearch:
    """The model of the chosen candidates: a mixture over the posteriors of their hyperparameters, where these are
    integrated over, and as they were fitted, where not.
    """
    models = [search.model_of(each) for each, _ in search.chosen]
    weights = [weight for _, weight in search.chosen]
    asked, enough = search.request.options.uncertainty, EXACT_UP_TO
    known = [sum(not name.startswith("mean.") for name in part.result.values) for part, _ in search.chosen]
    if asked == "auto":
        enough = min(EXACT_UP_TO, _WELL_KNOWN * max(known))
    said = _PLUGGED_IN if asked is False else _ENOUGH
    if search.request.integrates and len(search.y) <= enough:
        models, said = _integrated_over(search, models)
    if known and len(search.y) < _SCARCE * max(known):
        said += (
            f" There are only {len(search.y) / max(known):.0f} observations for each hyperparameter: new observations "
            "will be predicted less well than those left out, which had a part in fitting them."
        )
    data = search.request.data
    carried: dict[str, Any] = {"transform": search.transform, "limited": search.transform is not None}
    carried |= {"column_names": data.names, "encodings": data.encodings, "crs": data.crs, "target_name": data.target}
    search.model = mixture_of(models, weights).replace(**carried)
    search.findings["integration"] = said
    return search


def mixture_of(models: Sequence[Model], weights: ArrayLike) -> Model:
    """Models that predict together: the weight of each is divided among its components."""
    shares = np.concatenate([weight * each.weights for each, weight in zip(models, np.asarray(weights), strict=True)])
    return models[0].replace(components=[part for each in models for part in each.components], weights=shares)


def integrated(prior: Prior, X: ArrayLike, y: ArrayLike, solver: Solver | str | None = None, **options: Any) -> Model:
    """``prior`` conditioned on observations y (n,) at X (n, p), with the uncertainty of its hyperparameters.

    Its values are where the search starts. The result is a mixture over the posterior of the hyperparameters;
    ``options`` are those of ``cagp.hyperparameters.posterior``, which shows that posterior itself. ``solver`` is
    Cholesky unless given.

    >>> import numpy as np, cagp
    >>> X = np.linspace(0, 1, 12)[:, None]
    >>> model = cagp.choosing.integrated(cagp.Prior(cagp.RBF(0.3)), X, np.sin(6 * X[:, 0]))
    >>> model.predict(np.array([[0.5]])).interval(0.95)[0].shape
    (1,)
    """
    found = posterior(prior, X, y, **options)
    used, device = Cholesky() if solver is None else solver, options.get("device")
    return mixture_of([each.condition(X, y, used, device=device) for each in found.priors], found.weights)


def _integrated_over(search: CandidateSearch, fitted: Sequence[Model]) -> tuple[list[Model], str]:
    """The parts, each a mixture over the posterior of its hyperparameters, and what was done, in a sentence.

    Each has no more components than predictions need. Ctrl-C leaves the hyperparameters that are not done as fitted.
    """
    several = len(fitted)
    most, size = affordable(len(search.y))
    options: dict[str, Any] = {
        **{name: value for name, value in search.fitting.items() if name in _ASKED},
        "components": most if several == 1 else max(_FEWEST_COMPONENTS, most // several),
        "evaluations": size if several == 1 else max(_FEWEST_EVALUATIONS, size // several),
        "seed": search.seed,
        "device": search.device,
    }

    # where time is short, half of what is left is for evaluations
    left = 0.5 * (search.end(1.0) - clock.now()) / (several * search.evaluation_seconds)
    no_time, fewer = search.is_over or left < _FEWEST_EVALUATIONS, left < options["evaluations"]
    options["evaluations"] = int(max(min(options["evaluations"], left), _FEWEST_EVALUATIONS))

    def integrated(which: int) -> HyperparameterPosterior | None:
        part, prior = search.chosen[which][0], fitted[which].prior
        told, values = part.result.information, part.result.values
        if not no_time and not search.is_over:
            well = {name: values[name] for name, much in told.items() if much >= _WELL_TOLD}
            expected = Hyperpriors.of(prior, search.X, search.y)
            believed = expected.allowing(well)
            for flat in dict.fromkeys((_as_fitted(told, expected, believed), _as_fitted(told))):
                held = (*search.held(part.candidate), *flat)
                with suppress(NotPositiveDefiniteError):
                    found = posterior(prior, search.X, search.y, fix=held, hyperpriors=believed, **options)
                    if found.sample.effective >= _FEWEST_EFFECTIVE:
                        return found
        return None

    like = search.request.like
    if like is not None:
        like = like[np.sort(np.random.default_rng(search.seed).permutation(len(like))[:_JUDGED])]
    models: list[Model] = []
    names: set[str] = set()
    drawn = failed = plugged_in = 0
    for found, model in zip(search.together(integrated, range(several)), fitted, strict=True):
        tried = [] if found is None else search.together(partial(_conditioned, search), found.priors)
        shared = [] if found is None else found.weights.tolist()
        parts = {each: weight for each, weight in zip(tried, shared, strict=True) if each is not None}
        if found is not None and parts:
            total = sum(parts.values())
            model = mixture_of(list(parts), [weight / total for weight in parts.values()]).compact(like, _TOLERANCE)
            names.update(map(_kind, found.names))
        drawn, failed, plugged_in = drawn + len(parts), failed + len(tried) - len(parts), plugged_in + (not parts)
        models.append(model)
    if plugged_in == several:
        none = "none of the candidates has a posterior of them that could be sampled"
        why = "the search was interrupted" if search.interrupt.requested else "there was no more time"
        why = why if no_time else none
        return models, f"The hyperparameters are plugged in as fitted: {why}."
    said = (
        f"Predictions integrate over what is not known of {', '.join(sorted(names))}: a mixture of "
        f"{sum(len(each.components) for each in models)} models, weighted by the restricted likelihood and weakly "
        f"informative priors, as few of {drawn} as move medians and ends of 95% intervals by {_TOLERANCE:g} standard "
        "deviations at most"
    )
    if failed:
        said += f"; {failed} could not be computed, rounding errors being too large, and were left out"
    if plugged_in:
        said += f"; {plugged_in} of {several} candidates are plugged in as fitted"
    if fewer:
        said += "; with more seconds= there would be more of them"
    return models, f"{said}."


def _as_fitted(
    told: Mapping[str, float], expected: Hyperpriors | None = None, believed: Hyperpriors | None = None
) -> tuple[str, ...]:
    """Lengthscales that are held: a posterior in many directions that do not matter is hard to sample.

    Of a variance that is ``believed`` far beyond what was ``expected`` lengthscales are known by their relation to it:
    drawn by themselves they would be short, and where nothing was observed the function would vary by all of it.
    """
    before, after = (
        {name: each.average for name, each in priors.by_name.items() if isinstance(each, SmallDeviation)}
        for priors in (expected or Hyperpriors({}), believed or Hyperpriors({}))
    )
    beyond = [name for name, average in after.items() if average > _BEYOND * before[name]]
    kernels = tuple(f"{name.removesuffix('.variance')}.lengthscale" for name in beyond)
    least = {name: _WELL_TOLD if name.startswith(kernels) else _FLAT for name in told if ".lengthscale" in name}
    return tuple(name for name, much in least.items() if told[name] < much)


def _conditioned(search: CandidateSearch, prior: Prior) -> Model | None:
    """The prior given the data; None where rounding errors leave no positive definite matrix, as they nearly did."""
    with suppress(NotPositiveDefiniteError):
        return search.condition(prior)
    return None


def _kind(name: str) -> str:
    """A hyperparameter's name without where it is: "lengthscale" for ``kernel.kernels[0].lengthscale[1]``."""
    return name.rsplit(".", 1)[-1].split("[")[0].replace("_", " ")
