"""Gaussian process regression with honest error bars at any compute budget."""

import importlib.util
from typing import TYPE_CHECKING, Any

from .support.version import __version__ as __version__

if TYPE_CHECKING:  # for type checkers; when the program runs, __getattr__ finds these names on first use
    from . import calibration as calibration
    from . import choosing as choosing
    from . import datasets as datasets
    from . import estimator as estimator
    from . import fit_report as fit_report
    from . import hyperparameters as hyperparameters
    from . import interop as interop
    from . import kernels, preconditioners, solvers, stopping
    from . import saving as saving
    from . import shards as shards
    from . import tables as tables
    from . import transforms as transforms
    from .choosing import fit
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
    from .estimator import CAGPRegressor as CAGPRegressor
    from .kernels import (
        RBF,
        Coregionalised,
        CustomKernel,
        FractionalBrownian,
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
        Spherical,
        Standardised,
        Varying,
    )
    from .maps import write_map
    from .means import Basis, Constant, Mean, Polynomial, Zero
    from .model import Model
    from .posterior import Posterior
    from .preconditioners import Jacobi, Nystrom, SymmetricGaussSeidel
    from .prediction import Prediction
    from .prior import Prior
    from .quantities import QuantitiesModel, QuantitiesPrediction
    from .regression import Regression
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
    "regression",
    "preconditioners",
    "solvers",
    "prior",
    "prediction",
    "posterior",
    "model",
    "quantities",
    "saving",
    "choosing",
    "maps",
)
"""The modules where the public names live."""

_MODULES = (
    "calibration",
    "datasets",
    "estimator",
    "fit_report",
    "hyperparameters",
    "interop",
    "choosing",
    "saving",
    "shards",
    "tables",
    "transforms",
)
"""What ``dir(cagp)`` has beside the public names."""

_GONE = {
    "studies": "it is now the package cagp_studies, pip install cagp-studies",
    "mixtures": "every model may have several components; cagp.choosing.integrated is what mixtures.integrated was",
    "FittedModel": "cagp.fit gives a cagp.Model",
    "Gram": "it is an internal of cagp.gram",
    "Weights": "it is cagp.algebra.weights.Weights, for those who write solvers",
}
"""Names of former versions, and what became of them."""


def _found(name: str) -> Any:
    """Everything is imported when it is first used, so that ``cagp --help`` need not wait for torch.

    Some of it needs more than the core.
    """
    if name == "CAGPRegressor":
        try:
            return importlib.import_module(".estimator", __name__).CAGPRegressor
        except ModuleNotFoundError as error:
            raise ImportError(f'CAGPRegressor needs {error.name}: pip install "cagp[sklearn]"') from error
    if importlib.util.find_spec(f"{__name__}.{name}") is not None:
        return importlib.import_module(f".{name}", __name__)
    if name in __all__:
        for home in _HOMES:
            there = vars(importlib.import_module(f".{home}", __name__))
            if name in there:
                globals()[name] = there[name]
                return there[name]
    if name in _GONE:
        kind = ImportError if name == "studies" else AttributeError  # a package of its own has to be installed
        raise kind(f"cagp.{name} is gone: {_GONE[name]}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


if not TYPE_CHECKING:  # a type checker would take any name for known
    __getattr__ = _found


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES, "CAGPRegressor", "__version__"])


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
    "Coregionalised",
    "CustomKernel",
    "DataError",
    "DivergenceError",
    "FractionalBrownian",
    "GaussSeidel",
    "Geographic",
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
    "Prediction",
    "Prior",
    "QuantitiesModel",
    "QuantitiesPrediction",
    "RandomDirections",
    "RandomKrylov",
    "RationalQuadratic",
    "Regression",
    "Rotated",
    "SavedModelError",
    "Solver",
    "Spherical",
    "Standardised",
    "Stationary",
    "Subset",
    "SweepsThenCG",
    "SymmetricGaussSeidel",
    "TableError",
    "Varying",
    "Zero",
    "fit",
    "kernels",
    "load",
    "preconditioners",
    "solvers",
    "stopping",
    "write_map",
]
