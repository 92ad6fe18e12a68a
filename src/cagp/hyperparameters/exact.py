"""The exact log marginal likelihood and its gradient, from one Cholesky factor.

    log p(y) = −½ bᵀ G⁻¹ b − ½ log det G − (n/2) log 2π,     ∂ log p / ∂θ = ½ tr((α αᵀ − G⁻¹) ∂G/∂θ),     α = G⁻¹ b

The trace is evaluated in pieces: by compiled code, or by torch, which differentiates each tile of the kernel and
forgets it, so that no n × n graph is ever built. Compiled code also has the average information,

    ½ (∂G/∂θ α)ᵀ G⁻¹ (∂G/∂θ′ α),

the average of minus the second derivatives and of their expected value (Gilmour, Thompson and Cullis 1995): products
of matrices with one vector, which cost little beside the factor.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch

from ..gram import Gram
from ..kernels import Kernel, Varying, embedding_leaves, map_embedding, slice_embedding
from ..kernels.plan import Plan
from ..support import lapack
from ..support.memory import require
from ..support.positive_definite import not_positive_definite
from ..support.threads import share_out
from .likelihood import Evaluation, Likelihood, finite
from .observations import Observations
from .radial_plan import RadialPlan, Slots, compiled_plan
from .search_space import Space
from .trend_columns import TrendColumns, TrendEstimate

# Rows and columns of a tile: on a CPU each thread has one in its cache.
_TILES = {"cpu": (128, 512), "cuda": (256, 2048)}
# Pieces that the rows are dealt out to in turn: enough for as many threads, and each has to keep an embedding.
_SHARES = 16
# Tiles that autograd keeps alive at once, generously: a few per operation, and per coordinate for small ones.
_TILE_COPIES = 40
_PAIRS, _ROWS = 20_000, 24  # pairs of points, and rows of them, that compiled code fills at a time, at the least
_PIECES, _WHOLE = 8, 500  # pieces of the pairs of points that threads share; fewer points than the second are one
_TOO_LARGE = 'use likelihood="nearest-neighbours", a subset= of the points, or a larger memory_budget'


def exact_likelihood(space: Space, data: Observations, budget: int) -> Likelihood:
    """By compiled code where there is some for this kernel on this device, by torch elsewhere."""
    plan = compiled_plan(space, data.X)
    return ExactLikelihood(space, data, budget) if plan is None else CompiledExactLikelihood(space, data, budget, plan)


class ExactLikelihood(Likelihood):
    """By torch, for any kernel: O(n³) time; two n × n matrices, or an error where these exceed ``budget`` (bytes)."""

    def __init__(self, space: Space, data: Observations, budget: int) -> None:
        super().__init__(space, data)
        self.budget = budget
        n, on_cpu = data.size, data.y.device.type == "cpu"
        self._tile = _TILES["cpu" if on_cpu else "cuda"]
        threads = torch.get_num_threads() if on_cpu else 1
        tiles = threads * _TILE_COPIES * math.prod(min(n, side) for side in self._tile) * 8
        # torch inverts out of place on an accelerator, and its factorisations take scratch memory
        matrices = 2 if on_cpu else 4
        require(
            matrices * n**2 * 8 + tiles,
            budget,
            f"the exact likelihood of {n} points ({matrices} matrices of {n} × {n})",
            _TOO_LARGE,
        )
        self._trend = TrendColumns(data)

    def __call__(self, log_values: np.ndarray) -> Evaluation:
        data = self.data
        factor, whitened, value, trend = self._solved(log_values)
        if not self.space.names:  # nothing to differentiate
            return Evaluation(value, np.zeros(0), trend)
        alpha = torch.linalg.solve_triangular(factor.T, whitened, upper=True)
        inverse = torch.cholesky_inverse(factor)
        if self._trend.outputs > 1:
            inverse.mul_(self._trend.outputs)
        noise_slopes = 0.5 * (alpha.square().sum(dim=1) - inverse.diagonal())
        # the coefficients of the trend maximise the likelihood, so their own change does not matter to first order
        leaves = self.leaves(log_values)
        if any(name.startswith("kernel") for name in self.space.names):
            self._collect(leaves, alpha, inverse)
        return Evaluation(value, self.gradient(log_values, leaves, noise_slopes, data), trend)

    def value(self, log_values: np.ndarray) -> float:
        return self._solved(log_values)[2]

    def _solved(self, log_values: np.ndarray) -> tuple[torch.Tensor, torch.Tensor, float, TrendEstimate | None]:
        """The factor L of G, L⁻¹ of residuals and of what else the gradient needs (n, columns), log p, the trend."""
        outputs, n = self._trend.outputs, self.data.size
        factor = self._factor(self.space.values(log_values))
        whitened = torch.linalg.solve_triangular(factor, self._trend.of(), upper=False)
        combined = self._trend.from_whitened(whitened)
        whitened = whitened @ combined.parts
        normalising = factor.diagonal().log().sum() + 0.5 * n * math.log(2 * math.pi)
        value = combined.gain - 0.5 * whitened[:, :outputs].square().sum() - outputs * normalising
        return factor, whitened, finite(float(value)), combined.trend

    def _factor(self, values: list[float]) -> torch.Tensor:
        """The lower Cholesky factor of G (n, n)."""
        X, kernel = self.data.X, self.space.kernel(values)
        embedding = kernel.embed(X, X.mean(dim=0))
        diagonal = self.data.diagonal(self.space.noise(values))
        return Gram(kernel, embedding, diagonal, storage="tiles", budget=self.budget).cholesky()

    def _collect(self, leaves: list[torch.Tensor], alpha: torch.Tensor, inverse: torch.Tensor) -> None:
        """Let the leaves collect ½ tr((α αᵀ − G⁻¹) ∂K/∂θ), of which the lower triangle is enough; α is (n, outputs).

        Tiles are differentiated with respect to the embedding and to the leaves, on as many threads as there are; the
        embedding once at the end. What a thread has collected is added up in an order that does not depend on theirs.
        """
        X, (height, width) = self.data.X, self._tile
        kernel = self.space.kernel(leaves)
        embedding = kernel.embed(X, X.mean(dim=0))
        cut = map_embedding(embedding, lambda part: part.detach().requires_grad_(part.requires_grad))
        pairs = zip(embedding_leaves(embedding), embedding_leaves(cut), strict=True)
        parts = [pair for pair in pairs if pair[1].requires_grad]
        inputs = [*leaves, *(own for _, own in parts)]
        shares = [[torch.zeros_like(each) for each in inputs] for _ in range(min(_SHARES, -(-len(X) // height)))]

        def work(number: int) -> None:
            for top in range(number * height, len(X), len(shares) * height):
                bottom = min(top + height, len(X))
                rows = slice_embedding(cut, top, bottom)
                for left in range(0, bottom, width):
                    right = min(left + width, bottom)
                    weight = (alpha[top:bottom] @ alpha[left:right].T).sub_(inverse[top:bottom, left:right])
                    if right > top:
                        weight.tril_(top - left).diagonal(top - left).mul_(0.5)
                    block = kernel.evaluate(rows, slice_embedding(cut, left, right))
                    if block.requires_grad:
                        slopes = torch.autograd.grad(block, inputs, weight, allow_unused=True)
                        for total, found in zip(shares[number], slopes, strict=True):
                            if found is not None:
                                total.add_(found)

        share_out(work, range(len(shares))[::-1], X.device)  # the last has the widest rows
        totals = [sum(each[1:], each[0]) for each in zip(*shares, strict=True)]
        for leaf, total in zip(leaves, totals, strict=False):
            leaf.grad = total
        for (part, _), total in zip(parts, totals[len(leaves) :], strict=True):
            part.backward(total, retain_graph=True)  # type: ignore[no-untyped-call]


class CompiledExactLikelihood(Likelihood):
    """By compiled code and LAPACK, with the average information: one n × n matrix, the factor and then the inverse.

    Compiled code sees the kernel without its amplitude s where that varies, and y / s.
    """

    informed = True

    def __init__(self, space: Space, data: Observations, budget: int, plan: RadialPlan) -> None:
        super().__init__(space, data)
        n = data.size
        require(n**2 * 8, budget, f"the exact likelihood of {n} points (a matrix of {n} × {n})", _TOO_LARGE)
        self._plan, self._trend, self._origin = plan, TrendColumns(data), data.X.mean(dim=0)
        kernel = space.prior.kernel
        self._amplitude = kernel.amplitude.at(data.X).numpy() if isinstance(kernel, Varying) else np.ones(n)
        self._columns = np.asfortranarray(self._trend.of().numpy() / self._amplitude[:, None])
        pieces = _PIECES if n >= _WHOLE else 1
        ends = np.rint(n * np.sqrt(np.linspace(0.0, 1.0, pieces + 1))).astype(np.int64).tolist()
        self._pieces, self._height = list(pairwise(ends))[::-1], max(_ROWS, _PAIRS // n)

    def value(self, log_values: np.ndarray) -> float:
        return self._solved(log_values, *self._kernel(log_values)[1:])[2]

    def __call__(self, log_values: np.ndarray) -> Evaluation:
        kernel, E, plan = self._kernel(log_values)
        matrix, whitened, value, trend = self._solved(log_values, E, plan)
        if not self.space.names:  # nothing to differentiate
            return Evaluation(value, np.zeros(0), trend)
        alpha = lapack.solve(matrix, whitened, transposed=True)
        lapack.invert(matrix)
        lapack.multiply_by_transpose(matrix)
        if self._trend.outputs > 1:
            matrix *= self._trend.outputs
        slopes, products = self._derivatives(E, plan, alpha, matrix)
        if (noise := self._plan.slots.noise) >= 0:
            own = self.data.noise_slopes.numpy() / np.square(self._amplitude)
            slopes[noise] += 0.5 * own @ (np.square(alpha).sum(axis=1) - matrix.diagonal())
            products[noise] += own * alpha[:, 0]
        trended = products @ alpha[:, self._trend.outputs :]  # what the unknown coefficients of a trend take away
        information = 0.5 * (products @ lapack.symmetric_product(matrix, products.T) - trended @ trended.T)
        changes = self._plan.changes(kernel, self.space.values(log_values))
        # the coefficients of the trend maximise the likelihood, so their own change does not matter to first order
        return Evaluation(value, slopes @ changes, trend, changes.T @ information @ changes)

    def _kernel(self, log_values: np.ndarray) -> tuple[Kernel, np.ndarray, Plan]:
        """The kernel, and without its amplitude the coordinates (C, n) and the plan of it."""
        kernel = self.space.kernel(self.space.values(log_values))
        points, plan = self._plan.at(kernel, kernel.embed(self.data.X, self._origin))
        return kernel, points.contiguous().numpy(), plan

    def _solved(
        self, log_values: np.ndarray, E: np.ndarray, plan: Plan
    ) -> tuple[np.ndarray, np.ndarray, float, TrendEstimate | None]:
        """The lower factor L of G, L⁻¹ of residuals and of what else the gradient needs (n, columns), log p, the trend.

        LAPACK counts by columns, so that the lower triangle by rows is the upper one of the transpose.
        """
        outputs, n = self._trend.outputs, self.data.size
        matrix = self._covariances(E, plan)
        noise = self.data.diagonal(self.space.noise(self.space.values(log_values))).numpy()
        matrix.reshape(-1)[:: n + 1] += noise / np.square(self._amplitude)
        if failed := lapack.factorise(matrix):
            raise not_positive_definite("the Gram matrix", n, torch.float64, failed, "a larger noise_variance")
        whitened = lapack.solve(matrix, self._columns)
        combined = self._trend.from_whitened(torch.from_numpy(whitened))
        whitened = np.asfortranarray(whitened @ combined.parts.numpy())
        normalising = np.log(matrix.diagonal() * self._amplitude).sum() + 0.5 * n * math.log(2 * math.pi)
        value = combined.gain - 0.5 * np.square(whitened[:, :outputs]).sum() - outputs * normalising
        return matrix, whitened, finite(float(value)), combined.trend

    def _covariances(self, E: np.ndarray, plan: Plan) -> np.ndarray:
        """k(X, X) (n, n) without its amplitude, on and below the diagonal, of coordinates E (C, n)."""
        from .compiled_matrix import Rows

        n = self.data.size
        matrix = np.zeros((n, n))  # some LAPACKs read what lies above, too

        def work(piece: tuple[int, int]) -> None:
            room = Rows.zeros(plan, False, self._height, n)
            for top in range(*piece, self._height):
                bottom = min(top + self._height, piece[1])
                room.fill(E, plan, top, bottom)
                room.terms[:, : bottom - top, :bottom].sum(axis=0, out=matrix[top:bottom, :bottom])

        share_out(work, self._pieces, self.data.X.device)
        matrix.reshape(-1)[:: n + 1] = plan.variances.sum()
        return matrix

    def _derivatives(
        self, E: np.ndarray, plan: Plan, alpha: np.ndarray, inverse: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """½ tr((α αᵀ − G⁻¹) ∂K) for every slot (slots,), and ∂K α (slots, n) of the first column of α."""
        from .compiled_matrix import Rows

        slots, n, parts = self._plan.slots, self.data.size, []
        bends = bool((slots.parameter >= 0).any())
        sums = _sums_over_pairs(E, plan, slots, alpha[:, :1])

        def work(piece: tuple[int, int]) -> None:
            room, found = Rows.zeros(plan, bends, self._height, n), [np.zeros((2, *each.left.shape)) for each in sums]
            parts.append((piece, found))
            for top in range(*piece, self._height):
                bottom = min(top + self._height, piece[1])
                room.fill(E, plan, top, bottom)
                weight = np.multiply.outer(alpha[top:bottom, 0], alpha[:bottom, 0]) - inverse[top:bottom, :bottom]
                if alpha.shape[1] > 1:
                    weight += alpha[top:bottom, 1:] @ alpha[:bottom, 1:].T
                for each, (weighted, product) in zip(sums, found, strict=True):
                    D = room[each.kind][each.which, : bottom - top, :bottom]
                    product[top:bottom] += D @ each.right[:bottom]
                    product[:bottom] += D.T @ each.right[top:bottom]
                    weighted[top:bottom] += (weight * D) @ each.left[:bottom]

        share_out(work, self._pieces, self.data.X.device)
        ordered = [found for _, found in sorted(parts, key=lambda part: part[0])]  # sums do not depend on threads
        totals = np.zeros((2, self._plan.size, n))
        for each, *found in zip(sums, *ordered, strict=True):
            for slot, rows in each.by_slots(sum(found[1:], found[0]), E, plan, slots):
                totals[:, slot] += rows
        own = np.stack([0.5 * (np.square(alpha).sum(axis=1) - inverse.diagonal()), alpha[:, 0]])
        for slot, variance in zip(slots.term, plan.variances, strict=True):
            if slot >= 0:
                totals[:, slot] += variance * own
        return totals[0].sum(axis=1), totals[1]


class _SumOverPairs(NamedTuple):
    """Of a field of ``Rows``, ``kind``, and a matrix D in it, ``which``: D times columns ``left``, and ``right``, those
    times a: (n, W). For slopes they are 1, e and e² for each coordinate e, and e e′ for all pairs of coordinates.

    Σⱼ Dᵢⱼ (eᵢ − eⱼ)² aⱼ = eᵢ² (D a)ᵢ − 2 eᵢ (D (a e))ᵢ + (D (a e²))ᵢ: products of one matrix with a few columns.
    """

    kind: int
    which: int
    left: np.ndarray
    right: np.ndarray

    def by_slots(self, found: np.ndarray, E: np.ndarray, plan: Plan, slots: Slots) -> Iterator[tuple[int, np.ndarray]]:
        """The slots that the products ``found`` (2, n, W) belong to, and what they are there (2, n)."""
        found = found.transpose(2, 0, 1)
        if self.kind != 1:
            yield int((slots.parameter if self.kind else slots.term)[self.which]), found[0]
            return
        first, last = plan.first[self.which], plan.last[self.which]
        e, count = E[first:last, None], last - first
        plain, crossed, squared, leaning = np.split(found, [1, 1 + count, 1 + 2 * count])
        apart = np.square(e) * plain - 2 * e * crossed + squared
        yield from ((slot, apart[a]) for a, slot in enumerate(slots.coordinate[first:last].tolist()) if slot >= 0)
        for q, (a, b) in enumerate(zip(slots.pair_first - first, slots.pair_second - first, strict=True)):
            if 0 <= a < count:
                yield slots.pair[q], e[a] * e[b] * plain[0] - e[a] * crossed[b] - e[b] * crossed[a] + leaning[q]


def _sums_over_pairs(E: np.ndarray, plan: Plan, slots: Slots, a: np.ndarray) -> list[_SumOverPairs]:
    """Those that derivatives need, with a (n, 1)."""
    one = np.ones_like(a)
    found = [_SumOverPairs(0, t, one, a) for t in np.flatnonzero(slots.term >= 0).tolist()]
    found += [_SumOverPairs(2, f, one, a) for f in np.flatnonzero(slots.parameter >= 0).tolist()]
    products = E[slots.pair_first] * E[slots.pair_second]
    for f, (first, last) in enumerate(zip(plan.first, plan.last, strict=True)):
        if len(products) or (slots.coordinate[first:last] >= 0).any():
            e = E[first:last]
            left = np.ascontiguousarray(np.concatenate([one.T, e, np.square(e), products]).T)
            found.append(_SumOverPairs(1, f, left, a * left))
    return found
