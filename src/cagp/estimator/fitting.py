"""How an estimator is fitted: without a kernel by ``cagp.fit``, with one by maximum likelihood from it."""

from __future__ import annotations

import dataclasses
import numbers
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import Kernel as SklearnKernel
from sklearn.gaussian_process.kernels import WhiteKernel

from ..choosing.front_door import fit_named
from ..choosing.options import Options
from ..errors import InputError, InputTypeError
from ..hyperparameters import FitResult, FitWarning
from ..hyperparameters import fit as fit_prior
from ..hyperparameters.result import told_by_a_constant, warn
from ..hyperparameters.search_space import BOUND_FACTOR
from ..hyperparameters.starting_prior import NOISE_SHARE, column_groups, scale_of, starting_kernel
from ..interop.sklearn_kernels import Translation, from_sklearn
from ..kernels import Kernel
from ..means import Constant, Mean, Zero, as_mean
from ..model import Model
from ..prior import Prior
from ..quantities import QuantitiesModel
from ..regression import as_regression
from ..solvers.exact import EXACT_UP_TO
from ..support.interrupt import Interrupt
from ..support.memory import require, resolve_budget
from ..support.validation import as_float64, not_negative_each, positive

OPTIMIZER = "fmin_l_bfgs_b"
_SKLEARN_ALPHA = 1e-10  # what GaussianProcessRegressor adds to the diagonal unless it is told otherwise
_CALLABLE = "a callable optimizer needs a scikit-learn kernel, whose theta it can move"
COPIES_AGREE = (
    "sample_weight repeats observations, and copies agree exactly, which the fit takes for little noise: if a weight "
    "says how precise an observation is, give its noise in its place, fit(X, y, noise_variance=...)."
)
_NO_ALPHA = float(np.finfo(float).tiny)  # it wants a positive one even where a WhiteKernel is all the noise


@dataclass(frozen=True)
class Start:
    """A prior to start from, whose noise is ``known`` (n,) and one unknown ``level``, where that is not None.

    ``white`` says that the level comes from a WhiteKernel, which scikit-learn counts as part of the function.
    """

    kernel: Kernel
    mean: Mean
    level: float | None
    level_is_free: bool
    known: np.ndarray
    white: bool
    translation: Translation | None
    fixed: tuple[str, ...]
    bounds: Mapping[str, tuple[float, float]]

    def prior(self, kernel: Kernel | None = None, level: float | None = None) -> Prior:
        """The prior, with another kernel and level of noise where they are given."""
        first = self.level if level is None else level
        total = self.known if first is None else self.known + first
        noise: Any = float(total[0]) if (total == total[0]).all() else total
        return Prior(self.kernel if kernel is None else kernel, mean=self.mean, noise_variance=noise)


def known_noise(n: int, **given: Any) -> np.ndarray:
    """The sum (n,) of noise variances that are known, each one number or one per observation, or None."""
    total = np.zeros(n)
    for name, value in given.items():
        if value is not None:
            total = total + not_negative_each(np.squeeze(value) if np.size(value) == 1 else value, name, n).numpy()
    return total


def repeated_rows(weights: Any, n: int, *noises: Any) -> np.ndarray:
    """The rows, each as often as its weight says, in order; ``noises`` are the parameters that may be one for each."""
    counts = as_float64(weights, "sample_weight").cpu().numpy()
    if counts.shape != (n,):
        raise InputError(f"sample_weight has shape {counts.shape} for {n} observations; give one weight for each")
    if any(map(np.ndim, noises)):
        raise InputError(
            "sample_weight repeats observations, and noise_variance or alpha have one value for each; give these "
            "values to fit: fit(X, y, noise_variance=..., sample_weight=...)"
        )
    if (wrong := (counts < 0) | (counts % 1 != 0)).any():
        row = int(wrong.argmax())
        raise InputError(
            f"sample_weight must be whole numbers, how often each observation is there, got {counts[row]:g} at index "
            f"{row}; where some are more precise than others, say how noisy each is: fit(X, y, noise_variance=...)"
        )
    if not counts.any():
        raise InputError("sample_weight is zero for all observations; nothing is left to fit to")
    most = f"{counts.max():g} at index {counts.argmax()}"
    what = f"sample_weight, {most}, repeats observations, and {counts.sum():g} rows"
    remedy = "divide the weights, or say how noisy each observation is: fit(X, y, noise_variance=...)"
    require(16 * counts.sum(), resolve_budget(None, torch.device("cpu")), what, remedy)
    return np.repeat(np.arange(n), counts.astype(np.int64))


