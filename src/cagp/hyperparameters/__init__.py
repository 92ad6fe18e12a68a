"""Hyperparameters: the most likely ones, which is what ``Prior.fit`` finds, and their posterior."""

from .fitting import fit, log_likelihood
from .hyperpriors import Around, Hyperpriors, LongRange, SmallDeviation
from .optimise import TraceStep
from .patterns import fit_patterns
from .repeated_rows import AveragedRows, averaged_rows
from .result import FitResult, FitWarning
from .terms import GivenTerms
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
    "log_likelihood",
    "posterior",
]
