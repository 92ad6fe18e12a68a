"""A kernel as flat arrays that compiled code can read: sums of products of radial profiles, and what is free."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import torch

from ..kernels import Embedding, Geographic, Kernel, OnColumns, Product, Radial, Rotated, Sum, embedding_leaves
from ..kernels.rotated import rotation
from ..kernels.varying import without_amplitude
from .search_space import NOISE, Space

_KINDS = {"matern12": 0, "matern32": 1, "matern52": 2, "rbf": 3, "rational_quadratic": 4}


@dataclass(frozen=True)
class RadialPlan:
    """What stays the same while the hyperparameters change; ``compiled_terms.sum_terms`` says what the arrays mean.

    A slot is a number by which the kernel's logarithm changes: a lengthscale (of one coordinate or several), a product
    of variances, an exponent, the noise, or how much a pair of coordinates leans towards each other, which is what a
    rotation changes. ``effects`` (slots, free hyperparameters) is 1 where one moves the other; ``turns`` say how angles
    move those of pairs.
    """

    term_factors: np.ndarray
    term_slot: np.ndarray
    kind: np.ndarray
    first: np.ndarray
    last: np.ndarray
    alpha_slot: np.ndarray
    coordinate_slot: np.ndarray
    pair_first: np.ndarray
    pair_second: np.ndarray
    pair_slot: np.ndarray
    noise_slot: int
    effects: np.ndarray
    turns: tuple[Turn, ...]

    @property
    def slots(self) -> int:
        """How many slots there are."""
        return len(self.effects)

    def changes(self, noise: float, kernel: Kernel, values: list[float]) -> np.ndarray:
        """d slots / d log hyperparameters (slots, q), at the free ``values`` (q,), with which ``kernel`` was made.

        Compiled code differentiates in the noise, not in its logarithm.
        """
        if self.noise_slot < 0 and not self.turns:
            return self.effects
        found = self.effects.copy()
        if self.noise_slot >= 0:
            found[self.noise_slot] *= noise
        parts = {part.path: part.kernel for part in kernel.walk()} if self.turns else {}
        for turn in self.turns:
            turn.fill(found, parts, values)
        return found

    def numbers(self, kernel: Kernel, embedding: Embedding) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For hyperparameters as they are now: coordinates (n, C), variances of terms, exponents of factors."""
        kernel, embedding, _ = without_amplitude(kernel, embedding)
        terms = kernel.radial_terms(embedding)
        assert terms is not None
        coordinates = torch.cat(embedding_leaves(embedding)).T.contiguous().numpy()
        variances = np.array([np.prod([factor.variance for factor in term]) for term in terms])
        return coordinates, variances, np.array([factor.alpha for term in terms for factor in term])


