"""Maximum-likelihood hyperparameters: what ``Prior.fit`` does, with everything that it found out."""

from .fitting import fit, log_likelihood
from .optimise import TraceStep
from .result import FitResult, FitWarning
from .terms import GivenTerms

__all__ = ["FitResult", "FitWarning", "GivenTerms", "TraceStep", "fit", "log_likelihood"]
