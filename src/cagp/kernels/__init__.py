"""Covariance functions: one file a family."""

from .algebraic import CustomKernel, Level, Linear, Power
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
from .geographic import EARTH_RADIUS, Geographic, geographic_columns
from .radial import RBF, Matern12, Matern32, Matern52, Periodic, Radial, RationalQuadratic
from .rotated import Rotated
from .varying import Pattern, Varying

__all__ = [
    "EARTH_RADIUS",
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
    "Pattern",
    "Periodic",
    "Power",
    "Product",
    "Radial",
    "RationalQuadratic",
    "Rotated",
    "Sum",
    "Varying",
    "embedding_leaves",
    "embedding_size",
    "geographic_columns",
    "map_embedding",
    "slice_embedding",
]
