"""From the options of ``cagp fit`` to ``cagp.fit``: what they say of the prior, which is everything, its kind, or
nothing, so that it is chosen; the search for a model; and what it found.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..choosing import fit
from ..choosing.candidates import KINDS, SHORT_AND_LONG
from ..choosing.candidates import TRENDS as _MEANS
from ..choosing.options import LIKELIHOODS, check_recalibrate
from ..errors import InputError
from ..hyperparameters import FitResult
from ..hyperparameters.starting_prior import Group, column_groups, scale_of, starting_kernel
from ..kernels import Kernel, Matern32, Periodic, Radial, Rotated, geographic_columns
from ..means import Constant, Mean
from ..model import Model
from ..prior import Prior
from ..support.validation import choice
from ..tables import RawColumns, Table
from ..transforms import KINDS as TRANSFORMS
from .expressions import KERNEL_NAMES, evaluated
from .shared import IN_OPTIONS, Printer
from .table_columns import names_in

_AUTO = "auto"


@dataclass(frozen=True, eq=False)
class Training:
    """Observations y (n,) of ``target`` at X (n, p), the ``columns`` of a table; without ``copied`` rows.

    ``noise`` (n,) are their noise variances, where a column has them; ``globe`` are latitude and longitude among the
    columns, where distance is measured on the globe.
    """

    raw: RawColumns
    table: Table
    target: str
    columns: list[str]
    X: np.ndarray
    y: np.ndarray
    noise: np.ndarray | None
    globe: tuple[str, str] | None
    copied: int

    @property
    def globe_columns(self) -> tuple[int, ...] | None:
        """Which columns latitude and longitude are."""
        return None if self.globe is None else tuple(self.columns.index(each) for each in self.globe)


@dataclass(frozen=True)
class PriorAsked:
    """The options that say what the prior is, as they were written."""

    kernel: str
    mean: str
    globe: str | None
    ard: bool | None
    lengthscale: str | None
    variance: float | None
    noise: float | None
    rotate: bool | None = None

    def __post_init__(self) -> None:
        _ = self._mean, self._kernel  # what cannot be read is refused at once
        scales = [("--lengthscale", each) for each in self._scales or ()]
        for option, value in [("--noise-variance", self.noise), ("--variance", self.variance), *scales]:
            if value is not None and not 0 < value < float("inf"):
                raise InputError(f"{option} must be positive, got {value:g}")
        valued = self._scales is not None or self.variance is not None
        if self.rotate and (self.written or valued or self._kernel is Periodic):
            raise InputError(
                "--rotate is for a kernel that is chosen; leave out --lengthscale and --variance, or write it with its "
                "values: --kernel 'Rotated(Matern32((4.0, 1.0)), 30)'"
            )
        if self.written and (valued or (self.globe or "none").lower() != "none"):
            raise InputError(
                f"--kernel {self.kernel!r} has its values in it; leave out --globe, --lengthscale and --variance"
            )

    @cached_property
    def _mean(self) -> Mean | None:
        """The mean of that name; None where it is to be chosen."""
        if self.mean not in (_AUTO, *_MEANS):
            raise InputError(f"--mean must be one of {', '.join((_AUTO, *_MEANS))}, got {self.mean!r}")
        return _MEANS.get(self.mean)

    @cached_property
    def _kernel(self) -> type[Radial] | Kernel | tuple[str, ...] | None:
        """The kind of kernel of that name, several names, the kernel that an expression means; None for any kind."""
        radial = {name: kind for name, kind in KERNEL_NAMES.items() if issubclass(kind, Radial)}
        names = tuple(each.strip().lower().replace("-", "").replace("_", "") for each in self.kernel.split(","))
        if names == (_AUTO,):
            return None
        if len(names) == 1 and names[0] in radial:
            return radial[names[0]]
        chosen_from = (*KINDS, SHORT_AND_LONG)
        if set(names) <= set(chosen_from):
            return names
        kinds = ", ".join((_AUTO, *radial, SHORT_AND_LONG))
        otherwise = f"--kernel must be one of {kinds}, or such as 'Matern32(0.5).on(0, 1) + RBF(2.0).on(2)'"
        kernel = evaluated(self.kernel, otherwise, [_AUTO, *radial])
        if not isinstance(kernel, Kernel):
            raise InputError(f"{otherwise}; got {self.kernel!r}")
        return kernel

    @cached_property
    def _scales(self) -> tuple[float, ...] | None:
        if self.lengthscale is None:
            return None
        try:
            return tuple(float(each) for each in self.lengthscale.split(","))
        except ValueError:
            wanted = "--lengthscale must be a number, or numbers separated by commas"
            raise InputError(f"{wanted}, got {self.lengthscale!r}") from None

    @property
    def written(self) -> bool:
        """Whether the kernel is an expression, which has its values in it."""
        return isinstance(self._kernel, Kernel)

    def globe_among(self, columns: list[str]) -> tuple[str, str] | None:
        """The columns that a written kernel takes for latitude and longitude."""
        if not isinstance(self._kernel, Kernel):
            return None
        pairs = [each for each in geographic_columns(self._kernel, tuple(range(len(columns)))) if len(each) == 2]
        return (columns[pairs[0][0]], columns[pairs[0][1]]) if pairs else None

    def for_fit(self, training: Training) -> dict[str, Any]:
        """What ``cagp.fit`` is told: the prior where its values or its whole kernel were given, else what is known."""
        known: dict[str, Any] = {"mean": self._mean, "noise_variance": self._noise(training), "fix": ()}
        if self.written or self._scales is not None or self.variance is not None or self._kernel is Periodic:
            kernel, fixed = self._kernel_for(training)
            return {**known, "kernel": kernel, "fix": fixed}
        kind, rotate = self._kernel, "auto" if self.rotate is None else self.rotate
        names = next(name for name, each in KINDS.items() if each is kind) if isinstance(kind, type) else kind
        return {**known, "kernel": names, "globe": training.globe_columns, "ard": self.ard, "rotate": rotate}

    def some_prior(self, training: Training) -> Prior:
        """A prior on the columns of the data, to match other tables by."""
        if isinstance(self._kernel, Kernel):
            return Prior(self._kernel)
        return Prior(starting_kernel(column_groups(training.X, training.globe_columns), 1.0)[0])

    def _noise(self, training: Training) -> float | np.ndarray | None:
        return self.noise if training.noise is None else training.noise

    def _kernel_for(self, training: Training) -> tuple[Kernel, tuple[str, ...]]:
        """The kernel with the values that were given, and others from the spread of the data; what must be held."""
        kind, X, scales = self._kernel, training.X, self._scales
        if isinstance(kind, Kernel):
            return kind, ()
        if isinstance(kind, tuple):
            raise InputError(f"--lengthscale and --variance are for one kernel, got --kernel {self.kernel!r}")
        variance = self.variance if self.variance is not None else scale_of(training.y)
        where, each = training.globe_columns, self.ard is not False
        groups = column_groups(X, where, each=each)
        if where is not None and scales is not None:
            if len(scales) > 1:
                raise InputError("with --globe, --lengthscale is one number, in kilometres on the globe")
            groups[0] = dataclasses.replace(groups[0], lengthscale=scales[0])
        elif scales is not None:
            groups = [Group(None, self._lengthscales(X.shape[1]))]
        return starting_kernel(groups, variance, kind or Matern32)

    def _lengthscales(self, p: int) -> float | tuple[float, ...]:
        """Those that were given, for p features."""
        given = self._scales or ()
        if len(given) not in (1, p):
            raise InputError(f"--lengthscale has {len(given)} values for {p} features; give one, or one for each")
        if self.ard is False and len(given) > 1:
            raise InputError(f"--no-ard is one lengthscale for all features, --lengthscale has {len(given)} values")
        return given[0] if self.ard is False or p == 1 else given if len(given) == p else given * p

    def whole_prior_for(self, training: Training) -> Prior:
        """The prior for ``--no-fit``; refused where the options cannot hold all hyperparameters."""
        if training.globe is not None and len(training.columns) > 2:
            raise InputError(
                "--no-fit takes the hyperparameters as given, and --lengthscale is that on the globe alone; write "
                "all of them as a kernel: "
                "--kernel 'Geographic(Matern32(300.0, 1.0), radius=6371.0).on(0, 1) * Matern32(2.0).on(2)'"
            )
        kernel, _ = self._kernel_for(training)
        return Prior(kernel, mean=self._mean or Constant(), noise_variance=self._noise(training))


def copies_on_globe(X: np.ndarray, y: np.ndarray, globe: tuple[str, str] | None, features: Sequence[str]) -> np.ndarray:
    """Which observations (n,) repeat another one under a different longitude, and so are none: the accessor's rule."""
    if globe is None or not set(globe) <= set(features):
        return np.zeros(len(y), dtype=bool)
    from ..interop.xarray_conventions import Axis, copies

    roles = dict(zip(globe, ("latitude", "longitude"), strict=True))
    return copies(X, y, tuple(Axis(name, roles.get(name, "other")) for name in features))


