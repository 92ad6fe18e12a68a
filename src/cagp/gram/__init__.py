"""The Gram matrix G = k(X, X) + Σ and the covariances with test points, stored or recomputed; and who is near."""

from .entries import Tiling
from .gram import STORAGES, Cross, Gram, PortablePoints
from .weighted import Functionals, error_covariance

__all__ = ["STORAGES", "Cross", "Functionals", "Gram", "PortablePoints", "Tiling", "error_covariance"]
