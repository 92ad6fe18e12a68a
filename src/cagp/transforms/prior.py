"""A prior of observations that are a transform of a Gaussian process with noise."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from ..errors import InputError, InputTypeError
from ..hyperparameters import fit as fit_hyperparameters
from ..prior import Prior
from ..support.convert import Output
from ..support.validation import ArrayLike, as_float64, targets
from .fitting import Profile, most_likely
from .kinds import Transform, named
from .layer import TransformedModel

_ROUNDS = 6
_SETTLED = 0.02
"""Parameters of the transform and hyperparameters take turns until no parameter moves by more than this."""


@dataclass(frozen=True)
class TransformedPrior:
    """y = g⁻¹(f(x) + noise) with f and noise of a ``prior``, and g a ``transform``; made by ``Prior.transformed``.

    Kernel, mean and noise are on the scale of g(y), where weights, error bars and the identity behind them are those of
    any prior. ``transform`` is one from ``cagp.transforms``, such as ``BoxCox(0.3)``, or the name of one, whose
    parameters ``fit`` finds.

    >>> import numpy as np, cagp
    >>> X = np.linspace(0, 1, 30)[:, None]
    >>> prior = cagp.Prior(cagp.Matern52(0.3), noise_variance=0.01).transformed("log")
    >>> model = prior.condition(X, np.exp(np.sin(6 * X[:, 0])))
    >>> bool(model.predict(X).interval(0.99)[0].min() > 0)
    True
    """

    prior: Prior
    transform: Transform | str = field(kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.prior, Prior):
            raise InputTypeError(f"prior must be a cagp.Prior, got {self.prior!r}")
        kind = named(self.transform)
        if isinstance(kind, type) and not kind.free:
            object.__setattr__(self, "transform", kind())

    def _known(self) -> Transform:
        if isinstance(self.transform, str):
            raise InputError(
                f'the parameters of transform "{self.transform}" are not known; fit(X, y) finds them, or give a '
                "transform with its parameters, such as BoxCox(0.3)"
            )
        return self.transform

    def condition(self, X: ArrayLike, y: ArrayLike, *arguments: Any, **settings: Any) -> TransformedModel:
        """Condition on observations y (d,) at points X (d, p); ``settings`` are those of ``Prior.condition``."""
        transform = self._known()
        values = as_float64(y, "y")
        model = self.prior.condition(X, transform.of(values) if values.ndim == 1 else values, *arguments, **settings)
        return TransformedModel.around(model, transform)

    def log_likelihood(self, X: ArrayLike, y: ArrayLike, **options: Any) -> float:
        """log p(y) of observations y (n,) at points X (n, p), with the slope of the transform in it.

        ``options`` are those of ``Prior.log_likelihood``. Values for different transforms can be compared where the
        mean is known: unknown coefficients are integrated out on the scale of g(y).
        """
        transform, values = self._known(), targets(y, len(X))
        slope = float(transform.log_slope(values).sum())
        return self.prior.log_likelihood(X, transform.of(values), **options) + slope

    def fit(self, X: ArrayLike, y: ArrayLike, **options: Any) -> TransformedPrior:
        """Maximum-likelihood hyperparameters, and parameters of the transform, for observations y (n,) at X (n, p).

        The two are fitted in turn until they settle. ``options`` are those of ``Prior.fit``.
        """
        places, values = as_float64(X, "X").cpu().numpy(), targets(y, len(X)).cpu()
        kind = named(self.transform)
        transform = kind.starting(values.numpy()) if isinstance(kind, type) else kind
        transform.of(values)
        prior = self.prior
        for _ in range(_ROUNDS if transform.free else 1):
            prior = self._fitted(prior, X, transform.of(values), options)
            found, _ = most_likely(transform, Profile(prior, places, values.numpy(), transform))
            moved = float(np.abs(found.values - transform.values).max(initial=0.0))
            transform = found
            if moved <= _SETTLED:
                break
        if transform.free:
            prior = self._fitted(prior, X, transform.of(values), options)
        return TransformedPrior(prior, transform=transform)

    @staticmethod
    def _fitted(prior: Prior, X: ArrayLike, z: torch.Tensor, options: dict[str, Any]) -> Prior:
        return fit_hyperparameters(prior, X, z, **{"standard_errors": False, "progress": False, **options}).prior

    def sample(self, X: ArrayLike, n: int = 1, seed: int = 0, **settings: Any) -> Any:
        """``n`` joint draws of g⁻¹(f) at X (T, p), without noise, shape (n, T)."""
        draws = as_float64(self.prior.sample(X, n, seed, **settings), "draws")
        return Output.like(X)(self._known().inverse(draws))
