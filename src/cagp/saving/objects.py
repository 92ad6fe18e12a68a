"""Kernels, means, solvers and preconditioners as plain JSON values, and back through a list of known classes.

An object is ``{"class": "Matern32", "lengthscale": 0.2, "variance": 1.0}`` and comes back through its constructor,
which checks every value. Long lists of numbers are kept as arrays: ``{"array": "solver.order"}``.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import numbers
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from .. import kernels
from ..errors import InputError, SavedModelError
from ..kernels import CustomKernel, Kernel, NoiseByQuantity, Pattern
from ..means import Basis, ByQuantity, CallableMean, Constant, Mean, Polynomial, Zero
from ..preconditioners import Identity, Jacobi, Nystrom, SymmetricGaussSeidel
from ..prior import Prior
from ..recalibration.margins import saved_array
from ..regression import CrossFitted
from ..solvers import ALL as SOLVERS
from .regressions import decode_regression, encode_regression

KERNELS: tuple[type[Kernel], ...] = tuple(
    each
    for each in (getattr(kernels, name) for name in kernels.__all__)
    if isinstance(each, type) and issubclass(each, Kernel) and not inspect.isabstract(each) and each is not CustomKernel
)
"""All built-in kernels; a CustomKernel is a function, and functions are not saved."""

_OTHERS = (
    Pattern,
    NoiseByQuantity,
    Zero,
    Constant,
    Polynomial,
    ByQuantity,
    *SOLVERS,
    Identity,
    Jacobi,
    Nystrom,
    SymmetricGaussSeidel,
)
KNOWN: dict[str, type[Any]] = {each.__name__: each for each in (*KERNELS, *_OTHERS)}

# Lists of more numbers than this are arrays; cagp 0.2 reads shorter ones of real numbers as lists alone.
_LONG = {int: 64, float: 1000}


def encode(value: Any, path: str, arrays: dict[str, np.ndarray]) -> Any:
    """``value`` as JSON; long lists of numbers go to ``arrays`` under their ``path``."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real) and math.isfinite(value):
        return float(value)
    if isinstance(value, (tuple, list)):
        first = value[0] if value else None
        kind = type(first[0]) if isinstance(first, tuple) and first else type(first)
        if kind in _LONG and len(value) > _LONG[kind] and _rectangular(value, kind):
            arrays[path] = np.asarray(value, dtype=np.int64 if kind is int else np.float64)
            return {"array": path}
        return [encode(each, f"{path}[{i}]", arrays) for i, each in enumerate(value)]
    if isinstance(value, CrossFitted):
        return encode_regression(value, path, arrays)
    if KNOWN.get(type(value).__name__) is type(value):
        names = [each.name for each in dataclasses.fields(value)]
        content = {name: encode(getattr(value, name), f"{path}.{name}", arrays) for name in names}
        return {"class": type(value).__name__} | content
    raise InputError(f"{path} cannot be saved: {_why(value)}")


