"""The scikit-learn estimator."""

from __future__ import annotations

import numbers
import warnings
from typing import Any, Self, cast

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_array, check_is_fitted, check_X_y, validate_data

from ..errors import DataWarning, InputError
from ..hyperparameters import log_likelihood
from ..hyperparameters.result import warn
from ..model import Model
from ..predicting.beyond import told_beyond
from ..prediction import Prediction
from ..quantities import QuantitiesModel, is_several
from ..solvers import Solver, as_solver
from ..support.advice import warn_caller
from ..support.coordinate_systems import require_known_system, system_of, without_geometry
from ..support.encodings import Encoding
from ..support.frames import column_names, encodings_of, feature_names, features_of, frame_numbers, holds_texts
from ..support.repetitions import told_of_copies
from ..support.validation import (
    ArrayLike,
    as_float64,
    choice,
    count,
    not_negative_each,
    quantities,
    require_numeric,
)
from .fitting import (
    COPIES_AGREE,
    HowToLearn,
    Start,
    chosen,
    learn,
    log_likelihood_at,
    prior_prediction,
    repeated_rows,
    squeezed,
    start_from,
)
from .nested_parameters import nested_parameters, split_nested
from .outputs import Outputs, outputs_of, sklearn_draws

_EXACT_EVIDENCE = 8_000  # up to this many observations ``log_marginal_likelihood_value_`` is exact
_OF = ("latent", "observed")


class CAGPRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Gaussian process regression with honest error bars at any compute budget, for scikit-learn.

    Takes the place of ``GaussianProcessRegressor``: the same names, kernels and results for small data, and any solver
    of cagp for large data.

    Parameters
    ----------
    kernel : kernel of cagp or of scikit-learn, name or names, or None
        None, or names to choose from ("matern32"): what is not given is chosen as ``cagp.fit`` does, for each output.
        With a kernel all is as in ``GaussianProcessRegressor``; ``WhiteKernel`` becomes noise.
    noise_variance : float, array (n,) or None
        The variance of the noise of y: one number is where the fit starts (kept where ``optimizer`` is None), an array
        is known and kept. None: what ``WhiteKernel`` and ``alpha`` say; with kernels of cagp and no ``alpha``, fitted.
    mean : mean of cagp, number, function, regressor or None
        The prior mean; where the kernel is chosen any regressor, pipelines too, or "trees": regression kriging. None is
        zero where a kernel is given, as in ``GaussianProcessRegressor`` and ``Prior``.
    solver : solver of cagp or its name
        "auto" is exact (Cholesky) up to 2,000 observations. Beyond, it is NearestNeighbours where the kernel is chosen,
        too, and else what is cheapest within 1% of the exact variance. Settings are ``solver__iterations`` and so on.
    alpha : float, array (n,) or None
        Known noise, added and never fitted. None is 1e-10 for kernels of scikit-learn, as there, and zero for others.
    optimizer : "fmin_l_bfgs_b", callable or None
        Hyperparameters by maximum likelihood, beyond 2,000 observations that of nearest neighbours unless
        ``fit_options`` says otherwise; None keeps them (without a kernel, those of a Matérn 3/2 from the spread of the
        data). A callable, and kernels of scikit-learn that cagp has no equal of, are served by scikit-learn's own
        optimiser, on 2,000 observations drawn at random where there are more.
    n_restarts_optimizer : int
        Further starts of the optimiser, within a factor of ten of the first.
    normalize_y : bool
        Shift and scale y to mean 0 and variance 1; kernels, priors and all noise variances are then in those units.
    fit_options, condition_options : dict or None
        Further options of ``cagp.hyperparameters.fit`` and of ``cagp.Prior.condition``.
    recalibrate : bool, "auto" or None
        True scales and shapes the error bars of each output as ``Model.recalibrated`` does, "auto" where left-out
        observations reject them. None is "auto" where the kernel is chosen, and False where one is given.
    uncertainty, mixture, target_transform, varying, seconds, ard, rotate, globe, times : as in ``cagp.fit``
        For kernels that are chosen. ``target_transform`` is its ``transform``, a name that makes transformers here.
    together : bool or "auto"
        Whether several outputs are modelled together, as in ``cagp.fit``, so that one tells about another; then y may
        have NaN where an output was not measured. By default each has a model of its own.
    random_state : int, RandomState or None
        For restarts and subsets. With the default 0 results are the same each time.
    copy_X_train, n_targets : as in ``GaussianProcessRegressor``

    Attributes
    ----------
    kernel_, prior_ : Kernel and Prior
        The fitted kernel, of the library that the given one is of, and the fitted ``cagp.Prior``.
    model_, models_ : Model
        The ``cagp.Model`` of the first output, and those of all, in the units of ``normalize_y``.
    quantities_ : QuantitiesModel
        That of all outputs where ``together`` was asked for: its predictions have covariances between outputs.
    noise_variance_ : float or array (n,)
        The variance of the noise of all that is observed; where it varies with X, that at an average place, and with
        ``together`` what multiplies that of each output, which ``prior_`` has.
    fit_result_, fit_message_ : FitResult or None, and str
        What ``cagp.hyperparameters.fit`` found out, and what was done, in words.
    X_train_, y_train_ : arrays
        The data.
    crs_ : str or None
        The coordinate system of the points, where they were a GeoDataFrame.

    Notes
    -----
    ``predict(X, return_std=True)`` is as in ``GaussianProcessRegressor``: the standard deviation of the latent f, with
    the noise of a ``WhiteKernel`` and without ``alpha``. ``of="latent"`` leaves all noise out, ``of="observed"`` puts
    it in. A recalibration learns from observations, and scales the error bars of f alike, which none can check.

    Examples
    --------
    >>> import numpy as np
    >>> from cagp import CAGPRegressor
    >>> X = np.linspace(0, 1, 40)[:, None]
    >>> regressor = CAGPRegressor().fit(X, np.sin(6 * X[:, 0]))
    >>> mean, std = regressor.predict([[0.5]], return_std=True)
    >>> print(f"{mean[0]:.2f}")
    0.14
    """

    def __init__(
        self,
        kernel: Any = None,
        *,
        noise_variance: Any = None,
        mean: Any = None,
        solver: Any = "auto",
        alpha: Any = None,
        optimizer: Any = "fmin_l_bfgs_b",
        n_restarts_optimizer: int = 0,
        normalize_y: bool = False,
        fit_options: Any = None,
        condition_options: Any = None,
        random_state: Any = 0,
        copy_X_train: bool = True,
        n_targets: int | None = None,
        recalibrate: Any = None,
        uncertainty: Any = "auto",
        mixture: bool = True,
        target_transform: Any = "auto",
        varying: Any = "auto",
        seconds: float | None = None,
        globe: Any = None,
        rotate: Any = "auto",
        ard: Any = None,
        times: Any = (),
        together: Any = False,
    ) -> None:
        self.kernel = kernel
        self.noise_variance = noise_variance
        self.mean = mean
        self.solver = solver
        self.alpha = alpha
        self.optimizer = optimizer
        self.n_restarts_optimizer = n_restarts_optimizer
        self.normalize_y = normalize_y
        self.fit_options = fit_options
        self.condition_options = condition_options
        self.random_state = random_state
        self.copy_X_train = copy_X_train
        self.n_targets = n_targets
        self.recalibrate = recalibrate
        self.uncertainty = uncertainty
        self.mixture = mixture
        self.target_transform = target_transform
        self.varying = varying
        self.seconds = seconds
        self.globe = globe
        self.rotate = rotate
        self.ard = ard
        self.times = times
        self.together = together

    # of a data frame: what its features are called, and how its columns became features
    _features: list[str] | None = None
    _encodings: tuple[Encoding, ...] = ()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.requires_fit = not self._has_kernel  # with a kernel there is a prior to predict from
        return tags

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters, with those of the solver and of the kernel where ``deep``."""
        parameters = super().get_params(deep=deep)
        return {**parameters, **nested_parameters(parameters)} if deep else parameters

    def set_params(self, **params: Any) -> Self:
        """Set parameters, also ``solver__iterations`` and the like; solvers are replaced, not changed."""
        own, rest = split_nested(super().get_params(deep=False), params)
        super().set_params(**own)
        super().set_params(**rest)
        return self

    @property
    def _has_kernel(self) -> bool:
        """Whether a whole kernel was given, and not names to choose from or nothing."""
        several = isinstance(self.kernel, (list, tuple)) and all(isinstance(each, str) for each in self.kernel)
        return not (self.kernel is None or isinstance(self.kernel, str) or several)

    def fit(
        self, X: Any, y: Any, noise_variance: Any = None, *, like: Any = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Fit to X (n, p) and y (n,) or (n, outputs).

        X may be a data frame with categories, dates, yes and no, as in ``cagp.fit``.
        ``noise_variance`` (n,) is the known noise of these observations, in place of the parameter of that name.
        ``like`` (T, p) says where predictions are wanted, as in ``cagp.fit``. With a kernel, several outputs share it.
        ``sample_weight`` (n,) says how often each observation is there, in whole numbers: the fit is that to repeated
        rows, which agree exactly and so tell of little noise. A mean of several measurements is something else: its
        noise is that of one over their number, and goes into ``noise_variance``.
        """
        names, several = column_names(y), self.together not in [False] and is_several(y)
        X, y = self._training(X, y, gaps=several)
        noise_is_fitted = self.optimizer is not None and self.alpha is None and not np.ndim(noise_variance)
        if sample_weight is not None:
            rows = repeated_rows(sample_weight, len(X), self.noise_variance, self.alpha)
            X, y = X[rows], y[rows]
            if noise_is_fitted:
                warn(None, COPIES_AGREE if len(np.unique(rows)) < len(rows) else "")
            if np.ndim(noise_variance):
                noise_variance = not_negative_each(noise_variance, "noise_variance", len(sample_weight)).numpy()[rows]
        y = np.array(y, dtype=np.float64, copy=bool(self.copy_X_train) or None)
        if not several:
            as_float64(y, "y")  # of objects scikit-learn does not see what is missing
        solver, seen = as_solver(self.solver), y.shape[1] if y.ndim == 2 else 1
        if self.n_targets is not None and seen != self.n_targets:
            raise InputError(f"y has {seen} outputs, but n_targets={self.n_targets!r}; leave n_targets out")
        if isinstance(self.random_state, numbers.Integral) and not isinstance(self.random_state, bool):
            self._seed = count(self.random_state, "random_state")
        else:
            self._seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        shift, scale = np.zeros(y.shape[1:]), np.ones(y.shape[1:])
        if self.normalize_y:
            shift, scale = np.nanmean(y, axis=0), np.nanstd(y, axis=0)
            scale = np.where(scale > 10 * np.finfo(float).eps * np.abs(shift), scale, 1.0)
            y = (y - shift) / scale
        self._shift, self._scale = np.atleast_1d(shift), np.atleast_1d(scale)
        self.X_train_, self.y_train_ = np.copy(X) if self.copy_X_train else X, y
        Y = y.reshape(len(y), -1)
        restarts = count(self.n_restarts_optimizer, "n_restarts_optimizer")
        how = HowToLearn(self.optimizer, restarts, self._seed, self.fit_options or {})
        self._evidence: float | None = None
        self._start: Start | None = None
        self._white = 0.0
        self.__dict__.pop("quantities_", None)  # of an earlier fit
        if not self._has_kernel and self.optimizer is not None:
            about: dict[str, Any] = {"names": self._features, "encodings": self._encodings, "targets": names}
            about["weighted"] = sample_weight is not None
            fitted = chosen(self, X, Y, noise_variance, like, how, about)
            if isinstance(fitted, QuantitiesModel):
                interrupted = fitted.interrupted
                self.quantities_, self.fit_message_, fitted = fitted, fitted.story, [*fitted.models]
            else:
                interrupted = any(model.interrupted for model in fitted)
                self.fit_message_ = "\n\n".join(each.story for each in fitted)
            self._outputs = Outputs(fitted, "", shared=False)
            self.fit_result_, self.prior_ = fitted[0].result, fitted[0].prior
            self.kernel_ = self.prior_.kernel
        elif several:
            raise InputError("together is for kernels that are chosen; leave kernel and optimizer out, or together")
        else:
            if like is not None:
                raise InputError("like is for kernels that are chosen; leave the kernel out, or leave out like")
            if noise_is_fitted and sample_weight is None:
                warn(None, *dict.fromkeys(told_of_copies(X, column) for column in Y.T))
            interrupted = self._fit_given(X, Y, noise_variance, how, solver)
        self.noise_variance_ = self.prior_.noise_variance
        self.models_ = self._outputs.models
        self.model_ = self.models_[0]
        for model in self.models_:
            model.crs = self.crs_
        if interrupted:
            # a loop over models must end, and not score a search that was cut short
            raise KeyboardInterrupt("the search was interrupted; this estimator has the best model found so far")
        return self

    @property
    def recalibrated_models_(self) -> list[Model]:
        """The former name of ``models_``."""
        check_is_fitted(self, "model_")
        warnings.warn("recalibrated_models_ is now models_, the models that predict", FutureWarning, stacklevel=2)
        return self.models_

    def _fit_given(self, X: np.ndarray, Y: np.ndarray, noise_variance: Any, how: HowToLearn, solver: Solver) -> bool:
        """Fit the kernel that was given, as GaussianProcessRegressor does; whether Ctrl-C ended it."""
        start = start_from(self.kernel, self.mean, self.noise_variance, self.alpha, X, Y, given_noise=noise_variance)
        learned = learn(start, X, Y, how)
        self.kernel_, self.fit_result_, self.fit_message_ = learned.public, learned.result, learned.message
        self.prior_ = start.prior(learned.kernel, learned.level)
        self._start, self._white = start, float(learned.level or 0.0) if start.white else 0.0
        first = self.prior_.condition(X, Y[:, 0], solver, **(self.condition_options or {}))
        first = first.replace(column_names=self._features, encodings=self._encodings)
        models = [first, *(first.with_observations(column) for column in Y.T[1:])]
        judged = self.recalibrate is not None and not learned.interrupted
        self._outputs = outputs_of(models, self.recalibrate if judged else False, self._seed)
        told = [each.in_words for each in self._encodings]
        self.fit_message_ = " ".join([*told, self.fit_message_ + self._outputs.message])
        return learned.interrupted

    def predict(
        self,
        X: Any,
        return_std: bool = False,
        return_cov: bool = False,
        *,
        of: str | None = None,
        interval: float | None = None,
    ) -> Any:
        """The posterior mean at X (T, p), shape (T,) or (T, outputs); with its standard deviations or covariance.

        ``return_std`` adds standard deviations in the shape of the mean, ``return_cov`` the covariance, (T, T) or
        (T, T, outputs). They are of what ``of`` says: None is as in ``GaussianProcessRegressor``, f and the noise of a
        ``WhiteKernel``; "latent" is f; "observed" is y, with all noise. Where a transform of y was chosen, None is
        "observed": the mean of y, and not its median. Margins scale the covariance as they do standard deviations.
        Before ``fit`` this is the prior, where a kernel is given. With ``interval=0.95`` the result is that of
        ``predict_interval``: a Pipeline has no such method, and hands this on.
        """
        if interval is not None:
            if return_std or return_cov:
                raise InputError("interval gives the ends of intervals alone; leave out return_std and return_cov")
            return self.predict_interval(X, interval, of=of or "observed")
        if return_std and return_cov:
            raise RuntimeError("At most one of return_std or return_cov can be requested.")
        if of is not None:
            choice(of, "of", _OF)
        if self._has_kernel and not hasattr(self, "model_"):
            X = self._numbers(X)
            # noise per observation is that of the data to come
            noise, alpha = (None if np.ndim(each) else each for each in (self.noise_variance, self.alpha))
            start = start_from(self.kernel, self.mean, noise, alpha, X, np.zeros((len(X), 1)))
            return prior_prediction(start, X, self.n_targets or 1, return_std, return_cov, of)
        X, alone = self._points(X), not return_std and not return_cov
        if alone and of is None and not self._outputs.transformed:
            return self._back(self._outputs.means(X))
        found = self._predictions(X, of)
        mean, std = (np.column_stack([getattr(each, name) for each in found]) for name in ("mean", "std"))
        if alone:
            return self._back(mean)
        if return_std:
            return self._back(mean), squeezed(std * self._scale)
        if self._outputs.transformed:
            raise InputError(
                "a transform of y was chosen, and transformed predictions have no covariance that says it all; draw "
                "with sample_y, or leave y as it is: CAGPRegressor(target_transform=None)"
            )
        noise = self._noise_of(of)  # refuses noise that is known for the training observations alone
        covariance = self._outputs.covariances(X, self._outputs.noises(X) if of == "observed" else noise)
        if any(model.margins is not None for model in self.models_):
            factors = std / np.sqrt(np.diagonal(covariance).T)
            covariance = covariance * factors[:, None] * factors[None]
        return self._back(mean), squeezed(covariance * self._scale**2)

    def predict_interval(self, X: Any, level: float = 0.95, *, of: str = "observed") -> tuple[np.ndarray, np.ndarray]:
        """The central intervals at X (T, p) that hold with probability ``level``: (lower, upper), each as the mean is.

        ``of`` is "observed" (all noise included) or "latent" (f). Recalibrated ends are quantiles of left-out errors.
        """
        points, of = self._points(X), choice(of, "of", _OF)
        lower, upper = zip(*(each.interval(level) for each in self._predictions(points, of)), strict=True)
        return self._back(np.column_stack(lower)), self._back(np.column_stack(upper))

    def predict_exceedance(self, X: Any, threshold: Any, *, of: str = "observed") -> np.ndarray:
        """The probability of more than ``threshold`` at X (T, p), in the shape of the mean, of what ``of`` says.

        ``threshold`` is one number, one for each point (T,), or one for each point and output (T, outputs).
        """
        points, of, given = self._points(X), choice(of, "of", _OF), as_float64(threshold, "threshold").numpy()
        outputs, T = len(self.models_), len(points)
        if given.shape not in ((), (T,), (T, outputs)):
            said = f"threshold has shape {given.shape} for {T} points and {outputs} outputs"
            raise InputError(f"{said}; give one number, one for each point, or one for each point and output")
        each = np.broadcast_to(given if given.ndim == 2 else given[..., None], (T, outputs))
        scaled = ((each - self._shift) / self._scale).T
        found = zip(self._predictions(points, of), scaled, strict=True)
        return squeezed(np.column_stack([prediction.exceedance(own) for prediction, own in found]))

    def _points(self, X: Any) -> np.ndarray:
        """X (T, p), checked against what was fitted to."""
        check_is_fitted(self, "model_")
        points = self._numbers(X)
        warn_caller(told_beyond(self.models_, points), DataWarning)
        return points

    def _training(self, X: Any, y: Any, gaps: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """X as features (n, p), and y, checked, which may have ``gaps``; what they were is kept."""
        how: dict[str, Any] = {"multi_output": True, "y_numeric": True, "dtype": np.float64}
        require_numeric(y, "y")
        self.crs_ = system_of(X, "X")
        X = without_geometry(X, "X")
        self._encodings = encodings_of(X, "X")
        self._features = feature_names(X, self._encodings)
        if self._features is None:
            if not gaps:
                return cast(tuple[np.ndarray, np.ndarray], self._array(X, y, **how))
            numbers = self._array(X)
            return numbers, quantities(y, len(numbers), name="y")
        validate_data(self, X, skip_check_array=True)  # the names and number of its columns, not of its features
        if gaps:
            numbers = self._features_of(X)
            return numbers, quantities(y, len(numbers), name="y")
        return check_X_y(self._features_of(X), y, estimator=self, **how)

    def _numbers(self, X: Any) -> np.ndarray:
        """X as features (T, p), checked against what was fitted to."""
        require_known_system(X, "X", getattr(self, "crs_", None), self._features)
        X = without_geometry(X, "X")
        if column_names(X) is not None:
            validate_data(self, X, skip_check_array=True, reset=False)
            return check_array(self._features_of(X), dtype=np.float64, estimator=self, input_name="X")
        return cast(np.ndarray, self._array(features_of(X, "X", self._features, self._encodings), reset=False))

    def _array(self, *arrays: Any, **how: Any) -> Any:
        """X, and y where it is given, as numbers that scikit-learn has checked; of texts the error has a remedy."""
        try:
            return validate_data(self, *arrays, **{"dtype": np.float64, **how})
        except ValueError as error:
            if "could not convert string" not in str(error) or not holds_texts(arrays[0]):
                raise
            remedy = (
                "data frames may have columns of texts, and in a Pipeline steps before hand these on with set_output("
                'transform="pandas"); or make columns of 0 and 1 of them, with OneHotEncoder'
            )
            raise InputError(f"X is an array with texts ({error}); {remedy}") from error

    def _features_of(self, X: Any) -> np.ndarray:
        made = features_of(X, "X", self._features, self._encodings)
        return made if isinstance(made, np.ndarray) else frame_numbers(made, "X")

    def _predictions(self, X: np.ndarray, of: str | None) -> list[Prediction]:
        """What each output says of what ``of`` says, in the units of the model."""
        if of is None and self._outputs.transformed:
            of = "observed"  # the mean of f on another scale is not that of y, which scikit-learn expects
        noise, found = self._noise_of(of), self._outputs.predictions(X)
        if of == "observed":  # the components of a mixture have a noise each
            return [each.observed() for each in found]
        return [each.observed(noise) if noise else each for each in found]

    def _back(self, mean: np.ndarray) -> np.ndarray:
        return squeezed(mean * self._scale + self._shift)

    def _noise_of(self, of: str | None) -> float:
        """The noise that belongs to a new observation of what ``of`` says, in the units of the model."""
        if of != "observed":
            return self._white if of is None else 0.0
        if np.ndim(self.noise_variance_):
            remedy = "predict of='latent' and add the noise variance of the new observations"
            raise InputError(f"the noise was given per observation, which says nothing about new ones; {remedy}")
        return float(self.noise_variance_)

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0, *, of: str | None = None) -> np.ndarray:
        """Joint draws at X (T, p), shape (T, n_samples) or (T, outputs, n_samples), of what ``of`` says in predict."""
        rng = check_random_state(random_state)
        if hasattr(self, "model_") and self._outputs.transformed:
            found = self._predictions(self._points(X), of)
            seeds = rng.randint(np.iinfo(np.int32).max, size=len(found))
            drawn = [each.sample(n_samples, seed).T for each, seed in zip(found, seeds, strict=True)]
            whole = np.stack(drawn, axis=-1) * self._scale + self._shift  # (T, n_samples, outputs)
            return whole[..., 0] if len(seeds) == 1 else whole.swapaxes(1, 2)
        mean, covariance = self.predict(X, return_cov=True, of=of)
        single = hasattr(self, "model_") and self.model_.gram.dtype.itemsize == 4
        eps = float(np.finfo(np.float32 if single else np.float64).eps)
        if mean.ndim == 1:
            return sklearn_draws(mean, covariance, n_samples, rng, eps)
        columns = range(mean.shape[1])
        return np.stack([sklearn_draws(mean[:, j], covariance[:, :, j], n_samples, rng, eps) for j in columns], axis=1)

    @property
    def log_marginal_likelihood_value_(self) -> float:
        """log p(y) at the fitted hyperparameters, summed over the outputs; in the units of ``normalize_y``.

        Exact up to 8,000 observations, beyond that through 45 nearest neighbours; computed when first asked for.
        """
        check_is_fitted(self, "model_")
        if self._evidence is None:
            translation = None if self._start is None else self._start.translation
            exact = len(self.X_train_) <= _EXACT_EVIDENCE or (translation is not None and translation.opaque)
            how: Any = {"likelihood": "exact" if exact else "nearest-neighbours", "seed": self._seed}
            if self._outputs.shared:
                self._evidence = log_likelihood(self.prior_, self.X_train_, self.y_train_, **how)
            else:
                self._evidence = self._outputs.log_likelihood(**how)
        return self._evidence

    def log_marginal_likelihood(self, theta: Any = None, eval_gradient: bool = False, clone_kernel: bool = True) -> Any:
        """log p(y): at the fitted hyperparameters, or at ``theta`` (q,), the logarithms of those of ``kernel_``.

        With ``eval_gradient`` also its gradient (q,). ``theta`` needs a kernel of scikit-learn, whose own exact
        likelihood this is.
        """
        if theta is None:
            if eval_gradient:
                raise ValueError("Gradient can only be evaluated for theta!=None")
            return self.log_marginal_likelihood_value_
        check_is_fitted(self, "model_")
        if self._start is None or self._start.translation is None:
            raise InputError("theta needs a kernel of scikit-learn; with kernels of cagp use Prior.log_likelihood")
        Y = self.y_train_.reshape(len(self.y_train_), -1)
        kernel = clone(self.kernel_) if clone_kernel else self.kernel_
        noise = self._start.known if self._start.white else self.noise_variance_
        return log_likelihood_at(self._start, noise, kernel, self.X_train_, Y, np.asarray(theta), eval_gradient)