@dataclass(frozen=True)
class Turn:
    """How the free angles of the Rotated at ``outer`` move the coordinates of the radial kernel at ``inner``.

    ``angles`` are those that it starts with, ``pairs`` the slots of pairs (a, b) of its coordinates, ``columns`` the
    places of free angles among the free hyperparameters, by their places among its own.
    """

    outer: str
    inner: str
    angles: tuple[float, ...]
    pairs: dict[tuple[int, int], int]
    columns: dict[int, int]

    def fill(self, effects: np.ndarray, parts: Mapping[str, Any], values: list[float]) -> None:
        """Set the derivatives of the pairs' slots in ``effects`` (slots, q); ``parts`` are the kernels by their paths.

        With e = D⁻¹ R x, where R are the axes and D the lengthscales, ∂e/∂θ = A e for A = D⁻¹ (∂R/∂θ Rᵀ) D, so that
        ∂|e|²/∂θ = 2 Σ (A_ab + A_ba) e_a e_b over pairs; what compiled code has for a slot is −2 times that. The kernel
        has an equal of these angles in the half circle, whose axes may point the other way.
        """
        given = [values[self.columns[i]] if i in self.columns else each for i, each in enumerate(self.angles)]
        angle = torch.tensor(given if len(given) > 1 else given[0], dtype=torch.float64)
        axes = rotation(angle)
        way = (axes * rotation(torch.tensor(parts[self.outer].angle, dtype=torch.float64))).sum(dim=1).sign()
        slopes = torch.autograd.functional.jacobian(rotation, angle) * (180.0 / np.pi)  # per radian
        scales = torch.tensor(parts[self.inner].lengthscale, dtype=torch.float64).expand(len(axes))
        for place, column in self.columns.items():
            spin = slopes[..., place] if angle.ndim else slopes
            leaning = (spin @ axes.T) * scales / scales[:, None]
            for (a, b), slot in self.pairs.items():
                effects[slot, column] = -float((leaning[a, b] + leaning[b, a]) * way[a] * way[b])


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
    whole = space.kernel(space.values(space.start))
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
    turned: list[_Turned] = []
    for (part, path, outer), leaf in zip(parts, embedding_leaves(embedding), strict=True):
        begins[len(coordinate_slot)] = part, path
        names = _lengthscale_names(part, path, len(leaf), free)
        if names is None:
            return None
        if outer and (angles := {name for name in free if name.startswith(f"{outer}.angle")}):
            own = next(each.kernel.angle for each in space.prior.kernel.walk() if each.path == outer)
            turned.append(_Turned(outer, path, tuple(np.atleast_1d(own).tolist()), len(coordinate_slot), angles))
        coordinate_slot += [slot({name}) for name in names]
    factors = [factor for term in terms for factor in term]
    term_slot = [slot({f"{begins[factor.first][1]}.variance" for factor in term}) for term in terms]
    alpha_slot = [slot({f"{begins[factor.first][1]}.alpha"}) for factor in factors]
    noise_slot = slot({NOISE})
    leaning: list[tuple[int, int, int]] = []
    turns = tuple(each.turn(space.names, leaning, len(slots)) for each in turned)
    if set().union(*slots, *(each.angles for each in turned)) != free:
        return None
    effects = np.array([float(name in names) for names in slots for name in space.names]).reshape(
        len(slots), space.size
    )
    effects = np.concatenate([effects, np.zeros((len(leaning), space.size))])
    pairs = np.array(leaning, dtype=np.int64).reshape(-1, 3)
    ends = np.cumsum([0, *(len(term) for term in terms)])
    return RadialPlan(
        term_factors=ends.astype(np.int64),
        term_slot=np.array(term_slot, dtype=np.int64),
        kind=np.array([_KINDS[factor.profile] for factor in factors], dtype=np.int64),
        first=np.array([factor.first for factor in factors], dtype=np.int64),
        last=np.array([factor.first + factor.count for factor in factors], dtype=np.int64),
        alpha_slot=np.array(alpha_slot, dtype=np.int64),
        coordinate_slot=np.array(coordinate_slot, dtype=np.int64),
        pair_first=np.ascontiguousarray(pairs[:, 0]),
        pair_second=np.ascontiguousarray(pairs[:, 1]),
        pair_slot=np.ascontiguousarray(pairs[:, 2]),
        noise_slot=noise_slot,
        effects=effects,
        turns=turns,
    )


@dataclass(frozen=True)
class _Turned:
    """A radial kernel at ``inner`` with coordinates from ``first`` on, inside the Rotated at ``outer``."""

    outer: str
    inner: str
    start: tuple[float, ...]
    first: int
    angles: set[str]

    def turn(self, names: tuple[str, ...], leaning: list[tuple[int, int, int]], slots: int) -> Turn:
        """Its turn; ``leaning`` collects the pairs of coordinates with their slots, which come after ``slots``."""
        pairs, columns = {}, max(2, len(self.start))
        for a, b in combinations(range(columns), 2):
            pairs[a, b] = slots + len(leaning)
            leaning.append((self.first + a, self.first + b, pairs[a, b]))
        own = [f"{self.outer}.angle{place}" for place in ([""] if columns == 2 else ["[0]", "[1]", "[2]"])]
        free = {i: names.index(name) for i, name in enumerate(own) if name in names}
        return Turn(self.outer, self.inner, self.start, pairs, free)


def _radial_parts(kernel: Kernel, path: str, outer: str = "") -> list[tuple[Radial, str, str]] | None:
    """The radial kernels inside, in the order of their embeddings, with their paths; None if anything else is there.

    ``outer`` is the path of the Rotated that they are inside of, "" for none.
    """
    if isinstance(kernel, Radial):
        known = kernel.profile_name in _KINDS and (not outer or type(kernel).embed is Radial.embed)
        return [(kernel, path, outer)] if known else None
    if type(kernel) not in (Sum, Product, OnColumns, Geographic, Rotated):
        return None
    found: list[tuple[Radial, str, str]] = []
    for name, child in kernel.children.items():
        inner = _radial_parts(child, f"{path}.{name}", path if type(kernel) is Rotated else outer)
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
