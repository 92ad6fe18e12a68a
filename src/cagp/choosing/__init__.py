"""A fit that needs no expert: kernel, trend and error bars chosen by what they predict."""

from ..mixtures import FittedModel
from .front_door import fit

__all__ = ["FittedModel", "fit"]
