"""Hyperparameters: the most likely ones, which is what ``Prior.fit`` finds, and their posterior."""

from .fitting import fit, log_likelihood
from .hyperpriors import Around, Hyperpriors, LongRange, SmallDeviation
from .observations import AveragedRows, averaged_rows
from .optimise import TraceStep
from .patterns import fit_patterns
from .result import FitResult, FitWarning
from .terms import GivenTerms
from .transform_fitting import fit_transformed
from .uncertainty import HyperparameterPosterior, posterior

__all__ = [
    "Around",
    "AveragedRows",
    "FitResult",
    "FitWarning",
    "GivenTerms",
    "HyperparameterPosterior",
    "Hyperpriors",
    "LongRange",
    "SmallDeviation",
    "TraceStep",
    "averaged_rows",
    "fit",
    "fit_patterns",
    "fit_transformed",
    "log_likelihood",
    "posterior",
]
