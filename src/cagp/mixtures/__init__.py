"""Several models that predict together: where data cannot tell which is right, all of them count."""

from .model import MixtureModel
from .prediction import Mixture

__all__ = ["Mixture", "MixtureModel"]
