"""From a lengthscale for each column to turned axes: what a rotation promises, and where its fit starts.

Lengthscales and a rotation are any metric |e|² = dᵀ P d; without the rotation log P is diagonal. Near the best diagonal
one the likelihood is nearly quadratic in each entry beside it: three values say where the optimum is, and its gain.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import torch

from ..kernels import Kernel, OnColumns, Periodic, Product, Radial, Rotated, Sum
from ..kernels.rotated import angles_of, rotation
from ..prior import Prior

_STEP = 0.3  # of the entries of log P, for the three values
_FURTHEST = 1.5  # how far the fit starts from the diagonal at the most


def turned(kernel: Kernel, path: str = "kernel") -> tuple[Kernel, tuple[str, ...]]:
    """The kernel with Rotated, by zero, around what has a lengthscale for each of two or three columns; its paths."""
    if _on_the_same_columns(kernel):
        size = max(np.size(part.kernel.lengthscale) for part in kernel.walk() if isinstance(part.kernel, Radial))
        return (Rotated(kernel, 0.0 if size == 2 else (0.0,) * 3), (path,)) if size in (2, 3) else (kernel, ())
    if not isinstance(kernel, (Sum, Product, OnColumns)):
        return kernel, ()
    inside = {name: turned(child, f"{path}.{name}") for name, child in kernel.children.items()}
    changed = kernel.with_children({name: each for name, (each, _) in inside.items()})
    return changed, tuple(where for _, places in inside.values() for where in places)


def _on_the_same_columns(kernel: Kernel) -> bool:
    if isinstance(kernel, (Sum, Product)):
        return all(map(_on_the_same_columns, kernel.kernels))
    return isinstance(kernel, Radial) and not isinstance(kernel, Periodic)


@dataclass(frozen=True)
class Promise:
    """Where a fit with turned axes starts, by how much it raises the log-likelihood, about, and by how many numbers."""

    prior: Prior
    gain: float
    freedom: int


def promise(prior: Prior, log_likelihoods: Callable[[Sequence[Prior]], np.ndarray]) -> Promise | None:
    """What turning the axes of a fitted ``prior`` promises, by ``log_likelihoods``; None where none could be turned."""
    kernel, places = turned(prior.kernel)
    if not places:
        return None
    parts = {part.path: part.kernel for part in kernel.walk()}
    columns = {place: 2 if np.ndim(parts[place].angle) == 0 else 3 for place in places}
    pairs = [(place, a, b) for place in places for a, b in combinations(range(columns[place]), 2)]
    begin = replace(prior, kernel=kernel)

    def leaning(by: Mapping[tuple[str, int, int], float]) -> Prior:
        return replace(begin, kernel=_leaning(kernel, "kernel", by))

    steps = [leaning({pair: step}) for pair in pairs for step in (-_STEP, _STEP)]
    here, *found = log_likelihoods([begin, *steps]).tolist()
    best, gain = {}, 0.0
    for pair, below, above in zip(pairs, found[::2], found[1::2], strict=True):
        slope, bend = (above - below) / (2 * _STEP), (2 * here - above - below) / _STEP**2
        if not np.isfinite([slope, bend]).all():
            continue
        reach = slope / bend if bend > 0 else np.sign(slope) * _FURTHEST
        best[pair] = float(np.clip(reach, -_FURTHEST, _FURTHEST))
        gain += float(slope * best[pair] - 0.5 * max(bend, 0.0) * best[pair] ** 2)
    return Promise(leaning(best), gain, len(pairs))


def _leaning(kernel: Kernel, path: str, by: Mapping[tuple[str, int, int], float]) -> Kernel:
    """The kernel with the entries ``by`` (place of the Rotated, a, b) beside the diagonal of log P."""
    if not isinstance(kernel, Rotated):
        children = {name: _leaning(child, f"{path}.{name}", by) for name, child in kernel.children.items()}
        return kernel.with_children(children) if children else kernel
    axes = rotation(torch.tensor(kernel.angle, dtype=torch.float64)).numpy()
    beside = np.zeros((len(axes), len(axes)))
    for (place, a, b), entry in by.items():
        if place == path:
            beside[a, b] = beside[b, a] = entry
    inside = [part.kernel for part in kernel.kernel.walk() if isinstance(part.kernel, Radial)]
    main = max((part for part in inside if np.ndim(part.lengthscale)), key=lambda part: part.variance)

    def metric(part: Radial) -> np.ndarray:
        scales = np.broadcast_to(part.lengthscale, len(axes))
        return (axes.T * (-2 * np.log(scales))) @ axes + beside

    _, vectors = np.linalg.eigh(metric(main))  # the smallest entry of P, the longest axis, first
    new = vectors.T

    def change(part: Radial) -> Radial:
        scales = np.exp(-0.5 * np.einsum("ia,ab,ib->i", new, metric(part), new))
        return replace(part, lengthscale=tuple(scales.tolist()))

    return Rotated(map_radial(kernel.kernel, change), angles_of(new))


def map_radial(kernel: Kernel, change: Callable[[Radial], Radial]) -> Kernel:
    """The kernel with all radial kernels inside it changed."""
    if isinstance(kernel, Radial):
        return change(kernel)
    children = {name: map_radial(child, change) for name, child in kernel.children.items()}
    return kernel.with_children(children) if children else kernel
