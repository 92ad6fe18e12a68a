"""The exact log marginal likelihood and its gradient, from one Cholesky factor.

    log p(y) = −½ bᵀ G⁻¹ b − ½ log det G − (n/2) log 2π,     ∂ log p / ∂θ = ½ tr((α αᵀ − G⁻¹) ∂G/∂θ),     α = G⁻¹ b

The trace is evaluated in pieces, by compiled code or tile by tile: each tile of the kernel is differentiated by
autograd and forgotten, so no n × n graph is ever built. Two n × n matrices are alive at the most.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch

from ..errors import NotPositiveDefiniteError
from ..gram import Gram
from ..kernels import Embedding, Kernel, Varying, embedding_leaves, map_embedding, slice_embedding
from ..kernels.varying import without_amplitude
from ..support.memory import require
from ..support.positive_definite import positive_definite_factor
from ..support.threads import share_out
from .observations import Observations
from .radial_plan import compiled_plan
from .search_space import NOISE, Space
from .trend_columns import TrendColumns, TrendEstimate

# Rows and columns of a tile: on a CPU each thread has one in its cache.
_TILES = {"cpu": (128, 512), "cuda": (256, 2048)}
# Pieces that the rows are dealt out to in turn: enough for as many threads, and each has to keep an embedding.
_SHARES = 16
_ROWS, _BLOCK = 32, 192  # rows that compiled code takes at a time, and columns or rows of an inverse, of one thread
_WORTH_COMPILING = 500  # fewer points are done before compiled code is even loaded
_TOGETHER_BYTES = 2**26  # of small matrices that are factorised together
# Tiles that autograd keeps alive at once, generously: a few per operation, and per coordinate for small ones.
_TILE_COPIES = 40


@dataclass(frozen=True)
class Evaluation:
    """The log-likelihood, its gradient (q,) with respect to the *logarithms* of the free hyperparameters, the trend.

    ``information`` (q, q) is the expected value of minus the second derivatives, where it comes at no further cost.
    """

    log_likelihood: float
    gradient: np.ndarray
    trend: TrendEstimate | None
    information: np.ndarray | None = None


class Likelihood(ABC):
    """A log-likelihood of the free hyperparameters of ``space``; ``informed`` where evaluations have information."""

    informed: ClassVar[bool] = False

    def __init__(self, space: Space, data: Observations) -> None:
        self.space = space
        self.data = data

    @property
    def computed(self) -> int:
        """How many terms are summed: one for each observation, or for each of a sample of them."""
        return self.data.size

    @abstractmethod
    def __call__(self, log_values: np.ndarray) -> Evaluation:
        """The log-likelihood at the logarithms (q,) of the free hyperparameters."""

    def value(self, log_values: np.ndarray) -> float:
        """The log-likelihood alone, at logarithms (q,)."""
        return self(log_values).log_likelihood

    def values(self, log_values: np.ndarray) -> np.ndarray:
        """The log-likelihood at each row of logarithms (S, q), shape (S,); −∞ where G is not positive definite."""
        found = np.full(len(log_values), -np.inf)
        for i, each in enumerate(log_values):
            with suppress(NotPositiveDefiniteError):
                found[i] = self.value(each)
        return found

    def leaves(self, log_values: np.ndarray) -> list[torch.Tensor]:
        """The hyperparameters as scalar tensors that collect gradients."""
        values = torch.tensor(self.space.values(log_values), dtype=torch.float64, device=self.data.y.device)
        return [value.clone().requires_grad_() for value in values]

    def gradient(self, log_values: np.ndarray, leaves: list[torch.Tensor], noise_gradient: float) -> np.ndarray:
        """What the leaves collected, as a gradient in log space; ``noise_gradient`` is ∂ log p / ∂ noise variance."""
        collected = [0.0 if leaf.grad is None else float(leaf.grad) for leaf in leaves]
        if NOISE in self.space.names:
            collected[self.space.names.index(NOISE)] += noise_gradient
        return np.array(collected) * self.space.slopes(log_values)


def finite(log_likelihood: float) -> float:
    """The log-likelihood, or the error where it is none."""
    if not math.isfinite(log_likelihood):
        raise NotPositiveDefiniteError("the log-likelihood is not finite: G is singular to working precision")
    return float(log_likelihood)


class ExactLikelihood(Likelihood):
    """O(n³) time; two n × n matrices. Refused before anything is allocated where these exceed ``budget`` (bytes)."""

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
            'use likelihood="nearest-neighbours", a subset= of the points, or a larger memory_budget',
        )
        self._plan = compiled_plan(space, data.X) if n >= _WORTH_COMPILING else None
        # compiled code sees y / s, with the kernel without its amplitude s
        self._amplitude = data.X.new_ones(n)
        if self._plan is not None and isinstance(space.prior.kernel, Varying):
            self._amplitude = space.prior.kernel.amplitude.at(data.X)
        self._trend = TrendColumns(data)
        self._columns = self._trend.columns / self._amplitude[:, None]

    def __call__(self, log_values: np.ndarray) -> Evaluation:
        data = self.data
        factor, whitened, value, trend = self._solved(log_values)
        if not self.space.names:  # nothing to differentiate
            return Evaluation(value, np.zeros(0), trend)
        alpha = torch.linalg.solve_triangular(factor.T, whitened, upper=True)
        inverse = inverse_lower(factor)
        if self._trend.outputs > 1:
            inverse.mul_(self._trend.outputs)
        slopes = data.noise_slopes / self._amplitude.square()
        noise_gradient = float(0.5 * slopes @ (alpha.square().sum(dim=1) - inverse.diagonal()))
        # the coefficients of the trend maximise the likelihood, so their own change does not matter to first order
        return Evaluation(value, self._gradient(log_values, alpha, inverse, noise_gradient), trend)

    def values(self, log_values: np.ndarray) -> np.ndarray:
        n = self.data.size
        if n < _WORTH_COMPILING:
            step = max(1, _TOGETHER_BYTES // (8 * n**2))
            parts = [self._values_together(log_values[i : i + step]) for i in range(0, len(log_values), step)]
            return np.concatenate(parts)
        return super().values(log_values)

    def value(self, log_values: np.ndarray) -> float:
        return self._solved(log_values)[2]

    def _values_together(self, log_values: np.ndarray) -> np.ndarray:
        """The same for a few points, whose matrices are factorised together: a step of its own would cost more."""
        data, q, outputs = self.data, self._trend.q, self._trend.outputs
        values = self.space.values(log_values)
        origin, matrices = data.X.mean(dim=0), data.X.new_empty(len(values), data.size, data.size)
        for matrix, each in zip(matrices, values, strict=True):
            kernel = self.space.kernel(each)
            embedding = kernel.embed(data.X, origin)
            matrix.copy_(kernel.evaluate(embedding, embedding))
            matrix.diagonal().add_(data.diagonal(self.space.noise(each)))
        factor, info = torch.linalg.cholesky_ex(matrices)
        whitened = torch.linalg.solve_triangular(factor, self._columns.expand(len(factor), -1, -1), upper=False)
        Q, R = torch.linalg.qr(whitened[:, :, :q])
        residual = whitened[:, :, q:] - Q @ (Q.mT @ whitened[:, :, q:])
        total = -0.5 * residual.square().sum(dim=(1, 2)) - 0.5 * outputs * data.size * math.log(2 * math.pi)
        total -= outputs * factor.diagonal(dim1=1, dim2=2).log().sum(dim=1)
        if data.restricted:
            spread = 0.5 * q * math.log(2 * math.pi * data.size) - R.diagonal(dim1=1, dim2=2).abs().log().sum(dim=1)
            total += outputs * spread
        return torch.where((info != 0) | ~total.isfinite(), -torch.inf, total).cpu().numpy()

    def _solved(self, log_values: np.ndarray) -> tuple[torch.Tensor, torch.Tensor, float, TrendEstimate | None]:
        """The factor L of G, L⁻¹ of residuals and of what else the gradient needs (n, columns), log p, the trend."""
        outputs, n = self._trend.outputs, self.data.size
        factor = self._factor(self.space.values(log_values))
        whitened = torch.linalg.solve_triangular(factor, self._columns, upper=False)
        combined = self._trend.from_whitened(whitened)
        whitened = whitened @ combined.parts
        normalising = (factor.diagonal() * self._amplitude).log().sum() + 0.5 * n * math.log(2 * math.pi)
        value = combined.gain - 0.5 * whitened[:, :outputs].square().sum() - outputs * normalising
        return factor, whitened, finite(float(value)), combined.trend

    def _factor(self, values: list[float]) -> torch.Tensor:
        """The lower Cholesky factor of G (n, n), both sides divided by the amplitude where that is taken out."""
        X, kernel = self.data.X, self.space.kernel(values)
        diagonal = self.data.diagonal(self.space.noise(values)) / self._amplitude.square()
        embedding = kernel.embed(X, X.mean(dim=0))
        if self._plan is None:
            return Gram(kernel, embedding, diagonal, storage="tiles", budget=self.budget).cholesky()
        matrix = self._compiled_matrix(kernel, embedding)
        matrix.diagonal().add_(diagonal)
        return positive_definite_factor(matrix, "the Gram matrix", "a larger noise_variance")

    def _compiled_matrix(self, kernel: Kernel, embedding: Embedding) -> torch.Tensor:
        """The lower triangle of k(X, X) (n, n), without its amplitude."""
        from ..gram.compiled import CompiledCovariances

        compiled = CompiledCovariances.of(*without_amplitude(kernel, embedding)[:2])
        assert compiled is not None
        matrix = torch.zeros(self.data.size, self.data.size, dtype=torch.float64)

        def work(start: int) -> None:
            stop = min(start + _ROWS, len(matrix))
            compiled.fill(compiled.X, start, compiled.X, 0, matrix[start:stop, :stop])

        share_out(work, self._starts, matrix.device)
        return matrix

    @property
    def _starts(self) -> range:
        """The first rows of what compiled code does at a time; the last rows are the longest."""
        return range(0, self.data.size, _ROWS)[::-1]

    def _gradient(
        self, log_values: np.ndarray, alpha: torch.Tensor, inverse: torch.Tensor, noise_gradient: float
    ) -> np.ndarray:
        """The gradient (q,) in log space, from α (n, columns) and G⁻¹, of which the lower triangle is enough."""
        if self._plan is None:
            leaves = self.leaves(log_values)
            if set(self.space.names) != {NOISE}:
                self._collect(leaves, alpha, inverse)
            return self.gradient(log_values, leaves, noise_gradient)
        from .compiled_matrix import slope_rows

        X, values, slots = self.data.X, self.space.values(log_values), self._plan.slots
        kernel = self.space.kernel(values)
        points, plan = self._plan.at(kernel, kernel.embed(X, X.mean(dim=0)))
        E, right, lower = points.contiguous().numpy(), alpha.T.contiguous().numpy(), inverse.numpy()
        slopes = np.zeros((len(self._starts), self._plan.size))

        def work(start: int) -> None:
            rows = start, min(start + _ROWS, len(X))
            slopes[start // _ROWS] = slope_rows(E, *rows, right, lower, plan, slots, slopes.shape[1])

        share_out(work, self._starts, X.device)
        total = slopes.sum(axis=0)
        if slots.noise >= 0:
            total[slots.noise] += noise_gradient
        return total @ self._plan.changes(kernel, values)

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


def inverse_lower(factor: torch.Tensor) -> torch.Tensor:
    """G⁻¹ from its lower Cholesky factor L (n, n), right in the lower triangle. On the CPU it overwrites the factor.

    L⁻¹ in blocks of columns, then L⁻ᵀ L⁻¹ in blocks of rows, as many operations as LAPACK's potri; but each thread has
    blocks of its own. Threads that work on one block together wait for each other all the time, which on a busy machine
    takes many times as long as the work itself.
    """
    if factor.device.type != "cpu":
        return torch.cholesky_inverse(factor)
    n = len(factor)
    inverse = torch.empty_like(factor, memory_format=torch.contiguous_format)

    def invert(start: int) -> None:
        stop = min(start + _BLOCK, n)
        unit = torch.zeros(n - start, stop - start, dtype=factor.dtype)
        unit.diagonal().fill_(1.0)
        inverse[start:, start:stop] = torch.linalg.solve_triangular(factor[start:, start:], unit, upper=False)

    def multiply(start: int) -> None:
        stop = min(start + _BLOCK, n)
        torch.mm(inverse[start:, start:stop].T, inverse[start:, :stop], out=product[start:stop, :stop])

    share_out(invert, range(0, n, _BLOCK), factor.device)
    product = factor if factor.is_contiguous() else factor.T
    share_out(multiply, range(0, n, _BLOCK), factor.device)
    return product


class Informed(Likelihood):
    """A likelihood with the information of another one, ``like`` it but cheaper: a step of scoring may err by that."""

    informed = True

    def __init__(self, exact: Likelihood, like: Likelihood) -> None:
        super().__init__(exact.space, exact.data)
        self._exact, self._like = exact, like

    def __call__(self, log_values: np.ndarray) -> Evaluation:
        found = self._exact(log_values)
        try:
            return replace(found, information=self._like(log_values).information)
        except NotPositiveDefiniteError:
            return found
