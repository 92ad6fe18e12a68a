"""The Gram matrix G = k(X, X) + Σ and the covariances with test points, stored or recomputed; and who is near."""

from .entries import Tiling
from .gram import STORAGES, Cross, Gram, PortablePoints
from .slopes import Slopes, slopes_of_embedding
from .weighted import Functionals, error_covariance

__all__ = [
    "STORAGES",
    "Cross",
    "Functionals",
    "Gram",
    "PortablePoints",
    "Slopes",
    "Tiling",
    "error_covariance",
    "slopes_of_embedding",
]
