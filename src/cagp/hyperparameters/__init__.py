"""Maximum-likelihood hyperparameters: what ``Prior.fit`` does, with everything that it found out."""

from .fitting import fit, log_likelihood
from .optimise import TraceStep
from .result import FitResult, FitWarning

__all__ = ["FitResult", "FitWarning", "TraceStep", "fit", "log_likelihood"]
