"""``cagp.fit``: from data to a model with error bars that hold, without an expert."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from ..errors import InputError
from ..hyperparameters import FitWarning
from ..hyperparameters.result import told_by_a_constant
from ..hyperparameters.starting_prior import Group, column_groups, starting_kernel
from ..kernels import Kernel, geographic_columns
from ..kernels.rotated import directions_in_words
from ..means import Mean, as_mean
from ..mixtures import FittedModel, Story
from ..solvers import Auto, Cholesky, NearestNeighbours, Solver, as_solver
from ..support.frames import told_about
from ..support.interrupt import Interrupt
from ..support.progress import progress as progress_bar
from ..support.validation import ArrayLike, choice, column_names, count, points, squarable, targets
from ..transforms import Transform, TransformedModel
from .candidates import DEFAULT_KINDS, KINDS, PER_COLUMN, TRENDS, Candidate, first_candidate
from .integrating import Part, integrated_over, plugged_in
from .integrating import wanted as uncertainty_wanted
from .judging import judged, recalibration_wanted
from .patterns import try_patterns, varying_wanted
from .rotating import is_rotated, rotation_wanted, try_rotated
from .search import EXACT_UP_TO, LIKELIHOOD, Fit, Search, Settings
from .telling import table, told
from .transforming import begun, transform_wanted

_PLUGGED_IN = "The hyperparameters are plugged in as fitted, as if they were known (uncertainty=False)."
_ENOUGH = (
    f"The hyperparameters are plugged in as fitted: with more than {EXACT_UP_TO:,} observations what is not known of "
    "them hardly changes predictions."
)


def fit(
    X: ArrayLike,
    y: ArrayLike,
    *,
    like: ArrayLike | None = None,
    kernel: Kernel | str | Sequence[str] | None = None,
    mean: Mean | str | None = None,
    noise_variance: float | np.ndarray | None = None,
    solver: Solver | str | None = None,
    likelihood: str = "auto",
    mixture: bool = True,
    uncertainty: bool | str = "auto",
    recalibrate: bool | str = "auto",
    transform: Transform | str | None = "auto",
    varying: bool | str = "auto",
    ard: bool | None = None,
    rotate: bool | str = "auto",
    globe: Sequence[Any] | None = None,
    times: Sequence[Any] = (),
    fit_options: Mapping[str, Any] | None = None,
    condition_options: Mapping[str, Any] | None = None,
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
    ``candidates`` is the table. The command line, ``CAGPRegressor`` and gridded fields do the same.

    Everything can be said by hand: ``kernel`` is a kernel whose values are the start of the fit, the name of one
    ("matern12", "matern32", "matern52", "rbf", "rationalquadratic", "short and long"), or several names to choose from;
    ``mean`` a mean, or "zero", "constant", "linear" or "quadratic"; ``noise_variance`` where the noise starts, or the
    known noise of each observation (n,); ``solver`` what predicts, by default Cholesky up to 2,000 observations and
    NearestNeighbours beyond; ``likelihood`` "exact", "nearest-neighbours", or "auto": exact up to 2,000 observations;
    ``mixture=False`` takes the best candidate alone; ``uncertainty=False`` plugs the hyperparameters in as if they were
    known; ``recalibrate`` True, False or "auto". ``transform`` is of the observations: "log", "box-cox", "yeo-johnson",
    "sinh-arcsinh", "logit" for shares, one from ``cagp.transforms`` with its parameters, None, or "auto": one where it
    predicts left-out observations clearly better, none where a kernel, a known mean or a noise was given, which are on
    the scale of the observations. Predictions are on that scale; "log" and "box-cox" never predict below 0. ``varying``
    tries an amplitude of the function and a noise level that vary with the inputs, and takes them where they predict
    left-out observations better; "auto" tries where the likelihood promises something of them, unless a kernel, a known
    mean or a noise was given. ``ard`` gives each column a lengthscale of its own, by default where there are ten
    observations for each. ``rotate`` turns the axes that these belong to, of two or three columns, see
    ``cagp.Rotated``: "auto" tries that with the best candidate where the likelihood promises something, and left-out
    observations judge it. ``globe`` names the columns with latitude and longitude in degrees, by number or by name:
    distance there is measured in kilometres. ``times`` names those with times: each has a factor of its own in the
    kernel. ``fit_options`` and ``condition_options`` are further options of ``cagp.hyperparameters.fit`` and
    ``Prior.condition``. Ctrl-C ends the search and keeps the best so far.

    >>> import numpy as np, cagp
    >>> X = np.linspace(0, 1, 30)[:, None]
    >>> model = cagp.fit(X, np.sin(6 * X[:, 0]), kernel="matern52", progress=False)
    >>> model.predict([[0.5]]).mean.round(2)
    array([0.14])
    """
    started = time.perf_counter()
    names = column_names(X)
    place = torch.device(device or "cpu")
    train = points(X, "X", place)
    values = targets(y, len(train), place)
    squarable(train, "X")
    squarable(values, "y")
    wanted = None if like is None else points(like, "like", place, columns=train.shape[1])
    recalibration_wanted(recalibrate, len(values))
    choice(likelihood, "likelihood", ("auto", "exact", "nearest-neighbours"))
    uncertain = uncertainty_wanted(uncertainty, len(values))
    kinds, own = _kinds(kernel)
    data, observed = train.cpu().numpy(), values.cpu().numpy()
    if own is not None and (globe is not None or len(times) or ard is not None or rotate is True):
        raise InputError(
            "globe, times, ard and rotate are for kernels that are chosen here; leave them out beside a whole one"
        )
    each_column = len(data) >= PER_COLUMN * data.shape[1] if ard is None else bool(ard)
    where = None if globe is None else _columns(globe, "globe", names, data.shape[1])
    groups = column_groups(data, where, _columns(times, "times", names, data.shape[1]), each_column)
    fitting = dict(fit_options or {})
    held = fitting.pop("fix", ())
    transform_wanted(transform, observed)
    trend_unknown = mean is None or (isinstance(mean, str) and mean != "zero")
    if transform not in (None, "auto") and (noise_variance is not None or not (trend_unknown or as_mean(mean).unknown)):
        raise InputError(
            f"noise_variance and a known mean are on the scale of the observations, and transform={transform!r} models "
            "another one; leave them out, or transform y yourself"
        )
    by_hand = own is not None or noise_variance is not None or not trend_unknown or bool(held)
    vary = varying_wanted(varying, by_hand)
    on_globe = globe is not None or (own is not None and bool(geographic_columns(own, tuple(range(data.shape[1])))))
    settings = Settings(
        _solver(solver, len(values)), likelihood, count(seed, "seed"), device, fitting, dict(condition_options or {})
    )

    def beginning(given: Transform | None) -> tuple[Search, Candidate]:
        of = observed if given is None else given.of(torch.from_numpy(observed)).numpy()
        start = _start(of, own or kinds[0], mean, noise_variance, groups).holding(held)
        return Search(data, of, wanted, settings, given), start

    if own is None:
        rotation_wanted(rotate, starting_kernel(groups, 1.0)[0])
    untouched = rotate is False or (rotate == "auto" and (own is not None or bool(held)))

    def turn(best: Fit) -> None:
        if not untouched:
            try_rotated(search, best, rotate)

    def asked_for(each: Fit) -> bool:
        return rotate is not True or is_rotated(each.prior.kernel)

    with Interrupt() as interrupt, progress_bar("fit", len(kinds) + 6, progress) as advance:
        begin = begun(transform, data, observed, beginning, by_hand, settings.seed)
        search, start = begin.search, begin.start
        # a trend that is linear in longitude would jump where the globe closes
        search.run_all(start, kinds, mean is None and not on_globe, turn, interrupt, advance)
        if vary:
            try_patterns(search, varying, recalibrate is not False, interrupt)
        advance(1)
        parts = search.parts(mixture, asked_for)
        pieces = [
            Part(search.model_of(each), weight, each.candidate.fixed, each.fitted_by == LIKELIHOOD)
            for each, weight in parts
        ]
        for piece in pieces:
            piece.model.column_names = names
        model = plugged_in(pieces)
        integrated = _PLUGGED_IN if uncertainty is False else _ENOUGH
        if uncertain:
            model, integrated = integrated_over(pieces, settings, interrupt)
        advance(1)
        final: Any = model
        found = ""
        if not interrupt.requested:
            mended = judged(model, like, recalibrate, seed)
            final, found = mended.model, mended.found
        if search.transform is not None:
            final = TransformedModel.around(final, search.transform)
        heaviest = max(parts, key=lambda part: part[1])[0]
        result = heaviest.result if interrupt.requested else search.with_standard_errors(heaviest)
        advance(1)
    if constant := told_by_a_constant(observed, result):
        warnings.warn(constant, FitWarning, stacklevel=2)
    tried = table(search, parts)
    seconds = time.perf_counter() - started
    stopped = interrupt.requested
    directions = directions_in_words(heaviest.prior.kernel, names or [f"x{i + 1}" for i in range(data.shape[1])])
    findings = (told_about(X), begin.found, *directions, integrated, found, constant)
    text = told(search, parts, tried, findings, settings.solver, like is not None, stopped, seconds)
    return FittedModel(final, Story(text, tried, final.guarantee, stopped), result)


