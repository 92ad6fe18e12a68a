"""Where the centres of a pattern lie: spread like the data, in the coordinates of the kernel."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from scipy.spatial import KDTree

from ..errors import InputError
from ..kernels import RBF, Kernel, Periodic, Product, Radial, Sum, embedding_leaves

_PER_CENTRE = 20
"""So many observations are needed for each centre."""

_LOOKED_AT = 20_000
"""Centres are found among so many points, drawn at random."""

_ROUNDS = 10
"""Of Lloyd's algorithm: the centres need only be spread like the data."""

_WIDTH = 0.7
"""Of a bump, as a share of the distance between neighbouring centres."""


def spread_centres(kernel: Kernel, X: torch.Tensor, wanted: int, rng: np.random.Generator) -> tuple[Kernel, np.ndarray]:
    """What is near, and which of the points X (n, p) are centres: spread like these in the kernel's coordinates."""
    near = nearness(kernel)
    if near is None:
        raise InputError(f"a pattern needs a kernel that falls with distance, got {kernel!r}")
    rows = rng.permutation(len(X))[:_LOOKED_AT]
    some = X[torch.from_numpy(rows).to(X.device)]
    points = torch.cat(embedding_leaves(near.embed(some, X.mean(dim=0)))).T.cpu().numpy()
    middles = points[: max(1, min(wanted, len(X) // _PER_CENTRE))]
    for _ in range(_ROUNDS):
        _, label = KDTree(middles).query(points)
        counts = np.bincount(label, minlength=len(middles))
        sums = [np.bincount(label, weights=column, minlength=len(middles)) for column in points.T]
        middles = np.where(counts[:, None] > 0, np.stack(sums, axis=1) / np.maximum(counts, 1)[:, None], middles)
    chosen = np.unique(KDTree(points).query(middles)[1])
    apart = 0.0 if len(chosen) < 2 else float(np.median(KDTree(points[chosen]).query(points[chosen], k=2)[0][:, 1]))
    if not apart > 0:
        raise InputError(
            f"{len(X)} observations are too few for a pattern, which needs {2 * _PER_CENTRE} at different places"
        )
    return _widened(near, _WIDTH * apart), rows[chosen]


def nearness(kernel: Kernel) -> Kernel | None:
    """The kernel as one that only says what is near: that of its strongest term, with bumps in place of its profile."""
    if isinstance(kernel, Periodic):
        return replace(kernel, variance=1.0)
    if isinstance(kernel, Radial):
        return RBF(kernel.lengthscale, 1.0)
    children = {name: each for name, child in kernel.children.items() if (each := nearness(child)) is not None}
    if not children:
        return None
    if isinstance(kernel, Sum):
        return max(children.items(), key=lambda each: _variance(kernel.children[each[0]]))[1]
    if isinstance(kernel, Product):
        return Product(tuple(children.values()))
    return kernel.with_children(children)


def _variance(kernel: Kernel) -> float:
    """The product of all variances inside: that of a term of a sum."""
    own = kernel.hyperparameter_values.get("variance", 1.0)
    return float(own) * float(np.prod([_variance(child) for child in kernel.children.values()]))


def _widened(kernel: Kernel, factor: float) -> Kernel:
    """The kernel with all its lengthscales times ``factor``."""

    def take(name: str, value: float) -> float:
        return value * factor if ".lengthscale" in name else value

    return kernel.with_hyperparameters(take)
