"""Preconditioners for conjugate gradients: one file each."""

from .base import Preconditioner, PreparedPreconditioner
from .identity import Identity
from .jacobi import Jacobi
from .nystrom import Nystrom
from .symmetric_gauss_seidel import SymmetricGaussSeidel

__all__ = ["Identity", "Jacobi", "Nystrom", "Preconditioner", "PreparedPreconditioner", "SymmetricGaussSeidel"]
