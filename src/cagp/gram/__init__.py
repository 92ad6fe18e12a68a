"""The Gram matrix G = k(X, X) + Σ and the covariances with test points, stored or recomputed; and who is near."""

from .cross_covariance import Cross
from .gram import STORAGES, Gram

__all__ = ["STORAGES", "Cross", "Gram"]
