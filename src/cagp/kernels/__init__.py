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
from .brownian import FractionalBrownian
from .coregionalised import Coregionalised, NoiseByQuantity
from .geographic import EARTH_RADIUS, Geographic, geographic_columns
from .radial import RBF, Matern12, Matern32, Matern52, Periodic, Radial, RationalQuadratic, Spherical
from .rotated import Rotated
from .standardised import Standardised
from .varying import Pattern, Varying

__all__ = [
    "EARTH_RADIUS",
    "RBF",
    "Coregionalised",
    "CustomKernel",
    "Embedding",
    "FractionalBrownian",
    "Geographic",
    "Kernel",
    "Level",
    "Linear",
    "Matern12",
    "Matern32",
    "Matern52",
    "NoiseByQuantity",
    "OnColumns",
    "Pattern",
    "Periodic",
    "Power",
    "Product",
    "Radial",
    "RationalQuadratic",
    "Rotated",
    "Spherical",
    "Standardised",
    "Sum",
    "Varying",
    "embedding_leaves",
    "embedding_size",
    "geographic_columns",
    "map_embedding",
    "slice_embedding",
]
