"""What compiled code differentiates a kernel in, and how that moves with the free hyperparameters."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import torch

from ..kernels import (
    Embedding,
    Geographic,
    Kernel,
    OnColumns,
    Product,
    Radial,
    Rotated,
    Standardised,
    Sum,
    embedding_leaves,
)
from ..kernels.plan import Plan
from ..kernels.rotated import rotation
from ..kernels.varying import without_amplitude
from .search_space import NOISE, Space

_KNOWN = (
    Sum,
    Product,
    OnColumns,
    Geographic,
    Rotated,
    Standardised,
)  # whatever these do to points, they do before lengthscales


class Slots(NamedTuple):
    """Where compiled code puts derivatives, −1 for nowhere."""

    term: np.ndarray  # in the variances of each term of the Plan
    parameter: np.ndarray  # in that of each factor
    coordinate: np.ndarray  # in the lengthscale of each, which some may share
    pair_first: np.ndarray
    pair_second: np.ndarray
    pair: np.ndarray  # in how much two coordinates lean towards each other, which is what a rotation changes
    noise: int


@dataclass(frozen=True)
class RadialPlan:
    """Held: ``effects`` (slots, free hyperparameters), 1 where one moves the other; how ``turns`` move pairs."""

    slots: Slots
    effects: np.ndarray
    turns: tuple[Turn, ...]

    @property
    def size(self) -> int:
        """How many slots there are."""
        return len(self.effects)

    def changes(self, kernel: Kernel, values: list[float]) -> np.ndarray:
        """d slots / d log hyperparameters (slots, q), at the free ``values`` (q,), with which ``kernel`` was made."""
        found = self.effects.copy()
        if self.slots.noise >= 0:
            found[self.slots.noise] *= values  # compiled code differentiates in the noise, not in its logarithm
        parts = {part.path: part.kernel for part in kernel.walk()} if self.turns else {}
        for turn in self.turns:
            turn.fill(found[len(found) - len(self.slots.pair) :], parts, values)
        return found

    @staticmethod
    def at(kernel: Kernel, embedding: Embedding) -> tuple[torch.Tensor, Plan]:
        """For hyperparameters as they are now: coordinates (C, n), and the plan of the kernel without its amplitude."""
        from ..kernels.compiled import plan_of

        kernel, embedding, _ = without_amplitude(kernel, embedding)
        terms = kernel.radial_terms(embedding)
        assert terms is not None
        return torch.cat(embedding_leaves(embedding)), plan_of(terms, slopes=True)


@dataclass(frozen=True)
class Turn:
    """How the free angles of the Rotated at ``outer`` move the coordinates of the radial kernel at ``inner``."""

    outer: str
    inner: str
    angles: tuple[float, ...]  # where it starts
    first: int  # its first pair of coordinates among all pairs
    columns: dict[int, int]  # places among the free hyperparameters, by those among its own angles

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The pairs of its coordinates."""
        return list(combinations(range(max(2, len(self.angles))), 2))

    def fill(self, effects: np.ndarray, parts: Mapping[str, Any], values: list[float]) -> None:
        """Set the derivatives of its pairs in ``effects`` (pairs, q); ``parts`` are the kernels by their paths.

        With e = D⁻¹ R x, axes R and lengthscales D, ∂e/∂θ = A e for A = D⁻¹ (∂R/∂θ Rᵀ) D, and ∂|e|²/∂θ =
        2 Σ (A_ab + A_ba) e_a e_b over pairs, of which a slot is −2 times. Equal angles may have axes the other way.
        """
        given = [values[self.columns[i]] if i in self.columns else each for i, each in enumerate(self.angles)]
        angle = torch.tensor(given if len(given) > 1 else given[0], dtype=torch.float64)
        axes = rotation(angle)
        way = (axes * rotation(torch.tensor(parts[self.outer].angle, dtype=torch.float64))).sum(dim=1).sign()
        slopes = torch.autograd.functional.jacobian(rotation, angle) * (180.0 / np.pi)  # per radian
        scales = torch.tensor(parts[self.inner].lengthscale, dtype=torch.float64).expand(len(axes))
        for own, column in self.columns.items():
            spin = slopes[..., own] if angle.ndim else slopes
            leaning = (spin @ axes.T) * scales / scales[:, None]
            for place, (a, b) in enumerate(self.pairs, self.first):
                effects[place, column] = -float((leaning[a, b] + leaning[b, a]) * way[a] * way[b])


