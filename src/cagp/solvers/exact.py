"""The exact Gaussian process, given all of the training points or, the paper's subset GP, some of them."""

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
from .base import CalibratedSolver, Description, Prepared, Solver, renumbered

# Up to so many observations everything that is chosen is exact: the likelihood, the posterior of hyperparameters (its
# standard errors are too small to be felt beyond), predictions.
EXACT_UP_TO = 2000
# More test points than this are solved a few at a time: their weights stay in the cache, and are not kept for what is
# only asked of few points. A piece has so many numbers, and so many points at least, for which the factor is read once.
_AT_ONCE, _PIECE, _FEWEST = 4096, 2**17, 512


@dataclass(frozen=True, repr=False)
class Cholesky(CalibratedSolver):
    """The exact posterior, W = G⁻¹ k(X, X′), from the Cholesky factor of G. One iteration, no computational error."""

    side = "data"
    cost = "O(d³/3 + d² T) time, 2d² memory"

    def prepare(self, gram: Gram) -> Prepared:
        return _PreparedCholesky(self, gram, gram.cholesky())

    def description(self, size: int) -> Description:
        return Description(exact=True)

    def operations(self, size: int, tests: int) -> Operations:
        square = float(size) ** 2
        slow = 1e3 * square  # what is no large product takes as long as so many flops
        factor = Operations(flops=size * square / 3 + slow, kernel_values=square / 2)
        return factor + Operations(flops=2 * square * tests, kernel_values=float(size) * tests)


class _PreparedCholesky(Prepared):
    factor: torch.Tensor

    def __init__(self, solver: Cholesky, gram: Gram, factor: torch.Tensor) -> None:
        super().__init__(solver, gram)
        self.factor = factor
        # where G is stored, the budget has room for it, which the factor takes unless somebody asks for G itself
        self.held_bytes = 0 if gram.stored_bytes else factor.nbytes

    def grown(self, gram: Gram) -> Prepared | None:
        """By the block below the factor, O(d² m) for m more points; None where memory or precision end."""
        # [[L, 0], [B, M]] with B Lᵀ = G[d:, :d] and M Mᵀ = G[d:, d:] − B Bᵀ
        n, d = gram.size, len(self.factor)
        if (n + 3 * (n - d)) * n * gram.dtype.itemsize > gram.budget:
            return None
        new = torch.arange(d, n, device=gram.device)
        rows = gram.kernel_rows(new)
        rows[:, d:].diagonal().add_(gram.noise[new])
        below = torch.linalg.solve_triangular(self.factor, rows[:, :d].T, upper=False)
        corner, info = torch.linalg.cholesky_ex(rows[:, d:] - below.T @ below)
        if int(info):
            return None
        whole = self.factor.new_empty(n, n).T  # by columns, as factors are
        whole[:d, :d], whole[:d, d:], whole[d:, :d], whole[d:, d:] = self.factor, 0, below.T, corner
        other = _PreparedCholesky(Cholesky(), gram, whole)
        other.picked, other.why = self.picked, self.why
        return other

    def corrections(self, rhs: torch.Tensor) -> Iterator[Weights]:
        half = torch.linalg.solve_triangular(self.factor, rhs.T, upper=False)
        values = torch.linalg.solve_triangular(self.factor.T, half, upper=True).T.contiguous()
        yield Weights(values, half.square().sum(dim=0), 1, float(self.gram.size), self.gram.size)

    def final(self, cross: Cross) -> Weights:
        return next(self.corrections(cross.matrix))

    def pieces(self, cross: Cross) -> list[torch.Tensor]:
        """A few of many test points at a time, so that they stay in the cache."""
        if cross.size <= _AT_ONCE or self.gram.device.type != "cpu":
            return super().pieces(cross)
        return list(torch.arange(cross.size).split(max(_FEWEST, _PIECE // self.gram.size)))

    def coefficients(self, b: torch.Tensor) -> Iterator[torch.Tensor]:
        yield torch.zeros_like(b)
        yield torch.cholesky_solve(b[:, None], self.factor)[:, 0]

    def stopped(self, iteration: int) -> str:
        return "Cholesky solved the system exactly: there is no computational uncertainty."


@dataclass(frozen=True, repr=False)
class Subset(CalibratedSolver):
    """Exact weights on ``size`` training points drawn at random (seeded), or on ``indices``; one more per iteration."""

    size: int | None = None
    indices: Sequence[int] | None = None
    seed: int = 0

    side = "data"
    cost = "O(m³ + m² T) for m points, whatever d is"

    def __post_init__(self) -> None:
        if (self.size is None) == (self.indices is None):
            raise InputError(
                f"Subset needs either size or indices, got size={self.size!r} and indices={self.indices!r}; "
                "write Subset(size=1000)"
            )
        super().__post_init__()
        if self.size is not None:
            count(self.size, "size")
        elif self.indices is not None:
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
        return _PreparedSubset(self, gram, chosen.to(gram.device))

    @property
    def _chosen(self) -> int:
        return self.size or 0 if self.indices is None else len(self.indices)

    def description(self, size: int) -> Description:
        chosen = self._chosen
        wanted = min(size, max(2 * chosen, 1))
        if self.indices is None:
            more = replace(self, size=wanted)
        else:
            free = np.setdiff1d(np.arange(size), self.indices)
            added = np.random.default_rng(self.seed).permutation(free)[: wanted - chosen]
            more = replace(self, indices=(*self.indices, *added.tolist()))
        what = f"a subset of {wanted} points instead of {chosen}"
        return Description(chosen >= size, min(chosen, size), "size", more, what)

    def for_points(self, kept: np.ndarray, size: int) -> Solver:
        if self.indices is None:
            return replace(self, size=min(self._chosen, len(kept)))
        return replace(self, indices=renumbered(self.indices, kept, size))

    def operations(self, size: int, tests: int) -> Operations:
        m = float(self._chosen)
        return Operations(flops=m**3 / 3 + m**2 * tests, kernel_values=m * tests)


class _PreparedSubset(Prepared):
    def __init__(self, solver: Subset, gram: Gram, chosen: torch.Tensor) -> None:
        super().__init__(solver, gram)
        self._chosen, self.limit = chosen, len(chosen)
        what, remedy = "the Gram matrix of the subset", "a larger noise_variance"
        self._factor = positive_definite_factor(gram.submatrix(chosen), what, remedy)
        self.held_bytes = self._factor.nbytes

    @property
    def numbers_per_test_point(self) -> int:
        return 6 * len(self._chosen)

    def _iterate(self, half: torch.Tensor, m: int) -> Weights:
        """Weights on the first m points, from ``half`` = V_S L⁻ᵀ (T, size)."""
        values = torch.linalg.solve_triangular(self._factor[:m, :m], half[:, :m], upper=False, left=False)
        reduction = half[:, :m].square().sum(dim=1)
        passes = m * m / self.gram.size**2  # each entry of the submatrix is read once
        return Weights(values, reduction, m, passes, self.gram.size, self._chosen[:m])

    def _half(self, V: torch.Tensor) -> torch.Tensor:
        return torch.linalg.solve_triangular(self._factor.T, V, upper=True, left=False)

    def corrections(self, rhs: torch.Tensor) -> Iterator[Weights]:
        half = self._half(rhs[:, self._chosen])
        return (self._iterate(half, m) for m in range(1, self.limit + 1))

    def weights(self, cross: Cross) -> Iterator[Weights]:
        yield zero_weights(cross.size, self.gram)
        half = self._half(cross.columns(self._chosen))  # V at the other points is never needed
        yield from (self._iterate(half, m) for m in range(1, self.limit + 1))

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