def require_noise(known: np.ndarray) -> None:
    """Refuse observations without noise: ``known`` (n,) is all that they have."""
    if not (known > 0).all():
        raise InputError(
            f"alpha and noise_variance leave the observation at index {int(known.argmin())} without noise; give all a "
            "positive noise variance, for data without noise a small one, such as 1e-8 times the variance of y"
        )


def start_from(
    kernel: Any, mean: Any, noise_variance: Any, alpha: Any, X: np.ndarray, y: np.ndarray, given_noise: Any = None
) -> Start:
    """What a fit to X (n, p) and y (n, outputs) starts from; ``given_noise`` is what was handed to ``fit``."""
    start_kernel, translation = kernel, None
    fixed: tuple[str, ...] = ()
    bounds: dict[str, tuple[float, float]] = {}
    if isinstance(kernel, SklearnKernel):
        translation = from_sklearn(kernel, X.shape[1])
        if translation.kernel is None:
            raise InputError(f"the kernel {kernel} is noise and no function; add a kernel such as RBF()")
        start_kernel, fixed, bounds = translation.kernel, translation.fixed, dict(translation.bounds)
    elif kernel is None:
        start_kernel, fixed = starting_kernel(column_groups(X), scale_of(y))
    elif not isinstance(kernel, Kernel):
        raise InputTypeError(f"kernel must be a kernel of cagp or of scikit-learn, or None, got {kernel!r}")
    said = noise_variance is not None or given_noise is not None
    if alpha is None and translation is not None and not said:
        alpha = _SKLEARN_ALPHA
    level, free, of_each = None, False, noise_variance if given_noise is None else given_noise
    if given_noise is None and noise_variance is not None and not np.ndim(noise_variance):
        level, free, of_each = positive(noise_variance, "noise_variance"), True, None
    known = known_noise(len(X), alpha=alpha, noise_variance=of_each)
    white = translation is not None and translation.noise_variance > 0
    if translation is not None and white:
        if noise_variance is not None:
            raise InputError(
                f"noise_variance={noise_variance!r} is given, and the kernel {kernel} has its noise in a WhiteKernel; "
                "leave one of them out, or give known noise as alpha"
            )
        level, free = translation.noise_variance, translation.noise_is_free
        if free:
            bounds["noise_variance"] = translation.noise_bounds
    elif level is None and alpha is None and not said:
        level, free = NOISE_SHARE * scale_of(y), True
    if level is None:
        require_noise(known)
    if as_regression(mean) is not None:
        raise InputError(
            f"mean={mean!r} is learned where the kernel is chosen, with kernel=None or a name; beside a kernel give "
            "cagp.Regression(regressor).fit(X, y)"
        )
    own_mean = as_mean(mean) if mean is not None else Constant() if kernel is None else Zero()
    return Start(start_kernel, own_mean, level, free, known, white, translation, fixed, bounds)


@dataclass(frozen=True)
class ChosenHyperparameters:
    """Those of ``kernel``, in ``public`` as one of the library that it was given in, and the ``level`` of the noise."""

    kernel: Kernel
    level: float | None
    public: Any
    result: FitResult | None
    message: str
    interrupted: bool = False


@dataclass(frozen=True)
class HowToLearn:
    """The parameters of the estimator that are about fitting."""

    optimizer: str | Callable[..., Any] | None
    n_restarts: int
    seed: int
    options: Mapping[str, Any]

    def __post_init__(self) -> None:
        if self.optimizer not in (None, OPTIMIZER) and not callable(self.optimizer):
            allowed = f"{OPTIMIZER!r}, None, or a callable as GaussianProcessRegressor takes it"
            raise InputError(f"optimizer must be {allowed}, got {self.optimizer!r}")


def chosen(
    estimator: Any, X: np.ndarray, Y: np.ndarray, noise: Any, like: Any, how: HowToLearn, about: Mapping[str, Any]
) -> list[Model] | QuantitiesModel:
    """For each column of Y (n, outputs) the model that ``cagp.fit`` chooses, by the parameters of the estimator.

    Several may be modelled together. ``about`` is what ``fit_named`` is told beside the values.
    """
    options, fitted = _options(estimator, len(X), noise, like, how), []
    if Y.shape[1] > 1 and estimator.together not in [False]:
        found: Any = fit_named(X, Y, **about, crs=estimator.crs_, **options | {"together": estimator.together})
        return cast(QuantitiesModel, found)
    with Interrupt():  # Ctrl-C is about all columns
        for column in Y.T:
            fitted.append(fit_named(X, column, **about, crs=estimator.crs_, **options))
            result = fitted[-1].result
            if result is not None and any(each.kind == "not converged" for each in result.advice):
                warn(result)  # what is flat alone, or ended in time as asked, is in the story
    return fitted


