"""Observations that are no Gaussian process themselves, and a transform of which is one: logarithms, powers, shares."""

from .fitting import Profile, most_likely
from .kinds import KINDS, BoxCox, Log, Logit, SinhArcsinh, Transform, YeoJohnson, named
from .layer import Transformation, Transformed, TransformedModel, untransformed
from .prior import TransformedPrior

__all__ = [
    "KINDS",
    "BoxCox",
    "Log",
    "Logit",
    "Profile",
    "SinhArcsinh",
    "Transform",
    "Transformation",
    "Transformed",
    "TransformedModel",
    "TransformedPrior",
    "YeoJohnson",
    "most_likely",
    "named",
    "untransformed",
]
