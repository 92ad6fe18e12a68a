"""Several models that predict together: where data cannot tell which is right, all of them count."""

from .integrated import conditioned, integrated
from .model import MixtureModel
from .prediction import Mixture

__all__ = ["Mixture", "MixtureModel", "conditioned", "integrated"]
