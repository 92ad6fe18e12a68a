"""Fused GPU kernels: distance → kernel → product in one go, nothing of size d × d in memory."""

from .backend import Fused, FusedEntries, fused_entries
from .functions import installed

__all__ = ["Fused", "FusedEntries", "fused_entries", "installed"]
