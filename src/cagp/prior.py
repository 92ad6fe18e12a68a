"""The prior: kernel, mean and noise, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import torch

from .errors import InputError, InputTypeError
from .kernels import Kernel, NoiseByQuantity, Pattern
from .means import Mean, Zero, as_mean
from .solvers import Solver
from .support.convert import Output, as_device
from .support.frames import series_name
from .support.memory import require, resolve_budget
from .support.positive_definite import joint_draws
from .support.validation import ArrayLike, as_float64, count, points, positive, targets
from .transforms import Transform, named

if TYPE_CHECKING:  # condition and fit are short cuts into rooms above, imported where they are used
    from .hyperparameters.fitting import FitOptions, LikelihoodOptions
    from .model import Model


@dataclass(frozen=True, eq=False)
class Prior:
    """f ~ GP(mean, kernel), observed as y = f(x) + noise.

    ``mean`` is a mean, a number, or a function of the points. ``noise_variance`` is the variance of the Gaussian
    noise: one positive number, or one per observation, shape (d,). Where a ``noise_pattern`` is given, its standard
    deviation at x is √noise_variance · noise_pattern(x). ``noise_factors`` (d,) multiply the noise variance of the
    observations, of some more than of others; new observations have the noise without them.

    >>> import cagp
    >>> prior = cagp.Prior(cagp.Matern32(lengthscale=0.2, variance=1.0), noise_variance=0.01)
    """

    kernel: Kernel
    mean: Mean = field(default_factory=Zero, kw_only=True)
    noise_variance: Any = field(default=1e-2, kw_only=True)
    noise_pattern: Pattern | NoiseByQuantity | None = field(default=None, kw_only=True)
    noise_factors: Any = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.kernel, Kernel):
            raise InputTypeError(f"kernel must be a kernel such as Matern32(0.2), got {self.kernel!r}")
        object.__setattr__(self, "mean", as_mean(self.mean))
        object.__setattr__(self, "noise_variance", _checked_noise(self.noise_variance))
        if self.noise_factors is not None:
            object.__setattr__(self, "noise_factors", _each_positive(self.noise_factors, "noise_factors"))
        if not isinstance(self.noise_pattern, Pattern | NoiseByQuantity | None):
            raise InputTypeError(f"noise_pattern must be a cagp.Pattern, got {self.noise_pattern!r}")
        for name in ("noise_pattern", "noise_factors"):
            if getattr(self, name) is not None and np.ndim(self.noise_variance):
                raise InputError(f"{name} is for one noise_variance; one per observation says all there is")

    def __repr__(self) -> str:
        pattern = "" if self.noise_pattern is None else f", noise_pattern={self.noise_pattern!r}"
        more = "" if self.noise_factors is None else f", noise_factors of {len(self.outliers)}"
        noise = f"noise_variance={self.noise_variance!r}{pattern}{more}"
        return f"Prior(kernel={self.kernel!r}, mean={self.mean!r}, {noise})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Prior):
            return NotImplemented
        own, theirs = ((each.kernel, each.mean, each.noise_pattern) for each in (self, other))
        names = "noise_variance", "noise_factors"
        return own == theirs and all(np.array_equal(getattr(self, name), getattr(other, name)) for name in names)

    __hash__ = None  # type: ignore[assignment]

    def noise(self, X: torch.Tensor) -> torch.Tensor:
        """The noise variance of each of the observations at X (n, p), shape (n,), float64."""
        noise = torch.tensor(self.noise_variance, dtype=torch.float64, device=X.device)
        if noise.ndim == 1 and noise.shape[0] != len(X):
            raise InputError(
                f"noise_variance has {noise.shape[0]} values for {len(X)} observations; "
                "give one number, or one per observation"
            )
        if self.noise_factors is not None:
            if len(self.noise_factors) != len(X):
                raise InputError(f"noise_factors has {len(self.noise_factors)} values for {len(X)} observations")
            noise = noise * torch.tensor(self.noise_factors, device=X.device)
        if self.noise_pattern is not None:
            return noise * self.noise_pattern.at(X).square()
        return noise.expand(len(X)).clone()

    def new_noise(self, X: torch.Tensor) -> float | torch.Tensor | None:
        """The noise variance of new observations at X (T, p), one number or (T,); None where only the old have one."""
        if np.ndim(self.noise_variance):
            return None
        return self.noise_variance if self.noise_pattern is None else replace(self, noise_factors=None).noise(X)

    @property
    def outliers(self) -> np.ndarray:
        """The rows (m,) of the observations whose noise is multiplied."""
        factors = self.noise_factors
        return np.empty(0, np.intp) if factors is None else np.flatnonzero(factors != 1)

    def condition(
        self,
        X: ArrayLike,
        y: ArrayLike,
        solver: Solver | str = "auto",
        *,
        storage: str = "auto",
        memory_budget: float | None = None,
        dtype: Any = "float64",
        solve_dtype: Any = None,
        device: str | torch.device | None = None,
    ) -> Model:
        """Condition on observations y (d,) at points X (d, p).

        ``solver`` approximates the kriging weights; "auto" picks one and says which. ``storage`` is "dense", "tiles"
        (matrix-free) or "auto": dense where the Gram matrix takes at most three quarters of ``memory_budget`` (in
        bytes; half of the free memory by default). That is for what is computed, beside the data, code and some 64 MiB
        of scratch memory; on one thread it was kept to within a tenth. ``dtype`` is the arithmetic. With
        ``solve_dtype="float32"`` the solver works in single precision and one product in ``dtype`` at the end certifies
        its weights: bad arithmetic makes the error bars wider, never wrong. ``device`` defaults to that of X.
        """
        from .model import Model

        if device is None:
            device = X.device if isinstance(X, torch.Tensor) else "cpu"
        how = {"storage": storage, "memory_budget": memory_budget, "dtype": dtype, "solve_dtype": solve_dtype}
        return Model.of(self, X, y, solver, as_device(device), **how)

    def sample(self, X: ArrayLike, n: int = 1, seed: int = 0, *, memory_budget: float | None = None) -> Any:
        """``n`` joint draws of f at X (T, p), without noise, shape (n, T). The same ``seed`` gives the same draws."""
        test = points(X, "X")
        count(n, "n", minimum=1)
        budget = resolve_budget(memory_budget, test.device)
        require(4 * 8 * len(test) ** 2, budget, f"joint draws at {len(test)} points", "draw at fewer points")
        embedding = self.kernel.embed(test, test.mean(dim=0))
        covariance = self.kernel.matrix(embedding, embedding)
        remedy = "check that the kernel is positive semidefinite"
        draws = joint_draws(self.mean(test), covariance, n, count(seed, "seed"), "the prior covariance", remedy)
        return Output.like(X)(draws)

    def log_likelihood(self, X: ArrayLike, y: ArrayLike, **options: Unpack[LikelihoodOptions]) -> float:
        """log p(y) of observations y (n,) at points X (n, p): how well the prior as it stands explains the data.

        ``options`` are those of ``cagp.hyperparameters.log_likelihood``.
        """
        from .hyperparameters import log_likelihood

        return log_likelihood(self, X, y, **options)

    def fit(self, X: ArrayLike, y: ArrayLike, **options: Unpack[FitOptions]) -> Prior:
        """A new prior with maximum-likelihood hyperparameters for observations y (n,) at points X (n, p).

        ``options`` are those of ``cagp.hyperparameters.fit``, which also returns the likelihood, standard errors and
        the trace. What needs a look (a bound reached, a flat likelihood, no convergence) is told by one ``FitWarning``.
        """
        from .hyperparameters import fit
        from .hyperparameters.result import warn

        options.setdefault("standard_errors", False)  # they would be computed and thrown away
        result = fit(self, X, y, **options)
        warn(result)
        return result.prior

    def transformed(self, transform: Transform | str) -> TransformedPrior:
        """The prior of observations y with g(y) = f(x) + noise, for a ``transform`` g; see ``TransformedPrior``."""
        return TransformedPrior(self, transform=transform)


@dataclass(frozen=True)
class TransformedPrior:
    """y = g⁻¹(f(x) + noise) with f and noise of a ``prior``, and g a ``transform``; made by ``Prior.transformed``.

    Kernel, mean and noise are on the scale of g(y). ``transform`` is such as ``BoxCox(0.3)``, or a name, whose
    parameters ``fit`` finds: "log", "box-cox", "yeo-johnson", "sinh-arcsinh" or "logit".

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

    def condition(self, X: ArrayLike, y: ArrayLike, *arguments: Any, **settings: Any) -> Model:
        """Condition on observations y (d,) at points X (d, p); ``settings`` are those of ``Prior.condition``."""
        transform = self._known()
        values = as_float64(y, "y")
        model = self.prior.condition(X, transform.of(values) if values.ndim == 1 else values, *arguments, **settings)
        return model.replace(transform=transform, target_name=series_name(y))

    def log_likelihood(self, X: ArrayLike, y: ArrayLike, **options: Any) -> float:
        """log p(y) of observations y (n,) at points X (n, p), with the slope of the transform in it.

        Values for different transforms can be compared where the mean is known: unknown coefficients are integrated out
        on the scale of g(y). ``options`` are those of ``Prior.log_likelihood``.
        """
        transform, values = self._known(), targets(y, len(X))
        slope = float(transform.log_slope(values).sum())
        return self.prior.log_likelihood(X, transform.of(values), **options) + slope

    def fit(self, X: ArrayLike, y: ArrayLike, **options: Any) -> TransformedPrior:
        """Maximum-likelihood hyperparameters and parameters of the transform, in turn; ``options`` as for ``Prior``."""
        from .hyperparameters import fit_transformed

        prior, transform = fit_transformed(self.prior, named(self.transform), X, y, **options)
        return TransformedPrior(prior, transform=transform)

    def sample(self, X: ArrayLike, n: int = 1, seed: int = 0, **settings: Any) -> Any:
        """``n`` joint draws of g⁻¹(f) at X (T, p), without noise, shape (n, T)."""
        draws = as_float64(self.prior.sample(X, n, seed, **settings), "draws")
        return Output.like(X)(self._known().inverse(draws))


def _checked_noise(noise: Any) -> float | np.ndarray:
    if np.ndim(noise.detach().cpu() if isinstance(noise, torch.Tensor) else noise) == 0:
        try:
            return positive(noise, "noise_variance")
        except InputError as error:
            raise type(error)(
                f"{error}; for data without noise give a small one, such as 1e-8 times the kernel's variance"
            ) from None
    return _each_positive(noise, "noise_variance", "one number or ")


def _each_positive(given: Any, name: str, beside: str = "") -> np.ndarray:
    values = as_float64(given, name).cpu().numpy().copy()
    if values.ndim != 1 or not len(values):
        raise InputError(f"{name} must be {beside}one per observation, got shape {values.shape}")
    if not (values > 0).all():
        worst = int(values.argmin())
        raise InputError(f"{name} must be positive everywhere, got {values[worst]:g} at index {worst}")
    values.setflags(write=False)
    return values