def has_numba() -> bool:
    """Whether numba is installed and can be used."""
    try:
        importlib.import_module("numba")
    except ImportError:
        return False
    return True


def compiled_plan(space: Space, X: torch.Tensor) -> RadialPlan | None:
    """How compiled code sees the kernel of ``space`` without its amplitude, at points like X (n, p); None if not."""
    if X.device.type != "cpu" or not has_numba():
        return None
    whole = space.kernel(space.values(space.start))
    kernel, embedding, amplitude = without_amplitude(whole, whole.embed(X[:1], X[:1].mean(dim=0)))
    parts = _radial_parts(kernel, "kernel" if amplitude is None else "kernel.kernel")
    terms = None if parts is None else kernel.radial_terms(embedding)
    if parts is None or terms is None:
        return None
    slots: dict[frozenset[str], int] = {}

    def slot(names: set[str]) -> int:
        moved = frozenset(names & free)
        return slots.setdefault(moved, len(slots)) if moved else -1

    free = set(space.names)
    begins: dict[int, tuple[Radial, str]] = {}
    coordinate_slot: list[int] = []
    turns: list[Turn] = []
    leaning: list[tuple[int, int]] = []
    for (part, path, outer), leaf in zip(parts, embedding_leaves(embedding), strict=True):
        begins[len(coordinate_slot)] = part, path
        names = _lengthscale_names(part, path, len(leaf), free)
        if names is None:
            return None
        inside = {f"{outer}.angle": 0, **{f"{outer}.angle[{i}]": i for i in range(3)}} if outer else {}
        if angles := {inside[name]: place for place, name in enumerate(space.names) if name in inside}:
            own = next(each.kernel.angle for each in space.prior.kernel.walk() if each.path == outer)
            turns.append(Turn(outer, path, tuple(np.atleast_1d(own).tolist()), len(leaning), angles))
            leaning += [(len(coordinate_slot) + a, len(coordinate_slot) + b) for a, b in turns[-1].pairs]
        coordinate_slot += [slot({name}) for name in names]
    owners = [[begins[factor.first] for factor in term] for term in terms]
    term_slot = [slot({f"{path}.variance" for _, path in term}) for term in owners]
    parameter_slot = [slot({f"{path}.{part.profile_parameter}"}) for term in owners for part, path in term]
    noise_slot = slot({NOISE})
    turned = {space.names[column] for turn in turns for column in turn.columns.values()}
    if turned.union(*slots) != free:
        return None
    effects = np.zeros((len(slots) + len(leaning), space.size))
    for place, moved in enumerate(slots):
        effects[place] = [name in moved for name in space.names]
    one, other = np.array(leaning, dtype=np.int64).reshape(-1, 2).T.copy()
    pairs = np.arange(len(slots), len(effects), dtype=np.int64)
    term, factor, coordinate = (np.array(s, dtype=np.int64) for s in (term_slot, parameter_slot, coordinate_slot))
    return RadialPlan(Slots(term, factor, coordinate, one, other, pairs, noise_slot), effects, tuple(turns))


def _radial_parts(kernel: Kernel, path: str) -> list[tuple[Radial, str, str]] | None:
    """The radial kernels inside, their paths, and those of the Rotated around, or ""; None where other parts are."""
    found, outer = [], ""
    for part in kernel.walk(path=path):
        if not part.path.startswith(f"{outer}."):
            outer = ""
        if isinstance(part.kernel, Radial):
            if outer and type(part.kernel).embed is not Radial.embed:
                return None
            found.append((part.kernel, part.path, outer))
        elif type(part.kernel) not in _KNOWN:
            return None
        elif type(part.kernel) is Rotated:
            outer = part.path
    return found


def _lengthscale_names(part: Radial, path: str, coordinates: int, free: set[str]) -> list[str] | None:
    """The hyperparameter that scales each coordinate, "" for none; None where a free one does something else."""
    if type(part).embed is Radial.embed:
        if isinstance(part.lengthscale, tuple):
            return [f"{path}.lengthscale[{i}]" for i in range(coordinates)]
        return [f"{path}.lengthscale"] * coordinates
    known = {f"{path}.variance", f"{path}.{part.profile_parameter}"}
    return None if {name for name in free if name.startswith(f"{path}.")} - known else [""] * coordinates
