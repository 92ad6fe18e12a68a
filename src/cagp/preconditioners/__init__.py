"""Preconditioners for conjugate gradients."""

from .base import Identity, Jacobi, Preconditioner, PreparedPreconditioner, SymmetricGaussSeidel
from .nystrom import Nystrom

__all__ = ["Identity", "Jacobi", "Nystrom", "Preconditioner", "PreparedPreconditioner", "SymmetricGaussSeidel"]
