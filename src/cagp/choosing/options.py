"""What ``cagp.fit`` can be told: one table of options, and one place where all of it is checked before any work.

The signature of ``cagp.fit``, the parameters of ``CAGPRegressor``, the flags of ``cagp fit`` and the keywords of
``field.cagp.fit`` are held to this table by a test. A further option is a field here, an argument of ``cagp.fit``, and
a line in each of the doors that have it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from inspect import signature
from typing import Any

import numpy as np
import torch

from ..errors import InputError, InputTypeError
from ..hyperparameters import fit as fit_hyperparameters
from ..hyperparameters.directions import turned
from ..hyperparameters.starting_prior import column_groups, starting_kernel
from ..kernels import Kernel, geographic_columns
from ..left_out import FEWEST, Geometry, blocks_like
from ..means import as_mean
from ..prior import Prior
from ..regression import TREES, CrossFitted, Regression, as_regression
from ..solvers import Auto, Cholesky, NearestNeighbours, Solver, as_solver
from ..solvers.exact import EXACT_UP_TO
from ..support import clock
from ..support.convert import as_device
from ..support.coordinate_systems import GLOBE, is_globe, require_known_system, system_of
from ..support.encodings import Encoding
from ..support.frames import encodings_of, feature_names, features_of, series_name, units_of
from ..support.validation import ArrayLike, choice, count, points, positive, squarable, targets
from ..transforms import KINDS as TRANSFORMS
from ..transforms import Transform, named
from .candidates import DEFAULT_KINDS, KINDS, PER_COLUMN, TRENDS, CandidatePrior, first_candidate, in_kind

FURTHER: dict[str, Any] = {"fit_options": fit_hyperparameters, "condition_options": Prior.condition}
_NOT_FURTHER = {"self", "prior", "X", "y", "solver"}  # what ``cagp.fit`` hands on itself
LIKELIHOODS = ("auto", "exact", "nearest-neighbours")

_SECONDS, _ENTRIES = 60.0, 10_000  # how long a search may take for so many entries; for sixteen times as many, twice


@dataclass(frozen=True, eq=False)
class TrainingData:
    """Observations y (n,) at X (n, p) in float64; ``names`` are those of the features, where X is a data frame.

    ``device`` is where the work is done, ``units`` are those of the features, where they are known, ``encodings`` say
    which columns of the frame these were, and ``crs`` is the coordinate system of the points, ``target`` the name of y.
    ``whole`` are the rows (m,) that can be left out as if these were all data, see ``Recipe``; None for every row.
    ``weighted`` says that rows repeat others because that was asked for.
    """

    X: np.ndarray
    y: np.ndarray
    names: list[str] | None
    device: torch.device
    units: Sequence[str] = ()
    encodings: tuple[Encoding, ...] = ()
    crs: str | None = None
    target: str | None = None
    whole: np.ndarray | None = None
    weighted: bool = False

    @classmethod
    def read(cls, X: ArrayLike, y: ArrayLike, device: str | torch.device | None) -> TrainingData:
        """As they were given; the device is that of X unless another is said."""
        if device is None:
            device = X.device if isinstance(X, torch.Tensor) else "cpu"
        place = as_device(device)
        encodings = encodings_of(X, "X")
        names = feature_names(X, encodings)
        # one order in memory, so that the digits of a fit do not depend on how the same numbers lay there
        train = points(features_of(X, "X", names, encodings), "X", place).contiguous()
        values = targets(y, len(train), place)
        squarable(train, "X")
        squarable(values, "y")
        crs = system_of(X, "X")
        units = units_of(names, encodings, crs)
        return cls(train.cpu().numpy(), values.cpu().numpy(), names, place, units, encodings, crs, series_name(y))

    def places(self, X: ArrayLike, name: str) -> torch.Tensor:
        """Further points X (T, p), the argument called ``name``."""
        require_known_system(X, name, self.crs, self.names)
        return points(features_of(X, name, self.names, self.encodings), name, self.device, columns=self.X.shape[1])

    @property
    def globe(self) -> tuple[str, str] | None:
        """The columns that the coordinate system says to be a latitude and a longitude."""
        return GLOBE if self.crs is not None and is_globe(self.crs) else None


def _about(sentence: str, *, estimator: str | None = "", command: str | None = "") -> dict[str, Any]:
    """A row of the table. ``estimator`` and ``command`` are the names there: "" for the same, None for none."""
    return {"sentence": sentence, "estimator": estimator, "command": command}


@dataclass(frozen=True, eq=False, kw_only=True)
class Options:
    """Everything that ``cagp.fit`` takes beside the data: name, type and default, and a sentence.

    scikit-learn takes an estimator that has ``transform`` for a transformer, and calls every seed ``random_state``:
    there alone the two have other names, and ``fit`` of the estimator takes ``like``.
    """

    like: ArrayLike | None = field(default=None, metadata=_about("Where predictions are wanted.", estimator=None))
    kernel: Kernel | str | Sequence[str] | None = field(default=None, metadata=_about("A kernel, or names of some."))
    mean: Any = field(default=None, metadata=_about("A mean, a regressor, or the name of a trend."))
    noise_variance: float | np.ndarray | None = field(default=None, metadata=_about("Where it starts, or known (n,)."))
    solver: Solver | str | None = field(default=None, metadata=_about("What predicts."))
    likelihood: str = field(default="auto", metadata=_about("Which one is maximised.", estimator=None))
    mixture: bool = field(
        default=True, metadata=_about("Whether the best candidates predict together where that pays.")
    )
    uncertainty: bool | str = field(default="auto", metadata=_about("Whether to integrate over hyperparameters."))
    recalibrate: bool | str = field(default="auto", metadata=_about("Whether left-out errors make the error bars."))
    transform: Transform | str | None = field(default="auto", metadata=_about("Of y.", estimator="target_transform"))
    varying: bool | str = field(default="auto", metadata=_about("Whether amplitude and noise vary with the inputs."))
    ard: bool | None = field(default=None, metadata=_about("Whether each column has a lengthscale of its own."))
    rotate: bool | str = field(default="auto", metadata=_about("Whether the axes of lengthscales are turned."))
    globe: Sequence[Any] | None = field(default=None, metadata=_about("The columns of latitude and longitude."))
    times: Sequence[Any] = field(default=(), metadata=_about("The columns of times."))
    together: bool | str = field(default="auto", metadata=_about("Whether several quantities are modelled together."))
    fit_options: Mapping[str, Any] | None = field(
        default=None, metadata=_about("Of hyperparameters.fit.", command=None)
    )
    condition_options: Mapping[str, Any] | None = field(default=None, metadata=_about("Of condition.", command=None))
    seconds: float | None = field(default=None, metadata=_about("How long the search may take."))
    seed: int = field(default=0, metadata=_about("Of all random numbers.", estimator="random_state"))
    device: str | torch.device | None = field(
        default=None, metadata=_about("Where the work is done, by default where X is.", estimator=None, command=None)
    )
    progress: bool | None = field(default=None, metadata=_about("Whether to show a bar.", estimator=None, command=None))

    def __post_init__(self) -> None:
        for each in fields(self):  # NumPy has a yes and a no of its own, which are neither True nor False
            if isinstance(value := getattr(self, each.name), np.bool_):
                object.__setattr__(self, each.name, bool(value))

    def checked(self, data: TrainingData) -> FitRequest:
        """What is to be done with the data; what cannot be done is refused here."""
        for each in fields(self):
            check_option(each.name, getattr(self, each.name), data)
        return FitRequest(self, data)


def check_option(name: str, value: Any, data: TrainingData) -> None:
    """Refuse a value that the option of that name cannot have, for these data."""
    n = len(data.y)
    if name in ("uncertainty", "varying", "rotate", "together"):
        _flag_or_auto(value, name)
    if name == "mixture" and not isinstance(value, bool):
        raise InputError(f"mixture must be True or False, got {value!r}")
    if name == "ard" and not (value is None or isinstance(value, bool)):
        raise InputError(f"ard must be True, False or None, got {value!r}")
    if name in FURTHER and value is not None:
        _further_options(value, name)
    if name == "uncertainty" and value is True and n > EXACT_UP_TO:
        raise InputError(
            f"uncertainty=True is for at most {EXACT_UP_TO:,} observations, got {n:,}; with so many the "
            'hyperparameters are known well enough: leave it at "auto"'
        )
    if name == "recalibrate":
        check_recalibrate(value, n)
    if name == "likelihood":
        choice(value, name, LIKELIHOODS)
    if name == "seed":
        count(value, name)
    if name == "seconds" and value is not None:
        positive(value, name)
    if name == "transform" and value is not None and value != "auto":
        if isinstance(value, str) and value not in TRANSFORMS:
            known = ", ".join(f'"{each}"' for each in ("auto", *TRANSFORMS))
            raise InputError(f"transform must be None, {known}, or a transform such as BoxCox(0.5); got {value!r}")
        kind = named(value)
        (kind.starting(data.y) if isinstance(kind, type) else kind).of(torch.from_numpy(data.y))
    if name == "kernel" and not isinstance(value, Kernel):
        kernel_names(value)
    if name == "mean" and isinstance(value, str):
        choice(value, name, (*TRENDS, TREES))
    if name == "mean" and (regression := as_regression(value)) is not None:
        regression.template()
    if name == "like" and value is not None:
        data.places(value, name)


def _further_options(value: Any, name: str) -> None:
    """Refuse what are no options of the function that an option is for."""
    if not isinstance(value, Mapping):
        raise InputTypeError(f'{name} must be a dict such as {{"memory_budget": 1e9}}, got {value!r}')
    if unknown := set(value) - (known := {*signature(FURTHER[name]).parameters} - _NOT_FURTHER):
        raise InputError(f"{name} has {', '.join(map(repr, unknown))}; known are {', '.join(sorted(known))}")


def check_recalibrate(recalibrate: Any, n: int) -> None:
    """Refuse what cannot be: another word than "auto", or a recalibration by too few of n observations."""
    _flag_or_auto(recalibrate, "recalibrate")
    if recalibrate is True and n < FEWEST:
        raise InputError(
            f'recalibrate=True needs at least {FEWEST} observations, and there are {n}; "auto" goes without'
        )


def _flag_or_auto(value: Any, name: str) -> None:
    if not isinstance(value, bool) and not (isinstance(value, str) and value == "auto"):
        raise InputError(f'{name} must be True, False or "auto", got {value!r}')


class FitRequest:
    """Checked ``options`` together with the ``data`` that they are for, and what follows from both.

    ``given`` is a kernel that was given whole, ``kinds`` are the names of those to try, ``groups`` the columns that
    have a kernel together, ``held`` the hyperparameters that are not fitted, ``like`` (T, p) where predictions are
    wanted, ``seconds`` the budget, ``hurried`` whether that is less than usual, ``compiled`` what compiling had taken
    before; ``by_hand`` says that something was given that is on the scale of the observations.
    """

    def __init__(self, options: Options, data: TrainingData) -> None:
        self.options, self.data, self.compiled = options, data, clock.compiling()
        p, mean, fix = data.X.shape[1], options.mean, (options.fit_options or {}).get("fix", ())
        self.given = options.kernel if isinstance(options.kernel, Kernel) else None
        self.kinds = ("as given",) if self.given is not None else kernel_names(options.kernel)
        self.held = (fix,) if isinstance(fix, str) else tuple(fix)
        self.regression, self._trends = as_regression(mean), dict[bytes, CrossFitted]()
        open_mean = mean is None or self.regression is not None
        self.mean = None if open_mean else TRENDS[mean] if isinstance(mean, str) else as_mean(mean)
        each = len(data.y) >= PER_COLUMN * p if options.ard is None else bool(options.ard)
        asked = options.globe if options.globe is not None or self.given is not None else data.globe
        globe = None if asked is None or not np.size(asked) else column_numbers(asked, "globe", data)
        times = column_numbers(options.times, "times", data)
        if both := set(times) & set(globe or ()):
            raise InputError(f"globe and times both name column {min(both)}, which is one or the other")
        self.groups = column_groups(data.X, globe, times, each)
        if "spherical" in self.kinds:  # refuses more than three columns
            in_kind(starting_kernel(self.groups, 1.0)[0], "spherical")(data.X[:1], data.X[:1])
        self.like = None if options.like is None else data.places(options.like, "like")
        trend = open_mean or (isinstance(mean, str) and mean != "zero")
        noise = options.noise_variance is not None
        self.by_hand = self.given is not None or noise or not trend or bool(self.held)
        own = () if self.given is None else geographic_columns(self.given, tuple(range(p)))
        self.on_globe = globe is not None or bool(own)
        self.integrates = options.uncertainty is not False and len(data.y) <= EXACT_UP_TO
        self.tries_patterns = not self.by_hand if options.varying == "auto" else bool(options.varying)
        as_wished = self.given is None and not self.held
        known = {"fix_noise", "known_noise"} & set(options.fit_options or {})
        self.tries_outliers = not (noise or known or "noise_variance" in self.held or data.whole is not None)
        self.tries_rotation = as_wished if options.rotate == "auto" else bool(options.rotate)
        self.solver = solver_for(options.solver, len(data.y))
        usual = _SECONDS * max(1.0, data.X.size / _ENTRIES) ** 0.25
        self.seconds = usual if options.seconds is None else float(options.seconds)
        self.hurried = self.seconds < usual
        known_mean = not (trend or self.mean is None or self.mean.unknown)
        self._check_together(["noise_variance"] * noise + [f"the known mean {mean!r}"] * known_mean)

    def _check_together(self, on_its_scale: list[str]) -> None:
        """Refuse options that contradict each other, of which some are ``on_its_scale``, that of the observations."""
        options, rotate = self.options, self.options.rotate is True
        columns = options.globe is not None or np.size(options.times) > 0 or options.ard is not None
        if self.given is not None and (columns or rotate):
            raise InputError(
                "globe, times, ard and rotate are for kernels that are chosen here; leave them out beside a whole one"
            )
        if rotate and not turned(starting_kernel(self.groups, 1.0)[0])[1]:
            raise InputError(
                "rotate=True needs two or three columns that have a lengthscale each, beside those on the globe and "
                'times; leave it at "auto", or give a kernel such as Rotated(Matern32((4.0, 1.0)), 30).on(0, 1)'
            )
        if on_its_scale and options.transform not in (None, "auto"):
            raise InputError(
                f"{' and '.join(on_its_scale)}, as given, is on the scale of the observations, and "
                f"transform={options.transform!r} models another one; leave it out, or transform y yourself"
            )

    def first_candidate(self, y: np.ndarray, rows: np.ndarray | None = None) -> CandidatePrior:
        """What is fitted first, to the observations as they are or transformed, y (n,); of the size of ``rows``."""
        kernel, mean, known = self.given or self.kinds[0], self.options.mean, self.mean
        if self.regression is not None:
            known = self._learned(self.regression, y)
            y, mean = y - known.values, None
        of = y if rows is None else y[rows]
        start = first_candidate(
            of, kernel, None if isinstance(mean, str) else known, self.options.noise_variance, self.groups
        )
        start = start.with_trend(mean) if isinstance(mean, str) else start
        return (start if self.regression is None else replace(start, trend=self.regression.name)).holding(self.held)

    def _learned(self, regression: Regression, y: np.ndarray) -> CrossFitted:
        """The trend that a regressor learns from y (n,), in blocks as wide as the gaps that are to be predicted."""
        if (key := y.tobytes()) not in self._trends:
            self._trends[key] = regression.fit(self.data.X, y, self._blocks)
        return self._trends[key]

    @cached_property
    def _blocks(self) -> np.ndarray | None:
        """The blocks (n,) of observations as wide as the gaps around the points to be predicted; None without gaps."""
        if self.like is None:
            return None
        start = Prior(starting_kernel(self.groups, 1.0)[0])
        model = start.condition(self.data.X, self.data.y, NearestNeighbours(1), device=self.data.device)
        return blocks_like(Geometry(model.components[0]), self.like, self.options.seed)


def solver_for(solver: Solver | str | None, n: int, many: Solver | None = None) -> Solver:
    """The one that was asked for, or the exact one as long as it is cheap; ``many`` is the one beyond that."""
    asked = None if solver is None else as_solver(solver)
    if asked is None or (isinstance(solver, str) and isinstance(asked, Auto)):
        return Cholesky() if n <= EXACT_UP_TO else many or NearestNeighbours()
    return asked


def kernel_names(kernel: Any) -> tuple[str, ...]:
    """The kinds of kernels that a name, several names or None stand for."""
    several = isinstance(kernel, Iterable) and not isinstance(kernel, str)
    kinds = DEFAULT_KINDS if kernel is None else tuple(kernel) if several else (kernel,)
    known = (*KINDS, DEFAULT_KINDS[-1])
    if not kinds or any(kind not in known for kind in kinds):
        remedy = "; of a prior take prior.kernel" if isinstance(kernel, Prior) else ""
        raise InputError(f"kernel must be a kernel, or names among {', '.join(known)}; got {kernel!r}{remedy}")
    return kinds


def column_numbers(given: Any, option: str, data: TrainingData) -> tuple[int, ...]:
    """Columns named by number or by name, as numbers; two of them for the globe."""
    names, p = data.names, data.X.shape[1]
    known: dict[Any, int] = {name: i for i, name in enumerate(names or [])} | {i: i for i in range(p)}
    asked = list(given) if isinstance(given, Iterable) and not isinstance(given, str) else [given]
    if any(asked.count(each) > 1 or each not in [*known] for each in asked) or (option == "globe" and len(asked) != 2):
        which = ", ".join(map(repr, names)) if names else f"0 to {p - 1}"
        wanted = "two columns, latitude and longitude," if option == "globe" else "columns"
        raise InputError(f"{option} must be {wanted} among {which}; got {given!r}")
    return tuple(known[each] for each in asked)