def _options(estimator: Any, n: int, noise: Any, like: Any, how: HowToLearn) -> dict[str, Any]:
    """The parameters of the estimator as ``cagp.fit`` calls them, for each of n observations."""
    if callable(how.optimizer):
        raise InputError(f"{_CALLABLE}; leave it out where the kernel is chosen")
    if estimator.normalize_y and estimator.target_transform not in (None, "auto"):
        asked = f"target_transform={estimator.target_transform!r} is for y as it was given"
        raise InputError(f"{asked}, and normalize_y=True changes it first; leave normalize_y out")
    fit_options = {"n_restarts": how.n_restarts, **how.options}
    names = {each.name: each.metadata["estimator"] for each in dataclasses.fields(Options)}
    given = {name: getattr(estimator, own or name) for name, own in names.items() if own is not None}
    return given | {
        "together": "auto",
        "like": like,
        "noise_variance": _noise(estimator, noise, n),
        "likelihood": fit_options.pop("likelihood", "auto"),
        "recalibrate": "auto" if estimator.recalibrate is None else estimator.recalibrate,
        "fit_options": fit_options,
        "seed": how.seed,
        "progress": False,
    }


def _noise(estimator: Any, given: Any, n: int) -> Any:
    """Where the noise starts, or the known noise of each observation (n,); None where nothing is known."""
    level = estimator.noise_variance if given is None else None
    if estimator.alpha is None and (level is None or np.ndim(level) == 0):
        return level if given is None else not_negative_each(given, "noise_variance", n).numpy()
    if level is not None and np.ndim(level) == 0:
        both = f"alpha={estimator.alpha!r} beside noise_variance={level!r}, one known and one fitted"
        raise InputError(f"{both}, needs a kernel; give one, or leave one of the two out")
    known = known_noise(n, alpha=estimator.alpha, noise_variance=level if given is None else given)
    require_noise(known)
    return known


def learn(start: Start, X: np.ndarray, Y: np.ndarray, how: HowToLearn) -> ChosenHyperparameters:
    """Maximum-likelihood hyperparameters for Y (n, outputs) at X (n, p)."""
    public = start.kernel if start.translation is None else start.translation.source
    if how.optimizer is None:
        return ChosenHyperparameters(start.kernel, start.level, public, None, "Nothing was fitted: optimizer=None.")
    if start.translation is not None and (callable(how.optimizer) or any(k.n_dims for k in start.translation.opaque)):
        return _learn_by_sklearn(start, X, Y, how)
    if callable(how.optimizer):
        raise InputError(f"{_CALLABLE}; use optimizer={OPTIMIZER!r} with kernels of cagp")
    free = [name for name in start.kernel.hyperparameter_names() if name not in start.fixed]
    if not free and not start.level_is_free:
        message = "Nothing was fitted: all hyperparameters are fixed."
        return ChosenHyperparameters(start.kernel, start.level, public, None, message)
    given = dict(how.options)
    fix, bounds = given.pop("fix", ()), given.pop("bounds", None) or {}
    held = () if start.level is None or start.level_is_free else ("noise_variance",)
    settings: dict[str, Any] = {
        "n_restarts": how.n_restarts,
        "seed": how.seed,
        "standard_errors": False,
        "progress": False,
        "fix": (*([fix] if isinstance(fix, str) else fix), *start.fixed, *held),
        "fix_noise": start.level is None,
        "bounds": {**start.bounds, **bounds},
        **given,
    }
    alone = start
    if start.level is not None:  # the known noise goes beside the unknown
        alone = dataclasses.replace(start, known=np.zeros_like(start.known))
        settings |= {"known_noise": start.known} if start.known.any() else {}
    with Interrupt() as interrupt:
        result = fit_prior(alone.prior(), X, Y if Y.shape[1] > 1 else Y[:, 0], **settings)
    warn(result, told_by_a_constant(Y, result))
    level = None if start.level is None else float(result.prior.noise_variance)
    public = result.prior.kernel
    if start.translation is not None:
        public = start.translation.to_sklearn(result.values, level if start.white else None)
    random = result.size < len(X) and isinstance(settings.get("subset"), numbers.Integral)
    drawn = f", drawn at random (seed {how.seed})" if random else ""
    done = f"Maximum of the {result.likelihood} likelihood of {result.size} of {len(X)} observations{drawn}."
    message = f"{done} {result.message}"
    return ChosenHyperparameters(result.prior.kernel, level, public, result, message, interrupt.requested)


