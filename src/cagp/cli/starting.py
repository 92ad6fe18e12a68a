"""From a table and the options of ``cagp fit`` to ``cagp.fit``: the prior, the observations, the search for a model."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .. import tables
from ..choosing.candidates import KINDS, SHORT_AND_LONG, TRENDS
from ..choosing.front_door import fit_named
from ..choosing.options import LIKELIHOODS, Options, check_recalibrate
from ..errors import InputError
from ..hyperparameters import FitWarning, averaged_rows
from ..hyperparameters.starting_prior import Group, column_groups, scale_of, starting_kernel
from ..kernels import Kernel, Matern32, Periodic, Radial
from ..means import Constant, Mean
from ..prior import Prior
from ..regression import TREES
from ..saving import About
from ..support.coordinate_systems import coordinate_names
from ..support.numbers import listed
from ..support.validation import choice, positive, squarable
from ..tables.columns import ColumnsAsked
from ..tables.table import RawColumns
from ..transforms import KINDS as TRANSFORMS
from .expressions import KERNEL_NAMES, evaluated
from .flags import Listed
from .outputs import notes_on
from .shared import Printer
from .table_columns import distinct, find_column, globe_among, globe_of, in_system, names_in, tell_reading, varying


@dataclass(frozen=True, eq=False)
class Training:
    """Observations y (n,), or (n, q) of ``quantities``, at X (n, p), the ``columns`` of a table.

    The rest is what a model remembers ``about`` them, their ``noise`` variance, one or (n,), and which columns are
    latitude and longitude, ``globe``; None if unknown; ``times`` are those with a factor of their own in the kernel.
    """

    columns: list[str]
    X: np.ndarray
    y: np.ndarray
    noise: float | np.ndarray | None
    globe: tuple[int, ...] | None
    about: About
    quantities: Sequence[str] = ()
    times: Sequence[str] = ()


@dataclass(frozen=True)
class PriorAsked:
    """The options that say what the prior is, as they were written; refuses what cannot be read or go together.

    They say everything, with ``--no-fit`` or a kernel with its values; its kind; or nothing, so that it is chosen.
    """

    kernel: str
    mean: str
    globe: str | None
    ard: bool | None
    lengthscale: str | None
    variance: float | None
    noise: float | None
    rotate: bool | None = None
    times: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _ = self._mean, self._kernel  # read at once
        scales = [("--lengthscale", each) for each in self._scales or ()]
        for option, value in [("--noise-variance", self.noise), ("--variance", self.variance), *scales]:
            if value is not None and not 0 < value < float("inf"):
                raise InputError(f"{option} must be positive, got {value:g}")
        if self.rotate and (self.own_kernel is not None or self._valued or self._kernel is Periodic):
            raise InputError(
                "--rotate is for a kernel that is chosen; leave out --lengthscale and --variance, or write it with its "
                "values: --kernel 'Rotated(Matern32((4.0, 1.0)), 30)'"
            )
        if self.times and (self.own_kernel is not None or self._valued or self._kernel is Periodic):
            raise InputError(
                "--times is for a kernel that is chosen; leave out --lengthscale and --variance, or write it with its "
                "values: --kernel 'Matern32((0.5, 0.5), 1.0).on(0, 1) * Matern32(3.0).on(2)'"
            )
        if self.own_kernel is not None and (self._valued or (self.globe or "none").lower() != "none"):
            remedy = "leave out --globe, --lengthscale and --variance"
            raise InputError(f"--kernel {self.kernel!r} has its values in it; {remedy}")

    @cached_property
    def _mean(self) -> Mean | None:
        """The mean of that name; None where it is to be chosen or learned."""
        return TRENDS.get(choice(self.mean, "--mean", ("auto", *TRENDS, TREES)))

    @cached_property
    def _kernel(self) -> type[Radial] | Kernel | tuple[str, ...] | None:
        """The kind of kernel of that name, several names, the kernel that an expression means; None for any kind."""
        radial = {name: kind for name, kind in KERNEL_NAMES.items() if issubclass(kind, Radial)}
        names = tuple(each.strip().lower().replace("-", "").replace("_", "") for each in self.kernel.split(","))
        if names == ("auto",):
            return None
        if len(names) == 1 and names[0] in radial:
            return radial[names[0]]
        if set(names) <= {*KINDS, SHORT_AND_LONG}:
            return names
        kinds = ", ".join(("auto", *radial, SHORT_AND_LONG))
        otherwise = f"--kernel must be one of {kinds}, or such as 'Matern32(0.5).on(0, 1) + RBF(2.0).on(2)'"
        kernel = evaluated(self.kernel, otherwise, ["auto", *radial])
        if not isinstance(kernel, Kernel):
            raise InputError(f"{otherwise}; got {self.kernel!r}")
        return kernel

    @cached_property
    def _scales(self) -> tuple[float, ...] | None:
        if self.lengthscale is None:
            return None
        try:
            return tuple(map(float, self.lengthscale.split(",")))
        except ValueError:
            raise InputError(f"--lengthscale must be a number, or 'a,b,c'; got {self.lengthscale!r}") from None

    @property
    def _valued(self) -> bool:
        return self._scales is not None or self.variance is not None

    @property
    def own_kernel(self) -> Kernel | None:
        """The kernel where it is an expression, which has its values in it."""
        return self._kernel if isinstance(self._kernel, Kernel) else None

    @property
    def named_kernel(self) -> Any:
        """The kernel as ``cagp.fit`` takes it: a kernel, its name, several names, or None for any kind."""
        return next((name for name, kind in KINDS.items() if kind is self._kernel), self._kernel)

    def require_values(self, noisy: bool) -> None:
        """Refuse ``--no-fit`` without the values that it takes; ``noisy`` says that a column has those of the noise."""
        needed: dict[str, object] = {} if noisy else {"--noise-variance": self.noise}
        if self.own_kernel is None:
            needed |= {"--lengthscale": self.lengthscale, "--variance": self.variance}
        if self.mean == TREES:
            raise InputError(
                f"--no-fit takes everything as given, and --mean {TREES} is learned; leave one of them out"
            )
        missing = " and ".join(name for name, value in needed.items() if value is None)
        if missing:
            raise InputError(f"--no-fit takes the hyperparameters as given, so it needs {missing} as well")

    def for_fit(self, training: Training) -> dict[str, Any]:
        """What ``cagp.fit`` is told: the prior where its values or its whole kernel were given, else what is known."""
        mean = None if self.mean == "auto" else self.mean
        known: dict[str, Any] = {"mean": mean, "noise_variance": training.noise, "fix": ()}
        if self.own_kernel is not None or self._valued or self._kernel is Periodic:
            kernel, fixed = self._kernel_for(training)
            return {**known, "kernel": kernel, "fix": fixed}
        rotate = "auto" if self.rotate is None else self.rotate
        known |= {"globe": training.globe or (), "times": training.times, "ard": self.ard, "rotate": rotate}
        return {**known, "kernel": self.named_kernel}

    def some_prior(self, training: Training) -> Prior:
        """A prior on the columns of the data, to match other tables by."""
        return Prior(self.own_kernel or starting_kernel(column_groups(training.X, training.globe), 1.0)[0])

    def _kernel_for(self, training: Training) -> tuple[Kernel, tuple[str, ...]]:
        """The kernel with the values that were given, and others from the spread of the data; what must be held."""
        kind, scales, p = self._kernel, self._scales, len(training.columns)
        if isinstance(kind, Kernel):
            return kind, ()
        if isinstance(kind, tuple):
            raise InputError(f"--lengthscale and --variance are for one kernel, got --kernel {self.kernel!r}")
        variance = self.variance if self.variance is not None else scale_of(training.y)
        groups = column_groups(training.X, training.globe, each=self.ard is not False)
        if training.globe is not None and scales is not None:
            if len(scales) > 1:
                raise InputError("with --globe, --lengthscale is one number, in kilometres on the globe")
            groups[0] = dataclasses.replace(groups[0], lengthscale=scales[0])
        elif scales is not None:
            if (n := len(scales)) not in (1, p):
                raise InputError(f"--lengthscale has {n} values for {p} features; give one, or one for each")
            if self.ard is False and n > 1:
                raise InputError(f"--no-ard is one lengthscale for all features, --lengthscale has {n} values")
            scales = scales if n == p else scales * p
            groups = [Group(None, scales[0] if self.ard is False or p == 1 else scales)]
        return starting_kernel(groups, variance, kind or Matern32)

    def whole_prior_for(self, training: Training) -> Prior:
        """The prior for ``--no-fit``; refused where the options cannot hold all hyperparameters."""
        if training.globe is not None and len(training.columns) > 2:
            raise InputError(
                "--no-fit takes hyperparameters as given, and --lengthscale is that on the globe; write all of them as "
                "a kernel: --kernel 'Geographic(Matern32(300.0, 1.0), radius=6371.0).on(0, 1) * Matern32(2.0).on(2)'"
            )
        kernel, _ = self._kernel_for(training)
        return Prior(kernel, mean=self._mean or Constant(), noise_variance=training.noise)


def no_copies(
    X: np.ndarray, y: np.ndarray, globe: Sequence[str] | None, features: Sequence[str], printer: Printer, first: int = 0
) -> np.ndarray:
    """Which observations from the ``first`` on, (n,), do not repeat another one under a different longitude."""
    from ..interop.xarray_conventions import Axis, copies

    roles = dict(zip(globe or (), ("latitude", "longitude"), strict=False))
    copied = copies(X, y, tuple(Axis(name, roles.get(name, "other")) for name in features))[first:]
    if copied.any():
        printer(
            f"{copied.sum():,} of {len(copied):,} rows are left out: they repeat the value of another one at the same "
            "place on the globe (a pole, or a meridian given twice), and copies are no further observations."
        )
    return ~copied


def columns_asked(categories: Listed, dates: str | None, impute: str | None) -> ColumnsAsked:
    """The options --categories, --dates and --impute, checked."""
    day_first = None if dates is None else choice(dates, "--dates", ("day-first", "month-first")) == "day-first"
    if impute not in (None, "median"):
        raise InputError(f"--impute must be median, got {impute!r}")
    return ColumnsAsked(tuple(names_in(categories)), day_first, impute is not None)


def read_training(
    data: Path,
    target: str,
    features: Listed,
    exclude: Listed,
    noise_column: str | None,
    drop_missing: bool,
    wished: PriorAsked,
    printer: Printer,
    asked: ColumnsAsked,
    crs: str | None = None,
) -> Training:
    """The observations in a table, by the options that say what to read; says what was assumed and left out."""
    raw = tables.read_columns(data)
    targets = [target] if target in raw.names else names_in([target])
    targets = [find_column(raw, each, "--target") for each in targets]
    if len(targets) > 1 and (noise_column is not None or wished.noise is not None):
        raise InputError("--noise-column and --noise-variance are for one target; several have a noise each, fitted")
    noisy = None if noise_column is None else find_column(raw, noise_column, "--noise-column")
    if noisy is not None and wished.noise is not None:
        ignored = f"--noise-variance {wished.noise:g} would be ignored"
        raise InputError(f"--noise-column gives each row its noise variance, so {ignored}")
    given = [find_column(raw, each, "--features") for each in names_in(features)]
    others = targets if noisy is None else [*targets, noisy]
    left_out = {*others, *(find_column(raw, each, "--exclude") for each in names_in(exclude))}
    # of a grid, the coordinates of the target
    known = [dim for dim in raw.dims[targets[0]] if dim in raw.names] if raw.dims else raw.names
    columns = given or [name for name in known if name not in left_out]
    if clash := left_out & set(columns):
        raise InputError(f"{min(clash)!r} cannot be a feature: it is the target or excluded")
    if not columns:
        raise InputError(f"{data} has no column left to predict {listed(targets)} from")
    raw = raw if crs is None else in_system(raw, crs, columns)
    categories = tuple(find_column(raw, each, "--categories") for each in asked.categories)
    if strange := [each for each in categories if each not in columns]:
        raise InputError(f"--categories: {strange[0]!r} is not a feature; it is the target or excluded")
    asked = dataclasses.replace(asked, categories=categories)
    # in a gridded field what is missing is what is to be predicted, as in field.cagp.fit
    how: dict[str, Any] = {"drop_missing": drop_missing or bool(raw.dims), "keep": bool(given)}
    how |= {"quantities": targets if len(targets) > 1 else ()}
    table, columns = tables.read_training_table(data, columns, others, asked, **how)
    tell_reading(table, printer)
    for words in filter(None, (each.in_words for each in table.encodings)):
        printer(words)
    if not given:
        columns = varying(table, columns, printer)
    columns = distinct(table, columns, bool(given), printer)
    times = tuple(find_column(raw, each, "--times") for each in wished.times)
    if strange := [each for each in times if each not in columns]:
        raise InputError(f"--times: {strange[0]!r} is no feature of numbers; these are {', '.join(map(repr, columns))}")
    used = tuple(each for each in table.encodings if set(each.features) <= {*columns, *targets})
    table = dataclasses.replace(table, encodings=used)
    own = wished.own_kernel
    globe = globe_among(wished.globe, raw, columns, printer) if own is None else None
    on_globe = globe if own is None else globe_of(own, columns)
    on_globe = on_globe or (raw.globe if wished.globe is None else None)
    X, y, only = table.matrix(columns), table.matrix(targets), None if len(targets) > 1 else targets[0]
    kept = np.ones(len(X), dtype=bool) if only is None else no_copies(X, y[:, 0], on_globe, columns, printer)
    if kept.sum() < 2:
        raise InputError(f"{data} has {kept.sum()} row; at least two are needed")
    X, y, noise = X[kept], y[kept], wished.noise if noisy is None else table.columns[noisy][kept]
    y = y if only is None else y[:, 0]
    counts = zip(targets, (~np.isnan(y)).sum(axis=0, keepdims=True).ravel(), strict=True)
    several = listed([f"{count:,} observations of {name!r}" for name, count in counts])
    printer(f"{several} at {', '.join(map(repr, columns))}.")
    different = len(np.unique(X, axis=0))
    if isinstance(noise, np.ndarray) and different < len(y) and (noise > 0).all():
        found = averaged_rows(X, y, noise)
        X, y, noise = found.X, found.y, found.noise_variance
        printer(
            f"They are at {different:,} different points: those at the same point are averaged, weighted by their "
            "noise, which changes no prediction."
        )
    elif different < len(y):
        printer(f"They are at {different:,} different points; each is an observation of its own, with its own noise.")
    for values, what in ((X, "the features"), (y[~np.isnan(y)], "the target")):
        squarable(torch.from_numpy(values), what)
    table = dataclasses.replace(table, units={**table.units, **{each: raw.units[each] for each in raw.coordinates}})
    units = {name: table.units[name] for name in (*columns, *targets) if name in table.units}
    notes = notes_on(raw, only, table.dropped, int((~kept).sum()))
    about = About(tuple(columns), only, units, notes, encodings=table.encodings, crs=_system_of(raw, columns))
    numbers = None if globe is None else tuple(map(columns.index, globe))
    return Training(columns, X, y, noise, numbers, about, targets if only is None else (), times)


def _system_of(raw: RawColumns, columns: Sequence[str]) -> str | None:
    """The coordinate system of a table, if its coordinates are among the columns of the model."""
    if raw.crs is None or not set(raw.coordinates or coordinate_names(raw.crs)) <= set(columns):
        return None
    return raw.crs


def search_options(
    no_fit: bool, transform: str, likelihood: str, subset: int | None, restarts: int | None, fix: Listed, **flags: Any
) -> dict[str, Any]:
    """What ``cagp.fit`` is told about the search; of the ``flags``, None is its default. Refuses what no data allow."""
    choice(likelihood, "--likelihood", LIKELIHOODS)
    if flags.get("seconds") is not None:
        positive(flags["seconds"], "--seconds")
    choice(transform, "--transform", ("auto", "none", *TRANSFORMS))
    if no_fit and transform in TRANSFORMS and (free := TRANSFORMS[transform].free):
        remedy = "leave it out, or take log or logit, which have no such parameter"
        raise InputError(
            f"--transform {transform} has a {' and a '.join(free)} to be fitted, and --no-fit fits none; {remedy}"
        )
    asked = {"likelihood": likelihood != "auto", "subset": subset, "restarts": restarts, **flags}
    for name in [each for each in asked if no_fit and asked[each] and each not in ("recalibrate", "mixture")]:
        raise InputError(f"--{name} is for a fit, and --no-fit does none; leave one of the two out")
    given = {"fix": names_in(fix), "subset": subset, "n_restarts": restarts}
    defaults = {each.name: each.default for each in dataclasses.fields(Options)}
    options = {name: defaults[name] if value is None else value for name, value in flags.items()}
    options |= {"transform": None if transform == "none" else transform, "likelihood": likelihood}
    return options | {"fit_options": {name: value for name, value in given.items() if value is not None}}


def check_rows(options: Mapping[str, Any], n: int) -> None:
    """Refuse what n observations do not allow, before work is done."""
    subset = options["fit_options"].get("subset")
    if subset is not None and subset > n:
        raise InputError(f"--subset must be between 2 and the number of rows, {n}; got {subset}")
    try:
        check_recalibrate(options["recalibrate"], n)
    except InputError as error:
        raise InputError(str(error).replace("recalibrate=True", "--recalibrate")) from None


def search(wished: PriorAsked, training: Training, options: Mapping[str, Any], progress: bool | None) -> Any:
    """The model that ``cagp.fit`` finds, of one quantity or of several."""
    prior, given = wished.for_fit(training), options["fit_options"]
    told = {**options, "fit_options": {**given, "fix": (*prior.pop("fix"), *given["fix"])}, **prior}
    units = [training.about.units.get(each, "") for each in training.columns]
    about: dict[str, Any] = {"crs": training.about.crs, "targets": training.quantities}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)  # the story says the same
        return fit_named(training.X, training.y, training.columns, units, **about, **told, progress=progress)
