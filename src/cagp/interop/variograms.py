"""Variograms as priors: by name, from PyKrige and GSTools, and from the table that a model of gstat is in R.

The semivariance at a distance h is ``nugget`` + ``psill`` · g(h / ``range``). What a package calls the range differs:

| | exponential | Gaussian | spherical |
|---|---|---|---|
| by name, gstat | 1 − exp(−h / range) | 1 − exp(−(h / range)²) | 3h / 2 range − h³ / 2 range³, 1 beyond |
| PyKrige | the practical one, 1 − exp(−3 h / range) | 1 − exp(−(7 h / 4 range)²) | the same |
| GSTools, ℓ = ``len_scale`` | 1 − exp(−h / ℓ) | 1 − exp(−π h² / 4 ℓ²) | the same |
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from ..errors import InputError, InputTypeError
from ..kernels import RBF, FractionalBrownian, Kernel, Matern12, Matern32, Matern52, Rotated, Spherical, Sum
from ..means import Constant, Mean, Polynomial, as_mean
from ..prior import Prior
from ..support.frames import column_names
from ..support.validation import choice, positive, positive_or_each, real

Reach: TypeAlias = float | tuple[float, ...]  # one number, or one for each axis

_SILLS = ("spherical", "exponential", "gaussian")
_INTRINSIC = ("linear", "power")
_GSTAT = {"Sph": "spherical", "Exp": "exponential", "Gau": "gaussian", "Pow": "power", "Lin": "linear"}
_MATERN: dict[float, Callable[[Reach, float], Kernel]] = {0.5: Matern12, 1.5: Matern32, 2.5: Matern52}
_ANISOTROPY = (("anis1", 1.0), ("ang1", 0.0))  # the columns of gstat, with what they are without
_ONE_DIMENSION = (
    "a linear variogram with a sill is a covariance in one dimension alone; in more, take spherical, which looks alike"
)


def from_variogram(
    variogram: Any,
    *,
    psill: float | None = None,
    range: float | tuple[float, ...] | None = None,
    slope: float | None = None,
    exponent: float | None = None,
    nugget: float | None = None,
    mean: Mean | float | None = None,
    **unknown: Any,
) -> Prior:
    """The prior of kriging with a variogram: its kernel, the nugget as noise, and a constant that nobody knows.

    ``variogram`` is a name, with its numbers in gstat's conventions: "spherical", "exponential" or "gaussian" with the
    partial sill ``psill`` and the ``range``, which is not the practical one; "linear" with its ``slope``; "power" with
    the semivariance slope · h ** exponent; gstat's "Sph", "Exp", "Gau", "Lin" and "Pow" are the same. Or it is a model
    or a kriging object of GSTools, one of PyKrige, or a table with the columns model, psill and range, as
    ``as.data.frame`` makes of a model of gstat (Nug, Sph, Exp, Gau, Pow, and Lin without a range). ``nugget`` is that
    of the variogram unless it is given here: it must be positive, and 1e-8 of the sill stands for none. ``mean`` is by
    default ``Constant()``, ordinary kriging, or the drift of PyKrige or the mean of GSTools.

    A prediction is of the field without its nugget; ``prediction.observed()`` has the kriging variance of a new
    observation. Linear and power variograms have no sill, and so no covariance: ``FractionalBrownian`` stands in,
    which is exact where the mean has an unknown constant, and is refused with any other.

    >>> import cagp
    >>> cagp.interop.from_variogram("spherical", psill=1.34e5, range=800, nugget=2.42e4)
    Prior(kernel=Spherical(lengthscale=800.0, variance=134000.0), mean=Constant(), noise_variance=24200.0)
    """
    if unknown:
        raise InputTypeError(
            f"from_variogram has no argument {next(iter(unknown))!r}; the sill without the nugget is psill, beside it "
            "there are range, slope, exponent, nugget and mean"
        )
    given = {"psill": psill, "range": range, "slope": slope, "exponent": exponent}
    own: Mean = Constant()
    if isinstance(variogram, str):
        kernel, found = _named(variogram.lower(), given), 0.0
    else:
        if said := [name for name, value in given.items() if value is not None]:
            raise InputError(f"{said[0]} is for a variogram by name; {type(variogram).__name__} has its own numbers")
        home = type(variogram).__module__.split(".")[0]
        if home == "pykrige":
            kernel, found, own = _from_pykrige(variogram)
        elif home == "gstools":
            kernel, found = _from_gstools(getattr(variogram, "model", variogram))
            own = _mean_of_gstools(variogram) if hasattr(variogram, "cond_err") else own
        elif column_names(variogram) is not None:
            kernel, found = _from_gstat(variogram)
        else:
            known = "a name, a model of GSTools, a kriging object of PyKrige, or the table of a model of gstat"
            raise InputTypeError(f"variogram must be {known}, got {variogram!r}")
    own = own if mean is None else as_mean(mean)
    parts = kernel.kernels if isinstance(kernel, Sum) else (kernel,)
    constant = own.unknown and isinstance(own, (Constant, Polynomial))
    if any(isinstance(each, FractionalBrownian) for each in parts) and not constant:
        raise InputError(
            f"a linear or power variogram has no sill, so nothing is known of the level: mean must be Constant() or "
            f"Polynomial(degree) with unknown coefficients, got {own!r}"
        )
    level = found if nugget is None else real(nugget, "nugget")
    if not level > 0:
        raise InputError(
            f"the nugget must be positive, got {level:g}; for a variogram without one give nugget= a small one, "
            "such as 1e-8 times the sill"
        )
    return Prior(kernel, mean=own, noise_variance=level)


def _named(name: str, given: dict[str, Any]) -> Kernel:
    """The kernel of a variogram by name, which has exactly the numbers that it needs."""
    name = {short.lower(): long for short, long in _GSTAT.items()}.get(name, name)
    choice(name, "variogram", (*_SILLS, *_INTRINSIC))
    wanted = {"linear": ["slope"], "power": ["slope", "exponent"]}.get(name, ["psill", "range"])
    there = [each for each, value in given.items() if value is not None]
    if there != wanted:
        needs = f"the variogram {name!r} has {' and '.join(wanted)} beside its nugget"
        more = f"; {_ONE_DIMENSION}" if name == "linear" and "range" in there else ""
        raise InputError(f"{needs}, got {', '.join(there) or 'none of them'}{more}")
    if name in _INTRINSIC:
        return FractionalBrownian(positive(given["slope"], "slope"), 1.0 if name == "linear" else given["exponent"])
    return _with_sill(name, given["psill"], given["range"])


def _with_sill(name: str, psill: float, reach: Reach) -> Kernel:
    """Of g(h / reach): one number, or one for each axis."""
    reach = positive_or_each(reach, "range")
    if name == "gaussian":
        return RBF(_times(reach, math.sqrt(0.5)), positive(psill, "psill"))  # exp(−r²/2)
    return (Spherical if name == "spherical" else Matern12)(reach, positive(psill, "psill"))


def _times(reach: Reach, factor: float) -> Reach:
    return tuple(each * factor for each in reach) if isinstance(reach, tuple) else reach * factor


def _turned(kernel: Kernel, angle: float) -> Kernel:
    """The kernel with its first axis so many degrees counter-clockwise from the first column."""
    return Rotated(kernel, angle) if angle % 180 and np.ndim(getattr(kernel, "lengthscale", 1.0)) else kernel


def _from_pykrige(kriging: Any) -> tuple[Kernel, float, Mean]:
    """Of OrdinaryKriging and UniversalKriging, in two dimensions, and of what they are in three."""
    name, values = kriging.variogram_model, [float(each) for each in kriging.variogram_model_parameters]
    if getattr(kriging, "coordinates_type", "euclidean") != "euclidean":
        raise InputError(
            "this model measures degrees along great circles, which no covariance is sure to fit; use "
            "cagp.Geographic(Matern12(...)), whose distances go through the Earth"
        )
    three = hasattr(kriging, "anisotropy_scaling_y")
    if name in _SILLS:
        psill, reach, nugget = values
        scale = {"exponential": 1 / 3, "gaussian": 4 / 7}.get(name, 1.0)
        names = ("anisotropy_scaling_y", "anisotropy_scaling_z") if three else ("anisotropy_scaling",)
        scaling = [float(getattr(kriging, each)) for each in names]
        across = [reach * scale / each for each in scaling]
        kernel = _with_sill(name, psill, reach * scale if set(scaling) == {1.0} else (reach * scale, *across))
        if three and set(scaling) != {1.0} and any(getattr(kriging, f"anisotropy_angle_{each}") for each in "xyz"):
            raise InputError("turned axes in three dimensions are not translated; write Rotated(kernel, angles)")
        kernel = kernel if three else _turned(kernel, float(kriging.anisotropy_angle))
    elif name in _INTRINSIC:
        slope, *exponent, nugget = values
        scalings = [value for each, value in vars(kriging).items() if each.startswith("anisotropy_scaling")]
        if set(scalings) != {1.0}:
            raise InputError(f"a {name} variogram with anisotropy is not translated; scale the coordinates instead")
        kernel = FractionalBrownian(slope, *exponent)
    else:
        raise InputError(f"variogram_model {name!r} has no equal here; known are {', '.join((*_SILLS, *_INTRINSIC))}")
    drifts = [each for each, value in vars(kriging).items() if each.endswith(("_drift", "_drifts")) and value is True]
    if set(drifts) - {"regional_linear_drift"}:
        raise InputError(
            f"{drifts} of this model are not translated; build the mean by hand: mean=cagp.Basis(function)"
        )
    return kernel, nugget, Polynomial(1) if drifts else Constant()


def _from_gstools(model: Any) -> tuple[Kernel, float]:
    name, size = type(model).__name__, float(model.len_rescaled)
    if getattr(model, "latlon", False) or getattr(model, "temporal", False):
        raise InputError(
            "models on the globe or in time are not translated; use cagp.Geographic, or kernel.on(columns)"
        )
    anis, angles = (np.atleast_1d(getattr(model, each)).astype(float) for each in ("anis", "angles"))
    reach: Reach = size if (anis == 1).all() else (size, *(size * anis).tolist())
    if name.lower() in _SILLS:
        kernel = _with_sill(name.lower(), float(model.var), reach)
    elif name == "Matern" and float(model.nu) in _MATERN:
        # √ν h / ℓ there, √(2ν) r here
        kernel = _MATERN[float(model.nu)](_times(reach, math.sqrt(2)), float(model.var))
    else:
        known = "Spherical, Exponential, Gaussian and Matern with nu 0.5, 1.5 or 2.5"
        raise InputError(f"{model!r} has no equal here; known are {known}" + f": {_ONE_DIMENSION}" * (name == "Linear"))
    if len(anis) > 1 and (anis != 1).any() and angles.any():
        raise InputError("turned axes in three dimensions are not translated; write Rotated(kernel, angles)")
    return _turned(kernel, math.degrees(angles[0]) if angles.size else 0.0), float(model.nugget)


def _mean_of_gstools(kriging: Any) -> Mean:
    """That of a kriging object, which has nothing else beside its model."""
    has = {
        "a drift": kriging.drift_no > 0,
        "a mean that varies": callable(kriging.mean),
        "a trend": kriging.trend is not None,
        "a normalizer": type(kriging.normalizer).__name__ != "Normalizer",
        "errors of measurement of its own": np.any(np.asarray(kriging.cond_err) != kriging.model.nugget),
    }
    if found := [what for what, there in has.items() if there]:
        raise InputError(
            f"{' and '.join(found)} of this {type(kriging).__name__} are not translated; give kriging.model, with "
            "mean=cagp.Polynomial(degree) or cagp.Basis(function), nugget= for errors of measurement, and "
            "observations without a trend, transformed"
        )
    return Constant() if kriging.unbiased else as_mean(float(kriging.mean or 0.0))


def _from_gstat(table: Any) -> tuple[Kernel, float]:
    """A row for each structure; angles are clockwise from north, ``anis1`` is the range across over that along."""
    names = column_names(table) or []
    if missing := [each for each in ("model", "psill", "range") if each not in names]:
        raise InputError(
            f"the table of a model of gstat has the columns model, psill and range; {missing[0]} is missing"
        )
    columns = {each: np.asarray(table[each]).tolist() for each in names}
    nugget, parts = 0.0, list[Kernel]()
    for row, kind in enumerate(map(str, columns["model"])):
        psill, reach = float(columns["psill"][row]), float(columns["range"][row])
        anis, angle = (float(columns[each][row]) if each in columns else usual for each, usual in _ANISOTROPY)
        if kind == "Nug":
            nugget += psill
            continue
        if kind not in _GSTAT or any(float(columns[each][row]) for each in ("ang2", "ang3") if each in columns):
            raise InputError(f"row {row}, {kind}, has no equal here; known are Nug, {', '.join(_GSTAT)}, in the plane")
        name = _GSTAT[kind]
        if name in _INTRINSIC and anis != 1:
            raise InputError(f"a {name} variogram with anisotropy is not translated; scale the coordinates instead")
        if name == "linear" and reach > 0:
            raise InputError(f"row {row}: {_ONE_DIMENSION}")
        if name in _INTRINSIC:
            parts.append(FractionalBrownian(psill, 1.0 if name == "linear" else reach))
        else:
            kernel = _with_sill(name, psill, reach if anis == 1 else (reach, reach * anis))
            parts.append(_turned(kernel, 90.0 - angle))
    if not parts:
        raise InputError("the model has a nugget alone, which is noise and no field")
    return parts[0] if len(parts) == 1 else Sum(tuple(parts)), nugget
