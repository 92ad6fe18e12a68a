"""Maximum-likelihood hyperparameters: what ``Prior.fit`` does, with everything that it found out."""

from .evaluate import log_likelihood
from .fitting import fit
from .optimise import TraceStep
from .result import FitResult, FitWarning

__all__ = ["FitResult", "FitWarning", "TraceStep", "fit", "log_likelihood"]
