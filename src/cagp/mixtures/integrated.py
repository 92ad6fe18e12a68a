"""Predictions that integrate over what is not known of the hyperparameters."""

from __future__ import annotations

from typing import Any

from ..hyperparameters import HyperparameterPosterior, posterior
from ..prior import Prior
from ..solvers import Cholesky, Solver
from ..support.validation import ArrayLike
from .model import MixtureModel


def integrated(
    prior: Prior, X: ArrayLike, y: ArrayLike, solver: Solver | str | None = None, **options: Any
) -> MixtureModel:
    """``prior`` conditioned on observations y (n,) at X (n, p), with the uncertainty of its hyperparameters.

    Its values are where the search starts. The result is a mixture over the posterior of the hyperparameters;
    ``options`` are those of ``cagp.hyperparameters.posterior``, which shows that posterior itself. ``solver`` is
    Cholesky unless given.

    >>> import numpy as np, cagp
    >>> X = np.linspace(0, 1, 12)[:, None]
    >>> model = cagp.mixtures.integrated(cagp.Prior(cagp.RBF(0.3)), X, np.sin(6 * X[:, 0]))
    >>> model.predict(np.array([[0.5]])).interval(0.95)[0].shape
    (1,)
    """
    return conditioned(posterior(prior, X, y, **options), X, y, solver, device=options.get("device"))


def conditioned(
    found: HyperparameterPosterior, X: ArrayLike, y: ArrayLike, solver: Solver | str | None = None, **settings: Any
) -> MixtureModel:
    """The priors of a posterior, conditioned on the same data; ``settings`` are those of ``Prior.condition``."""
    used = Cholesky() if solver is None else solver
    return MixtureModel.of([each.condition(X, y, used, **settings) for each in found.priors], found.weights)
