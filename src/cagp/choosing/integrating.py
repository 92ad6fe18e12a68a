"""From fitted candidates to a model whose predictions integrate over the hyperparameters of each."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from ..errors import NotPositiveDefiniteError
from ..hyperparameters import Hyperpriors, posterior
from ..hyperparameters.uncertainty import HyperparameterPosterior, affordable
from ..model import Model
from ..prior import Prior
from ..solvers import Cholesky, Solver
from ..solvers.exact import EXACT_UP_TO
from ..support.validation import ArrayLike
from .search import CandidateSearch

_FEWEST_COMPONENTS, _FEWEST_EVALUATIONS = 4, 24  # for each of several candidates that share what there is time for
_ASKED = ("fix_noise", "bounds", "memory_budget")  # options of a fit that the posterior has too
_FEWEST_EFFECTIVE = 4.0  # points that are worth fewer equally weighted ones say nothing of a posterior
_FLAT, _WELL_TOLD = 0.05, 1.0  # information about a lengthscale that does not matter, and about what is known
_NEGLIGIBLE = 0.005  # the lightest components that have this share of the weight together are left out
_PLUGGED_IN = "The hyperparameters are plugged in as fitted, as if they were known (uncertainty=False)."
_ENOUGH = (
    f"The hyperparameters are plugged in as fitted: with more than {EXACT_UP_TO:,} observations what is not known of "
    "them hardly changes predictions."
)


def integrate(search: CandidateSearch) -> CandidateSearch:
    """The model of the chosen candidates: a mixture over the posteriors of their hyperparameters, where these are
    integrated over, and as they were fitted, where not.
    """
    models = [search.model_of(each) for each, _ in search.chosen]
    weights = [weight for _, weight in search.chosen]
    said = _ENOUGH if search.request.options.uncertainty is not False else _PLUGGED_IN
    if search.request.integrates:
        models, weights, said = _integrated_over(search, models, weights)
    data = search.request.data
    carried: dict[str, Any] = {"transform": search.transform, "limited": search.transform is not None}
    carried |= {"column_names": data.names, "encodings": data.encodings, "crs": data.crs, "target_name": data.target}
    search.model = mixture_of(models, weights).replace(**carried)
    search.findings["integration"] = said
    return search


def mixture_of(models: Sequence[Model], weights: ArrayLike) -> Model:
    """Models of one component each that predict together."""
    return models[0].replace(components=[each.components[0] for each in models], weights=weights)


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


def _integrated_over(
    search: CandidateSearch, fitted: Sequence[Model], shares: Sequence[float]
) -> tuple[list[Model], list[float], str]:
    """The models over the posteriors of the hyperparameters of all parts, weights, and what was done, in a sentence.

    Each part's weight is divided among its components. Ctrl-C leaves the hyperparameters that are not done as fitted.
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
    left = 0.5 * (search.end(1.0) - time.perf_counter()) / (several * search.evaluation_seconds)
    no_time, fewer = search.is_over or left < _FEWEST_EVALUATIONS, left < options["evaluations"]
    options["evaluations"] = int(max(min(options["evaluations"], left), _FEWEST_EVALUATIONS))

    def integrated(which: int) -> HyperparameterPosterior | None:
        part, prior = search.chosen[which][0], fitted[which].prior
        told, values = part.result.information, part.result.values
        if not no_time and not search.is_over:
            # a posterior in many directions that do not matter is hard to sample
            flat = (name for name, much in told.items() if much < _FLAT and ".lengthscale" in name)
            well = {name: values[name] for name, much in told.items() if much >= _WELL_TOLD}
            held, believed = (*search.held(part.candidate), *flat), Hyperpriors.of(prior, search.X, search.y)
            believed = believed.allowing(well)
            with suppress(NotPositiveDefiniteError):
                found = posterior(prior, search.X, search.y, fix=held, hyperpriors=believed, **options)
                return found if found.sample.effective >= _FEWEST_EFFECTIVE else None
        return None

    models: list[Model] = []
    weights: list[float] = []
    names: set[str] = set()
    plugged_in = failed = 0
    for found, model, share in zip(search.together(integrated, range(several)), fitted, shares, strict=True):
        tried = [] if found is None else search.together(partial(_conditioned, search), found.priors)
        shared = [] if found is None else found.weights.tolist()
        parts = [(each, weight) for each, weight in zip(tried, shared, strict=True) if each is not None]
        failed += len(tried) - len(parts)
        plugged_in += not parts
        names.update(map(_kind, found.names) if found is not None and parts else ())
        total = sum(weight for _, weight in parts)
        models += [each for each, _ in parts] or [model]
        weights += [share * weight / total for _, weight in parts] or [share]
    if plugged_in == several:
        none = "none of the candidates has a posterior of them that could be sampled"
        why = "the search was interrupted" if search.interrupt.requested else "there was no more time"
        why = why if no_time else none
        return models, weights, f"The hyperparameters are plugged in as fitted: {why}."
    weight = np.array(weights)
    order = np.argsort(weight, kind="stable")
    kept = np.sort(order[np.cumsum(weight[order]) > _NEGLIGIBLE])
    said = (
        f"Predictions integrate over what is not known of {', '.join(sorted(names))}: a mixture of {len(kept)} models, "
        "weighted by the restricted likelihood and weakly informative priors"
    )
    if len(kept) < len(models):
        said += f"; {len(models) - len(kept)} more with {_NEGLIGIBLE:.1%} of the weight together were left out"
    if failed:
        said += f"; {failed} could not be computed, rounding errors being too large, and were left out"
    if plugged_in:
        said += f"; {plugged_in} of {several} candidates are plugged in as fitted"
    if fewer:
        said += "; with more seconds= there would be more of them"
    return [models[i] for i in kept], (weight[kept] / weight[kept].sum()).tolist(), f"{said}."


def _conditioned(search: CandidateSearch, prior: Prior) -> Model | None:
    """The prior given the data; None where rounding errors leave no positive definite matrix, as they nearly did."""
    with suppress(NotPositiveDefiniteError):
        return search.condition(prior)
    return None


def _kind(name: str) -> str:
    """A hyperparameter's name without where it is: "lengthscale" for ``kernel.kernels[0].lengthscale[1]``."""
    return name.rsplit(".", 1)[-1].split("[")[0].replace("_", " ")
