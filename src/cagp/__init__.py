"""Gaussian process regression with honest error bars at any compute budget."""

import importlib
from typing import Any

from . import kernels, preconditioners, solvers, stopping
from .algebra.weights import Weights
from .errors import (
    CagpError,
    DataError,
    DivergenceError,
    InputError,
    InputTypeError,
    MemoryBudgetError,
    NotPositiveDefiniteError,
    SavedModelError,
    TableError,
)
from .gram import Gram
from .kernels import (
    RBF,
    CustomKernel,
    Geographic,
    Kernel,
    Level,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    Periodic,
    Power,
    RationalQuadratic,
)
from .means import Basis, Constant, Mean, Polynomial, Zero
from .model import Model
from .posterior import Posterior
from .preconditioners import Jacobi, Nystrom, SymmetricGaussSeidel
from .prior import Prior
from .saving import load
from .solvers import (
    Auto,
    CalibratedCG,
    Chain,
    Cholesky,
    ConjugateGradient,
    GaussSeidel,
    NearestNeighbours,
    RandomDirections,
    RandomKrylov,
    Solver,
    Stationary,
    Subset,
    SweepsThenCG,
)
from .support.version import __version__ as __version__

_LAZY = (
    "calibration",
    "datasets",
    "estimator",
    "fit_report",
    "hyperparameters",
    "interop",
    "mixtures",
    "saving",
    "tables",
    "transforms",
)


def __getattr__(name: str) -> Any:
    """``cagp.calibration`` and the like are imported when first used: some need more than the core."""
    if name == "CAGPRegressor":
        try:
            return importlib.import_module(".estimator", __name__).CAGPRegressor
        except ModuleNotFoundError as error:
            raise ImportError(f'CAGPRegressor needs {error.name}: pip install "cagp[sklearn]"') from error
    if name in ("fit", "FittedModel"):
        return getattr(importlib.import_module(".choosing", __name__), name)
    if name in _LAZY:
        return importlib.import_module(f".{name}", __name__)
    if name == "studies":
        raise ImportError("cagp.studies is now the package cagp_studies: pip install cagp-studies")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_LAZY, "CAGPRegressor", "FittedModel", "fit", "__version__"])


__all__ = [
    "RBF",
    "Auto",
    "Basis",
    "CagpError",
    "CalibratedCG",
    "Chain",
    "Cholesky",
    "ConjugateGradient",
    "Constant",
    "CustomKernel",
    "DataError",
    "DivergenceError",
    "GaussSeidel",
    "Geographic",
    "Gram",
    "InputError",
    "InputTypeError",
    "Jacobi",
    "Kernel",
    "Level",
    "Linear",
    "Matern12",
    "Matern32",
    "Matern52",
    "Mean",
    "MemoryBudgetError",
    "Model",
    "NearestNeighbours",
    "NotPositiveDefiniteError",
    "Nystrom",
    "Periodic",
    "Polynomial",
    "Posterior",
    "Power",
    "Prior",
    "RandomDirections",
    "RandomKrylov",
    "RationalQuadratic",
    "SavedModelError",
    "Solver",
    "Stationary",
    "Subset",
    "SweepsThenCG",
    "SymmetricGaussSeidel",
    "TableError",
    "Weights",
    "Zero",
    "kernels",
    "load",
    "preconditioners",
    "solvers",
    "stopping",
]
