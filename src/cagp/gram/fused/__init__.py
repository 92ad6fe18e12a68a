"""Fused GPU kernels: distance → kernel → product in one go, nothing of size d × d in memory."""

from .functions import installed
from .gram import FusedGram, RunningProduct, fused

__all__ = ["FusedGram", "RunningProduct", "fused", "installed"]