def tell_copies(copies: np.ndarray, printer: Printer) -> None:
    """Say how many rows (n,) are left out because they are copies."""
    if copies.any():
        printer(
            f"{copies.sum():,} of {len(copies):,} rows are left out: they repeat the value of another one at the same "
            "place on the globe (a pole, or a meridian given twice), and copies are no further observations."
        )


# --- the search -------------------------------------------------------------------------------------------------------


def search_options(
    no_fit: bool, transform: str, likelihood: str, subset: int | None, restarts: int | None, fix: str, **flags: Any
) -> dict[str, Any]:
    """What ``cagp.fit`` is told about the search; of the ``flags``, None is "auto". Refuses what no data allow."""
    choice(likelihood, "--likelihood", LIKELIHOODS)
    choice(transform, "--transform", ("auto", "none", *TRANSFORMS))
    if no_fit and transform not in ("auto", "none"):
        raise InputError(f"--transform {transform} is for a fit; leave --no-fit out, or transform the table")
    given = {"fix": names_in(fix), "subset": subset, "n_restarts": restarts}
    flags = {name: "auto" if value is None else value for name, value in flags.items()}
    flags["fit_options"] = {name: value for name, value in given.items() if value is not None}
    return {"transform": None if transform == "none" else transform, "likelihood": likelihood, **flags}


