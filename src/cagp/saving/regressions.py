"""Trends that regressors of scikit-learn have learned: the data and the settings to fit them again, never code.

A regressor is ``{"sklearn": "sklearn.ensemble.HistGradientBoostingRegressor", "parameters": {…}}``: a class that one of
the packages below offers, and parameters that are plain values, or again such objects. Nothing else comes back.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np

from ..errors import InputError, SavedModelError
from ..regression import CrossFitted
from ..support.advice import optional

_PACKAGES = (
    "compose",
    "cross_decomposition",
    "ensemble",
    "gaussian_process",
    "kernel_ridge",
    "linear_model",
    "neighbors",
    "neural_network",
    "pipeline",
    "preprocessing",
    "svm",
    "tree",
)
_NEVER = "memory"  # a cache on disk, which joblib would read with pickle
_ARRAYS = {"X": 2, "y": 1, "fold": 1, "values": 1}


def encode_regression(mean: CrossFitted, path: str, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """The trend as JSON; its data go to ``arrays`` under a name of their own, once for all priors that share it."""
    name, regressor = f"trend.{mean.digest}", _encoded(mean.regressor, f"{path}.regressor")
    own = {"X": mean.X, "y": mean.y, "fold": mean.fold.astype(np.int64), "values": mean.values}
    arrays |= {f"{name}.{key}": np.ascontiguousarray(each) for key, each in own.items()}
    made_by = mean.made_by or f"scikit-learn {import_module('sklearn').__version__}"
    return {"class": "CrossFitted", "regressor": regressor, "made_by": made_by, "arrays": name}


def decode_regression(content: Mapping[str, Any], path: str, arrays: Mapping[str, np.ndarray]) -> CrossFitted:
    """What ``encode_regression`` wrote; it is fitted again when it is first asked for another place than its own."""
    if set(content) != {"class", "regressor", "made_by", "arrays"} or not isinstance(content["made_by"], str):
        raise SavedModelError(f"{path}, a CrossFitted, must have exactly the entries arrays, made_by, regressor")
    found = []
    for key, dimensions in _ARRAYS.items():
        each, wanted = arrays.get(f"{content['arrays']}.{key}"), np.int64 if key == "fold" else np.float64
        if each is None or each.ndim != dimensions or each.dtype != wanted or not np.isfinite(each).all():
            raise SavedModelError(f"{path} has no array {key} of finite numbers, in {dimensions} dimensions")
        found.append(each)
    X, y, fold, values = found
    if not len(X) == len(y) == len(fold) == len(values) or not X.shape[1] or len(np.unique(fold)) < 2:
        raise SavedModelError(f"{path}: the data of the trend do not go together")
    regressor = _decoded(content["regressor"], f"{path}.regressor")
    return CrossFitted(regressor, X, y, fold, values, content["made_by"])


def _encoded(value: Any, path: str) -> Any:
    if value is None or isinstance(value, (bool, int, str)) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, (list, tuple)):
        each = [_encoded(one, f"{path}[{i}]") for i, one in enumerate(value)]
        return each if isinstance(value, list) else {"tuple": each}
    module = ".".join(type(value).__module__.split(".")[:2])
    if (known := _known(f"{module}.{type(value).__name__}")) is not type(value):
        raise InputError(
            f"{path} cannot be saved: {value!r} is no estimator of scikit-learn's {', '.join(_PACKAGES)}, no number, "
            "text or list of these, and a model folder holds no code; use such a regressor, or keep X and y and fit "
            "again"
        )
    parameters = value.get_params(deep=False)
    if parameters.get(_NEVER) is not None:
        raise InputError(f"{path} cannot be saved with {_NEVER}={parameters[_NEVER]!r}, a cache; leave it out")
    content = {name: _encoded(each, f"{path}.{name}") for name, each in parameters.items()}
    return {"sklearn": f"{module}.{known.__name__}", "parameters": content}


def _decoded(content: Any, path: str) -> Any:
    if isinstance(content, list):
        return [_decoded(each, f"{path}[{i}]") for i, each in enumerate(content)]
    if not isinstance(content, dict):
        return content
    if set(content) == {"tuple"} and isinstance(content["tuple"], list):
        return tuple(_decoded(content["tuple"], path))
    if set(content) != {"sklearn", "parameters"} or not isinstance(content["parameters"], dict):
        raise SavedModelError(f"{path} must have exactly the entries parameters, sklearn")
    known, parameters = _known(content["sklearn"]), content["parameters"]
    if known is None or parameters.get(_NEVER) is not None:
        raise SavedModelError(f"{path} is {content['sklearn']!r}, which no model folder holds")
    try:
        return known(**{name: _decoded(each, f"{path}.{name}") for name, each in parameters.items()})
    except TypeError as error:  # a parameter that this version does not have
        raise SavedModelError(f"{path}, a {content['sklearn']}: {error}") from error


def _known(name: Any) -> type[Any] | None:
    """The estimator of scikit-learn of that name, such as "sklearn.ensemble.RandomForestRegressor"; None for others."""
    package, _, own = str(name).removeprefix("sklearn.").partition(".")
    if not str(name).startswith("sklearn.") or package not in _PACKAGES:
        return None
    base = optional("sklearn.base", "a model with a regressor as its trend", "sklearn").BaseEstimator
    module = import_module(f"sklearn.{package}")
    found = getattr(module, own, None) if own in module.__all__ else None
    return found if isinstance(found, type) and issubclass(found, base) else None
