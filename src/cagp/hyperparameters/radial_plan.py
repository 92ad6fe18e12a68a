"""A kernel as flat arrays that compiled code can read: sums of products of radial profiles, and what is free."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ..kernels import Embedding, Geographic, Kernel, OnColumns, Product, Radial, Sum, embedding_leaves
from ..kernels.varying import without_amplitude
from .search_space import NOISE, Space

_KINDS = {"matern12": 0, "matern32": 1, "matern52": 2, "rbf": 3, "rational_quadratic": 4}


@dataclass(frozen=True)
class RadialPlan:
    """What stays the same while the hyperparameters change; ``compiled_terms.sum_terms`` says what the arrays mean.

    A slot is a number by which the kernel's logarithm changes: a lengthscale (of one coordinate or several), a product
    of variances, an exponent, the noise. ``effects`` (slots, free hyperparameters) is 1 where one moves the other.
    """

    term_factors: np.ndarray
    term_slot: np.ndarray
    kind: np.ndarray
    first: np.ndarray
    last: np.ndarray
    alpha_slot: np.ndarray
    coordinate_slot: np.ndarray
    noise_slot: int
    effects: np.ndarray

    @property
    def slots(self) -> int:
        """How many slots there are."""
        return len(self.effects)

    def changes(self, noise: float) -> np.ndarray:
        """d slots / d log hyperparameters (slots, q); compiled code differentiates in the noise, not its logarithm."""
        if self.noise_slot < 0:
            return self.effects
        factor = np.ones((self.slots, 1))
        factor[self.noise_slot] = noise
        return self.effects * factor

    def numbers(self, kernel: Kernel, embedding: Embedding) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For hyperparameters as they are now: coordinates (n, C), variances of terms, exponents of factors."""
        kernel, embedding, _ = without_amplitude(kernel, embedding)
        terms = kernel.radial_terms(embedding)
        assert terms is not None
        coordinates = torch.cat(embedding_leaves(embedding)).T.contiguous().numpy()
        variances = np.array([np.prod([factor.variance for factor in term]) for term in terms])
        return coordinates, variances, np.array([factor.alpha for term in terms for factor in term])


def compiled_module(name: str) -> Any:
    """The module ``name`` of compiled code, or None where numba is not installed or cannot be used."""
    try:
        return importlib.import_module(f".{name}", __package__)
    except ImportError:
        return None


def compiled_plan(space: Space, X: torch.Tensor) -> RadialPlan | None:
    """How compiled code sees the kernel; None where it cannot be used: no numba, a GPU, another kind of kernel."""
    if X.device.type != "cpu" or compiled_module("compiled_profiles") is None:
        return None
    return radial_plan(space, X)


def radial_plan(space: Space, X: torch.Tensor) -> RadialPlan | None:
    """The plan for the kernel of ``space``, without its amplitude, on points like X (n, p); None if there is none.

    That is where a part is not radial, or where a hyperparameter is free that is no lengthscale, variance or exponent.
    """
    whole = space.kernel(np.exp(space.start).tolist())
    kernel, embedding, amplitude = without_amplitude(whole, whole.embed(X[:1], X[:1].mean(dim=0)))
    parts = _radial_parts(kernel, "kernel" if amplitude is None else "kernel.kernel")
    if parts is None:
        return None
    terms = kernel.radial_terms(embedding)
    if terms is None:
        return None
    slots: dict[frozenset[str], int] = {}

    def slot(names: set[str]) -> int:
        moved = frozenset(names & free)
        return slots.setdefault(moved, len(slots)) if moved else -1

    free = set(space.names)
    begins: dict[int, tuple[Radial, str]] = {}
    coordinate_slot: list[int] = []
    for (part, path), leaf in zip(parts, embedding_leaves(embedding), strict=True):
        begins[len(coordinate_slot)] = part, path
        names = _lengthscale_names(part, path, len(leaf), free)
        if names is None:
            return None
        coordinate_slot += [slot({name}) for name in names]
    factors = [factor for term in terms for factor in term]
    term_slot = [slot({f"{begins[factor.first][1]}.variance" for factor in term}) for term in terms]
    alpha_slot = [slot({f"{begins[factor.first][1]}.alpha"}) for factor in factors]
    noise_slot = slot({NOISE})
    if set().union(*slots) != free:
        return None
    effects = np.array([float(name in names) for names in slots for name in space.names]).reshape(
        len(slots), space.size
    )
    ends = np.cumsum([0, *(len(term) for term in terms)])
    return RadialPlan(
        term_factors=ends.astype(np.int64),
        term_slot=np.array(term_slot, dtype=np.int64),
        kind=np.array([_KINDS[factor.profile] for factor in factors], dtype=np.int64),
        first=np.array([factor.first for factor in factors], dtype=np.int64),
        last=np.array([factor.first + factor.count for factor in factors], dtype=np.int64),
        alpha_slot=np.array(alpha_slot, dtype=np.int64),
        coordinate_slot=np.array(coordinate_slot, dtype=np.int64),
        noise_slot=noise_slot,
        effects=effects,
    )


def _radial_parts(kernel: Kernel, path: str) -> list[tuple[Radial, str]] | None:
    """The radial kernels inside, in the order of their embeddings, with their paths; None if anything else is there."""
    if isinstance(kernel, Radial):
        return [(kernel, path)] if kernel.profile_name in _KINDS else None
    if type(kernel) not in (Sum, Product, OnColumns, Geographic):
        return None
    found: list[tuple[Radial, str]] = []
    for name, child in kernel.children.items():
        inner = _radial_parts(child, f"{path}.{name}")
        if inner is None:
            return None
        found += inner
    return found


def _lengthscale_names(part: Radial, path: str, coordinates: int, free: set[str]) -> list[str] | None:
    """The hyperparameter that scales each coordinate, "" for none; None where a free one does something else."""
    if type(part).embed is Radial.embed:
        if isinstance(part.lengthscale, tuple):
            return [f"{path}.lengthscale[{i}]" for i in range(coordinates)]
        return [f"{path}.lengthscale"] * coordinates
    known = {f"{path}.variance", f"{path}.alpha"}
    return None if {name for name in free if name.startswith(f"{path}.")} - known else [""] * coordinates