def _solver(solver: Solver | str | None, n: int) -> Solver:
    """The one that was asked for, or the exact one as long as it is cheap."""
    asked = None if solver is None else as_solver(solver)
    if asked is None or (isinstance(solver, str) and isinstance(asked, Auto)):
        return Cholesky() if n <= EXACT_UP_TO else NearestNeighbours()
    return asked


def _start(
    y: np.ndarray,
    kernel: Kernel | str,
    mean: Mean | str | None,
    noise: float | np.ndarray | None,
    groups: Sequence[Group],
) -> Candidate:
    """What is fitted first."""
    if isinstance(mean, str):
        choice(mean, "mean", tuple(TRENDS))
        return first_candidate(y, kernel, None, noise, groups).with_trend(mean)
    return first_candidate(y, kernel, None if mean is None else as_mean(mean), noise, groups)


def _kinds(kernel: Kernel | str | Sequence[str] | None) -> tuple[tuple[str, ...], Kernel | None]:
    """The kinds of kernels to try, and the kernel that was given."""
    if isinstance(kernel, Kernel):
        return ("as given",), kernel
    kinds = DEFAULT_KINDS if kernel is None else (kernel,) if isinstance(kernel, str) else tuple(kernel)
    known = (*KINDS, DEFAULT_KINDS[-1])
    if not kinds or any(kind not in known for kind in kinds):
        raise InputError(f"kernel must be a kernel, or names among {', '.join(known)}; got {kernel!r}")
    return kinds, None


def _columns(given: Any, option: str, names: list[str] | None, p: int) -> tuple[int, ...]:
    """Columns named by number or by name, as numbers; two of them for the globe."""
    known: dict[Any, int] = {name: i for i, name in enumerate(names or [])} | {i: i for i in range(p)}
    asked = [given] if isinstance(given, (str, int)) else list(given)
    if len(set(asked)) != len(asked) or not set(asked) <= set(known) or (option == "globe" and len(asked) != 2):
        which = ", ".join(map(repr, names)) if names else f"0 to {p - 1}"
        wanted = "two columns, latitude and longitude," if option == "globe" else "columns"
        raise InputError(f"{option} must be {wanted} among {which}; got {given!r}")
    return tuple(known[each] for each in asked)
