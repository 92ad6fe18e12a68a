"""Several models that predict together: where data cannot tell which is right, all of them count."""

from .fitted import FittedModel, Story, Tried
from .integrated import conditioned, integrated
from .model import Blend, MixtureModel, before_recalibration, is_recalibrated
from .prediction import Mixture

__all__ = [
    "Blend",
    "FittedModel",
    "Mixture",
    "MixtureModel",
    "Story",
    "Tried",
    "before_recalibration",
    "conditioned",
    "integrated",
    "is_recalibrated",
]
