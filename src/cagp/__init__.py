"""Gaussian process regression with honest error bars at any compute budget."""

import importlib
from types import ModuleType

from . import preconditioners, solvers, stopping
from .errors import DivergenceError, InputError, InputTypeError, MemoryBudgetError, NotPositiveDefiniteError
from .gram import Gram
from .kernels import (
    RBF,
    CustomKernel,
    Geographic,
    Kernel,
    Matern12,
    Matern32,
    Matern52,
    Periodic,
    RationalQuadratic,
)
from .means import Constant, Mean, Polynomial, Zero
from .model import Model
from .posterior import Posterior
from .preconditioners import Jacobi, Nystrom, SymmetricGaussSeidel
from .prior import Prior
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

__version__ = "0.1.0"

_LAZY = ("calibration", "datasets", "fit_report", "hyperparameters", "interop", "studies")


def __getattr__(name: str) -> ModuleType:
    """``cagp.calibration`` and the like are imported when first used: some need more than the core."""
    if name in _LAZY:
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_LAZY, "__version__"])


__all__ = [
    "RBF",
    "Auto",
    "CalibratedCG",
    "Chain",
    "Cholesky",
    "ConjugateGradient",
    "Constant",
    "CustomKernel",
    "DivergenceError",
    "GaussSeidel",
    "Geographic",
    "Gram",
    "InputError",
    "InputTypeError",
    "Jacobi",
    "Kernel",
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
    "Prior",
    "RandomDirections",
    "RandomKrylov",
    "RationalQuadratic",
    "Solver",
    "Stationary",
    "Subset",
    "SweepsThenCG",
    "SymmetricGaussSeidel",
    "Zero",
    "preconditioners",
    "solvers",
    "stopping",
]
