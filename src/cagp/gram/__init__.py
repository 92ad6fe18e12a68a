"""The Gram matrix G = k(X, X) + Σ and the covariances with test points, stored or recomputed; and who is near."""

from .entries import Tiling
from .functionals import Functionals
from .gram import STORAGES, Cross, Gram, PortablePoints

__all__ = ["STORAGES", "Cross", "Functionals", "Gram", "PortablePoints", "Tiling"]
