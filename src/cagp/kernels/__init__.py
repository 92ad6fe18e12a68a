"""Covariance functions: one file a family."""

from .algebraic import Level, Linear, Power
from .base import (
    Embedding,
    Kernel,
    OnColumns,
    Product,
    Sum,
    embedding_leaves,
    embedding_size,
    map_embedding,
    slice_embedding,
)
from .custom import CustomKernel
from .geographic import Geographic
from .nearness import near_leaves
from .radial import RBF, Matern12, Matern32, Matern52, Periodic, Radial, RationalQuadratic

__all__ = [
    "RBF",
    "CustomKernel",
    "Embedding",
    "Geographic",
    "Kernel",
    "Level",
    "Linear",
    "Matern12",
    "Matern32",
    "Matern52",
    "OnColumns",
    "Periodic",
    "Power",
    "Product",
    "Radial",
    "RationalQuadratic",
    "Sum",
    "embedding_leaves",
    "embedding_size",
    "map_embedding",
    "near_leaves",
    "slice_embedding",
]
