"""Gaussian process regression with honest error bars at any compute budget."""

import importlib.util
from typing import TYPE_CHECKING, Any

from .support.version import __version__ as __version__

if TYPE_CHECKING:  # for type checkers; when the program runs, __getattr__ finds these names on first use
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
        Pattern,
        Periodic,
        Power,
        RationalQuadratic,
        Rotated,
        Varying,
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

_HOMES = (
    "errors",
    "kernels",
    "means",
    "gram",
    "algebra.weights",
    "preconditioners",
    "solvers",
    "prior",
    "posterior",
    "model",
    "saving",
    "choosing",
)
"""The modules where the public names live."""

_MODULES = (
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
"""What ``dir(cagp)`` has beside the public names."""


def __getattr__(name: str) -> Any:
    """Everything is imported when it is first used, so that ``cagp --help`` need not wait for torch.

    Some of it needs more than the core.
    """
    if name == "CAGPRegressor":
        try:
            return importlib.import_module(".estimator", __name__).CAGPRegressor
        except ModuleNotFoundError as error:
            raise ImportError(f'CAGPRegressor needs {error.name}: pip install "cagp[sklearn]"') from error
    if name in (*__all__, "fit", "FittedModel"):
        for home in _HOMES:
            there = vars(importlib.import_module(f".{home}", __name__))
            if name in there:
                globals()[name] = there[name]
                return there[name]
    if name == "studies":
        raise ImportError("cagp.studies is now the package cagp_studies: pip install cagp-studies")
    if importlib.util.find_spec(f"{__name__}.{name}") is not None:
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES, "CAGPRegressor", "FittedModel", "fit", "__version__"])


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
    "Pattern",
    "Periodic",
    "Polynomial",
    "Posterior",
    "Power",
    "Prior",
    "RandomDirections",
    "RandomKrylov",
    "RationalQuadratic",
    "Rotated",
    "SavedModelError",
    "Solver",
    "Stationary",
    "Subset",
    "SweepsThenCG",
    "SymmetricGaussSeidel",
    "TableError",
    "Varying",
    "Weights",
    "Zero",
    "kernels",
    "load",
    "preconditioners",
    "solvers",
    "stopping",
]