def _learn_by_sklearn(start: Start, X: np.ndarray, Y: np.ndarray, how: HowToLearn) -> ChosenHyperparameters:
    """By scikit-learn, for its kernels that cagp has no equal of and callables; of many points on a random subset."""
    assert start.translation is not None
    if unknown := sorted(set(how.options) - {"subset"}):
        raise InputError(
            f"fit_options has {', '.join(map(repr, unknown))}, but this kernel is fitted by scikit-learn, since cagp "
            "has no equal of it or the optimizer is a callable; only a number as 'subset' can be given"
        )
    size = how.options.get("subset") or EXACT_UP_TO
    rows = np.sort(np.random.default_rng(how.seed).choice(len(X), min(size, len(X)), replace=False))
    kernel, separate = start.translation.source, False
    if start.level is not None and not start.white:  # noise_variance beside a kernel without WhiteKernel
        bounds = (start.level / BOUND_FACTOR, start.level * BOUND_FACTOR)
        kernel, separate = kernel + WhiteKernel(start.level, bounds), True
    search = {"optimizer": how.optimizer, "n_restarts_optimizer": how.n_restarts, "random_state": how.seed}
    theirs = GaussianProcessRegressor(kernel, alpha=np.maximum(start.known[rows], _NO_ALPHA), **search)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        theirs.fit(X[rows], _residuals(start, X[rows], Y[rows]))
    for warning in caught:
        category = FitWarning if issubclass(warning.category, ConvergenceWarning) else warning.category
        warn(None, str(warning.message), category=category)
    found = from_sklearn(theirs.kernel_, X.shape[1])
    assert found.kernel is not None
    drawn = f", drawn at random (seed {how.seed})" if len(rows) < len(X) else ""
    message = (
        f"Maximum of the exact likelihood of {len(rows)} of {len(X)} observations{drawn}, found by scikit-learn's "
        f"optimiser: log p = {theirs.log_marginal_likelihood_value_:.6g}."
    )
    level = None if start.level is None else found.noise_variance
    return ChosenHyperparameters(found.kernel, level, theirs.kernel_.k1 if separate else theirs.kernel_, None, message)


def log_likelihood_at(
    start: Start, noise: Any, kernel: Any, X: np.ndarray, Y: np.ndarray, theta: np.ndarray, eval_gradient: bool
) -> Any:
    """The exact log-likelihood at scikit-learn's ``theta`` (q,), and its gradient (q,); ``noise`` is not in theta."""
    theirs = GaussianProcessRegressor(kernel, alpha=np.maximum(noise, _NO_ALPHA))
    theirs.kernel_, theirs.X_train_, theirs.y_train_ = kernel, X, _residuals(start, X, Y)
    return theirs.log_marginal_likelihood(theta, eval_gradient=eval_gradient)


def _residuals(start: Start, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """Y (n, outputs) less the prior mean at X (n, p): scikit-learn's prior has the mean zero."""
    points = torch.from_numpy(X)
    columns = [torch.from_numpy(np.ascontiguousarray(y)) for y in Y.T]
    return np.column_stack([(y - start.mean.fit(points, y)(points)).numpy() for y in columns])


def prior_prediction(start: Start, X: np.ndarray, outputs: int, std: bool, cov: bool, of: str | None) -> Any:
    """What an estimator with a kernel says before it has seen data: the prior at X (T, p), the same for all outputs."""
    prior = start.prior()
    noise = {None: start.level if start.white else 0.0, "latent": 0.0}.get(of, prior.noise_variance)

    def for_all(values: np.ndarray) -> np.ndarray:
        return squeezed(np.repeat(values[..., None], outputs, axis=-1))

    points = torch.from_numpy(X)
    mean = for_all((torch.zeros(len(X)).double() if prior.mean.unknown else prior.mean(points)).numpy())
    if cov:
        return mean, for_all(prior.kernel(X) + np.eye(len(X)) * noise)
    if std:
        variance = prior.kernel.diagonal(prior.kernel.embed(points, points.mean(dim=0))).numpy()
        return mean, for_all(np.sqrt(variance + noise))
    return mean


def squeezed(array: np.ndarray) -> np.ndarray:
    """Without the last axis where there is one output."""
    return array[..., 0] if array.shape[-1] == 1 else array