def encode_prior(prior: Prior, path: str, noise: str, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """A prior as JSON; noise of each observation, or its factors, go to ``arrays`` under the name ``noise``."""
    content = {name: encode(getattr(prior, name), f"{path}{name}", arrays) for name in ("kernel", "mean")}
    each = prior.noise_factors if prior.noise_factors is not None else prior.noise_variance
    if np.ndim(each):
        arrays[noise] = np.array(each, dtype=np.float64)
    content["noise_variance"] = None if np.ndim(prior.noise_variance) else float(prior.noise_variance)
    if prior.noise_pattern is not None:
        content["noise_pattern"] = encode(prior.noise_pattern, f"{path}noise_pattern", arrays)
    return content


def decode_prior(content: Any, path: str, noise: str, arrays: Mapping[str, np.ndarray]) -> Prior:
    """What ``encode_prior`` wrote."""
    kernel, mean = (decode(content[n], f"{path}{n}", arrays, kind) for n, kind in (("kernel", Kernel), ("mean", Mean)))
    variance, pattern = content["noise_variance"], content.get("noise_pattern")
    each = saved_array(arrays, noise, "float64") if variance is None or noise in arrays else None
    return Prior(
        kernel,
        mean=mean,
        noise_variance=each if variance is None else variance,
        noise_pattern=pattern and decode(pattern, f"{path}noise_pattern", arrays, Pattern, NoiseByQuantity),
        noise_factors=None if variance is None else each,
    )


def require_entries(content: Any, wanted: Iterable[str], what: str) -> None:
    """Refuse what is not a mapping with exactly these entries."""
    if not isinstance(content, dict) or set(content) != set(wanted):
        raise InputError(f"{what} must have exactly the entries {', '.join(sorted(wanted))}")


def _rectangular(value: Any, kind: type) -> bool:
    """Whether a list holds numbers of one type alone, or lists of equal length that do."""
    rows = value if isinstance(value[0], tuple) else [tuple(value)]
    alike = all(isinstance(row, tuple) and len(row) == len(rows[0]) for row in rows)
    return alike and all(type(number) is kind for row in rows for number in row)


def _why(value: Any) -> str:
    no_code = "and a model folder holds no code"
    again = "save X and y yourself and condition again in a program that has"
    if isinstance(value, CustomKernel):
        return f"a CustomKernel is a function, {no_code}; use built-in kernels, or {again} the function"
    if isinstance(value, (CallableMean, Basis)):
        remedy = "use Constant or Polynomial, or subtract the function from y and save the model of what is left"
        return f"the mean is a function, {no_code}; {remedy}"
    if isinstance(value, Kernel):
        return f"{type(value).__name__} is not one of cagp's own kernels, {no_code}; {again} the class"
    if callable(value) and not isinstance(value, type):
        return f"{value!r} is a function, {no_code}; use a method by its name"
    return f"{value!r} is not one of cagp's own classes; those that can be saved are {', '.join(KNOWN)}"


def decode(content: Any, path: str, arrays: Mapping[str, np.ndarray], *kinds: type[Any]) -> Any:
    """The object of one of the classes ``kinds`` (or below) that ``encode`` wrote at ``path``."""
    value = _decode(content, path, arrays)
    if not isinstance(value, kinds):
        raise SavedModelError(f"{path} must be a {kinds[0].__name__.lower()}, got {value!r}")
    return value


def _decode(content: Any, path: str, arrays: Mapping[str, np.ndarray]) -> Any:
    if isinstance(content, list):
        if len(content) > _LONG[float] and type(content[0]) is int:
            raise SavedModelError(f"{path} is a list of {len(content)} entries; cagp writes such lists as arrays")
        return tuple(_decode(each, f"{path}[{i}]", arrays) for i, each in enumerate(content))
    if not isinstance(content, dict):
        return content
    if set(content) == {"array"}:
        if content["array"] != path or path not in arrays or arrays[path].ndim not in (1, 2):
            raise SavedModelError(f"{path} refers to an array that is not in the data file")
        return tuple(tuple(each) if isinstance(each, list) else each for each in arrays[path].tolist())
    name = content.get("class")
    if name == "CrossFitted":
        return decode_regression(content, path, arrays)
    if not isinstance(name, str) or name not in KNOWN:
        raise SavedModelError(f"{path} has the unknown class {name!r}; known are {', '.join(KNOWN)}")
    known = KNOWN[name]
    # settings that are younger than the file: a field tells what it meant not to have it
    absent = {each.name: each.metadata["absent"] for each in dataclasses.fields(known) if "absent" in each.metadata}
    content = {**absent, **content}
    wanted, found = {each.name for each in dataclasses.fields(known)}, set(content) - {"class"}
    if wanted != found:
        raise SavedModelError(
            f"{path}, a {name}, must have exactly the entries {', '.join(sorted(wanted)) or 'none'}; "
            f"it has {', '.join(map(repr, sorted(found))) or 'none'}"
        )
    values = {key: _decode(each, f"{path}.{key}", arrays) for key, each in content.items() if key != "class"}
    try:
        return known(**values)
    except InputError as error:
        raise SavedModelError(f"{path}, a {name}: {error}") from error
    except (TypeError, ValueError, OverflowError) as error:
        raise SavedModelError(f"{path}, a {name}, has values that cannot be used ({error})") from error
