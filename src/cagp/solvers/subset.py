"""The paper's subset GP: the exact posterior given some of the training points."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from ..algebra.operations import Operations
from ..algebra.weights import Weights, zero_weights
from ..errors import InputError
from ..gram import Cross, Gram
from ..support.memory import require
from ..support.positive_definite import positive_definite_factor
from ..support.validation import count, whole_numbers
from .base import CalibratedSolver, MoreWork, Prepared, Solver, renumbered


@dataclass(frozen=True, repr=False)
class Subset(CalibratedSolver):
    """Exact weights on a subset of the training points and zero on all others.

    ``size`` points drawn at random (seeded), or the points ``indices``. One iteration is one point more.
    """

    size: int | None = None
    indices: Sequence[int] | None = None
    seed: int = 0

    side = "data"
    name = "subset"
    cost = "O(m³ + m² T) for m points, whatever d is"

    def __post_init__(self) -> None:
        if (self.size is None) == (self.indices is None):
            raise InputError(
                f"Subset needs either size or indices, got size={self.size!r} and indices={self.indices!r}; "
                "write Subset(size=1000)"
            )
        count(self.seed, "seed")
        if self.size is not None:
            count(self.size, "size")
        else:
            assert self.indices is not None
            chosen = whole_numbers(self.indices, "indices")
            if len(set(chosen)) != len(chosen):
                raise InputError("indices of a Subset must be distinct")
            object.__setattr__(self, "indices", chosen)

    def prepare(self, gram: Gram) -> Prepared:
        if self.indices is None:
            assert self.size is not None
            if self.size > gram.size:
                raise InputError(f"Subset(size={self.size}) is larger than the {gram.size} training points")
            generator = torch.Generator().manual_seed(self.seed)
            chosen = torch.randperm(gram.size, generator=generator)[: self.size]
        else:
            chosen = torch.tensor(self.indices, dtype=torch.int64)
            if len(chosen) and int(chosen.max()) >= gram.size:
                raise InputError(f"Subset index {int(chosen.max())} is beyond the {gram.size} training points")
        n_bytes = 3 * len(chosen) ** 2 * gram.dtype.itemsize
        require(n_bytes, gram.budget, f"the exact posterior of {len(chosen)} points", "choose a smaller subset")
        return _PreparedSubset(gram, chosen.to(gram.device))

    @property
    def effort(self) -> str:
        return "size"

    @property
    def _chosen(self) -> int:
        return self.size or 0 if self.indices is None else len(self.indices)

    def is_exact(self, size: int) -> bool:
        return self._chosen >= size

    def points_used(self, size: int) -> int:
        return min(self._chosen, size)

    def with_more_work(self, size: int, seed: int = 0) -> MoreWork:
        wanted = min(size, max(2 * self._chosen, 1))
        what = f"a subset of {wanted} points instead of {self._chosen}"
        if self.indices is None:
            return MoreWork(replace(self, size=wanted), what, counted=False)
        free = np.setdiff1d(np.arange(size), self.indices)
        added = np.random.default_rng(seed).permutation(free)[: wanted - self._chosen]
        return MoreWork(replace(self, indices=(*self.indices, *added.tolist())), what, counted=False)

    def for_points(self, kept: np.ndarray, size: int) -> Solver:
        if self.indices is None:
            return replace(self, size=min(self._chosen, len(kept)))
        return replace(self, indices=renumbered(self.indices, kept, size))

    def operations(self, size: int, tests: int) -> Operations:
        m = float(self._chosen)
        return Operations(flops=m**3 / 3 + m**2 * tests, kernel_values=m * tests)


class _PreparedSubset(Prepared):
    def __init__(self, gram: Gram, chosen: torch.Tensor) -> None:
        super().__init__(gram)
        self._chosen = chosen
        self.limit = len(chosen)
        self.held_bytes = len(chosen) ** 2 * gram.dtype.itemsize
        self._factor = positive_definite_factor(
            gram.submatrix(chosen), "the Gram matrix of the subset", "a larger noise_variance"
        )

    @property
    def numbers_per_test_point(self) -> int:
        return 6 * len(self._chosen)

    def _passes(self, m: int) -> float:
        return m * m / self.gram.size**2  # each entry of the submatrix is read once

    def _iterate(self, half: torch.Tensor, m: int) -> Weights:
        """Weights on the first m points, from ``half`` = V_S L⁻ᵀ (T, size)."""
        values = torch.linalg.solve_triangular(self._factor[:m, :m], half[:, :m], upper=False, left=False)
        reduction = half[:, :m].square().sum(dim=1)
        return Weights(values, reduction, m, self._passes(m), self.gram.size, self._chosen[:m])

    def _half(self, V: torch.Tensor) -> torch.Tensor:
        return torch.linalg.solve_triangular(self._factor.T, V, upper=True, left=False)

    def corrections(self, rhs: torch.Tensor) -> Iterator[Weights]:
        half = self._half(rhs[:, self._chosen])
        for m in range(1, len(self._chosen) + 1):
            yield self._iterate(half, m)

    def weights(self, cross: Cross) -> Iterator[Weights]:
        yield zero_weights(cross.size, self.gram)
        half = self._half(cross.columns(self._chosen))  # V at the other points is never needed
        for m in range(1, len(self._chosen) + 1):
            yield self._iterate(half, m)

    def final(self, cross: Cross) -> Weights:
        return self._iterate(self._half(cross.columns(self._chosen)), len(self._chosen))

    def coefficients(self, b: torch.Tensor) -> Iterator[torch.Tensor]:
        half = torch.linalg.solve_triangular(self._factor, b[self._chosen][:, None], upper=False)
        for m in range(len(self._chosen) + 1):
            v = torch.zeros_like(b)
            upper = self._factor[:m, :m].T
            v[self._chosen[:m]] = torch.linalg.solve_triangular(upper, half[:m], upper=True)[:, 0]
            yield v

    def stopped(self, iteration: int) -> str:
        return f"Subset used {iteration} of {self.gram.size} training points. A larger subset narrows the error bars."
