"""From fitted candidates to a model whose predictions integrate over the hyperparameters of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import InputError, NotPositiveDefiniteError
from ..hyperparameters import posterior
from ..hyperparameters.uncertainty import MOST_OBSERVATIONS, affordable
from ..mixtures import MixtureModel, conditioned
from ..model import Model
from ..support.interrupt import Interrupt
from ..support.validation import choice
from .search import Settings

_FEWEST_COMPONENTS, _FEWEST_EVALUATIONS = 4, 24
"""For each of several candidates that share what there is time for."""

_NEGLIGIBLE = 0.005
"""The lightest components that have this share of the weight together are left out."""

JUDGED_ALONE = 1000
"""Beyond so many observations the error bars are judged by the component with the most weight: all would take long."""


@dataclass(frozen=True)
class Part:
    """A fitted candidate: its model, its share of the prediction, and which hyperparameters its fit held.

    ``likely`` says that the values are those of maximum likelihood; other criteria have no posterior.
    """

    model: Model
    weight: float
    fixed: tuple[str, ...]
    likely: bool


def wanted(uncertainty: bool | str, n: int) -> bool:
    """Whether n observations have their hyperparameters integrated over; the argument is checked."""
    if not isinstance(uncertainty, bool):
        choice(uncertainty, "uncertainty", ("auto",))
    if uncertainty is True and n > MOST_OBSERVATIONS:
        raise InputError(
            f"uncertainty=True is for at most {MOST_OBSERVATIONS:,} observations, got {n:,}; with so many the "
            'hyperparameters are known well enough: leave it at "auto"'
        )
    return uncertainty is not False and n <= MOST_OBSERVATIONS


def plugged_in(parts: Sequence[Part]) -> Model | MixtureModel:
    """The models with the hyperparameters as they were fitted, mixed by their weights."""
    if len(parts) == 1:
        return parts[0].model
    return MixtureModel.of([each.model for each in parts], [each.weight for each in parts])


def integrated_over(
    parts: Sequence[Part], settings: Settings, interrupt: Interrupt
) -> tuple[Model | MixtureModel, str]:
    """The mixture over the posteriors of the hyperparameters of all parts, and what was done, in a sentence.

    Each part's weight is divided among its components. Ctrl-C leaves the hyperparameters that are not done as fitted.
    """
    simple = plugged_in(parts)
    X, y = simple.plain.recipe.X, simple.plain.recipe.y
    most, size = affordable(len(y))
    several = len(parts)
    options: dict[str, Any] = {
        "components": most if several == 1 else max(_FEWEST_COMPONENTS, most // several),
        "evaluations": size if several == 1 else max(_FEWEST_EVALUATIONS, size // several),
        "seed": settings.seed,
        "device": settings.device,
    }
    models: list[Model] = []
    weights: list[float] = []
    names: set[str] = set()
    left = 0
    for part in parts:
        found = None
        if part.likely and not interrupt.requested:
            try:
                found = posterior(part.model.prior, X, y, fix=part.fixed, **options)
                mixed = conditioned(found, X, y, settings.solver, device=settings.device, **settings.conditioning)
            except NotPositiveDefiniteError:
                found = None
        if found is None:
            models.append(part.model)
            weights.append(part.weight)
            left += 1
        else:
            for each in mixed.components:
                each.column_names = part.model.column_names
            models += mixed.components
            weights += (part.weight * mixed.weights).tolist()
            names.update(_kind(name) for name in found.names)
    if left == several:
        why = "the search was interrupted" if interrupt.requested else "none of the candidates has a posterior of them"
        return simple, f"The hyperparameters are plugged in as fitted: {why}."
    shares = np.array(weights)
    order = np.argsort(shares, kind="stable")
    kept = np.sort(order[np.cumsum(shares[order]) > _NEGLIGIBLE])
    shares = shares[kept] / shares[kept].sum()
    said = (
        f"Predictions integrate over what is not known of {', '.join(sorted(names))}: a mixture of {len(kept)} models, "
        "weighted by the restricted likelihood and weakly informative priors"
    )
    if len(kept) < len(models):
        said += f"; {len(models) - len(kept)} more with {_NEGLIGIBLE:.1%} of the weight together were left out"
    if left:
        said += f"; {left} of {several} candidates are plugged in as fitted"
    return MixtureModel.of([models[i] for i in kept], shares), f"{said}."


def _kind(name: str) -> str:
    """A hyperparameter's name without where it is: "lengthscale" for ``kernel.kernels[0].lengthscale[1]``."""
    return name.rsplit(".", 1)[-1].split("[")[0].replace("_", " ")