def check_rows(options: Mapping[str, Any], n: int) -> None:
    """Refuse what n observations do not allow, before work is done."""
    subset = options["fit_options"].get("subset")
    if subset is not None and subset > n:
        raise InputError(f"--subset must be between 2 and the number of rows, {n}; got {subset}")
    try:
        check_recalibrate(options["recalibrate"], n)
    except InputError as error:
        raise InputError(str(error).replace("recalibrate=True", "--recalibrate")) from None


def search(wished: PriorAsked, training: Training, options: Mapping[str, Any], progress: bool | None) -> Model:
    """The model that ``cagp.fit`` finds."""
    prior = wished.for_fit(training)
    given = options["fit_options"]
    fit_options = {**given, "fix": (*prior.pop("fix"), *given["fix"])}
    return fit(training.X, training.y, **{**options, "fit_options": fit_options, **prior}, progress=progress)


def printed(result: FitResult, columns: list[str], stopped: bool, printer: Printer) -> None:
    """Print the hyperparameters that the search found, and what needs a look."""
    errors = result.standard_errors or {}
    owners: dict[str, str] = {}
    for part in result.prior.kernel.walk(range(len(columns))):
        owners |= {f"{part.path}.lengthscale[{i}]": columns[column] for i, column in enumerate(part.columns)}
        for field in part.kernel.angles:
            owners |= {f"{part.path}.{field}{place}": "degrees" for place in ("", "[0]", "[1]", "[2]")}
        if part.coordinate == Rotated.coordinate_called:
            owners |= {f"{part.path}.lengthscale[{i}]": f"axis {i + 1}" for i in range(3)}
    rows = []
    for name, value in result.values.items():
        error = errors.get(name)
        rows.append((name, owners.get(name, ""), f"{value:.6g}", "" if error is None else f"± {error:.2g}"))
    printer.table(("hyperparameter", "of", "value", "standard error"), rows)
    flat = [advice.subject for advice in result.advice if advice.kind == "flat"]
    for advice in result.advice:
        interrupted = stopped and advice.kind == "not converged"  # that it was is said at the end
        if not interrupted and advice.kind != "flat":
            printer(f"Warning: {advice.worded(IN_OPTIONS)}")
    if flat:
        which = flat[0] if len(flat) == 1 else f"{', '.join(flat[:-1])} and {flat[-1]}"
        printer(
            f"The likelihood is flat in {which}: the data hardly determine {'it' if len(flat) == 1 else 'them'}, and "
            "predictions hardly depend on it. Nothing needs to be done; --fix holds a value that you know."
        )
