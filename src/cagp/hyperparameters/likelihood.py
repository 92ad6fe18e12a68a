"""The exact log marginal likelihood and its gradient, from one Cholesky factor.

    log p(y) = −½ bᵀ G⁻¹ b − ½ log det G − (n/2) log 2π,     ∂ log p / ∂θ = ½ tr((α αᵀ − G⁻¹) ∂G/∂θ),     α = G⁻¹ b

The trace is evaluated tile by tile: each tile of the kernel is differentiated by autograd and forgotten, so no n × n
graph is ever built. Two n × n matrices are alive at the most.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch

from ..errors import InputError, NotPositiveDefiniteError
from ..gram import Gram
from ..kernels import Embedding, Varying, embedding_leaves, map_embedding, slice_embedding
from ..support.memory import require
from ..support.threads import share_out
from .exact_matrix import CompiledMatrix, inverse_lower
from .observations import Observations
from .radial_plan import compiled_plan
from .search_space import NOISE, Space

_TILES = {"cpu": (128, 512), "cuda": (256, 2048)}
"""Rows and columns of a tile: on a CPU each thread has one in its cache."""

_SHARES = 16
"""Pieces that the rows are dealt out to in turn: enough for as many threads, and each has to keep an embedding."""

_WORTH_COMPILING = 500
"""Fewer points are done before compiled code is even loaded."""

_TILE_COPIES = 40
"""Tiles that autograd keeps alive at once, generously: a few per operation, and per coordinate for small ones."""


@dataclass(frozen=True)
class Trend:
    """Coefficients (q,) of a mean, their covariance (q, q) given the hyperparameters; ``half`` halfᵀ is that."""

    coefficients: torch.Tensor
    covariance: torch.Tensor
    half: torch.Tensor


@dataclass(frozen=True)
class Evaluation:
    """The log-likelihood, its gradient (q,) with respect to the *logarithms* of the free hyperparameters, the trend.

    ``information`` (q, q) is the expected value of minus the second derivatives, where it comes at no further cost.
    """

    log_likelihood: float
    gradient: np.ndarray
    trend: Trend | None
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


def fit_trend(basis: torch.Tensor, y: torch.Tensor) -> Trend:
    """Maximum-likelihood coefficients from the whitened basis L⁻¹H (n, q) and observations L⁻¹y, where LLᵀ = G.

    For observations (n, outputs) the coefficients are (q, outputs).
    """
    Q, R = orthonormal(basis)
    half = torch.linalg.inv(R)
    return Trend(half @ (Q.T @ y), half @ half.T, half)


def not_determined(coefficients: int, points: int) -> InputError:
    """The error where the points say nothing about some direction of the coefficients."""
    return InputError(
        f"the mean has {coefficients} coefficients, which these {points} points do not determine; "
        "lower the degree, or choose fewer columns"
    )


def orthonormal(basis: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Q (n, q) and R (q, q) with Q R = ``basis`` and orthonormal columns of Q, whatever the columns are scaled by."""
    scale = basis.norm(dim=0).clamp_min(torch.finfo(basis.dtype).tiny)
    Q, R = torch.linalg.qr(basis / scale)
    size = R.diagonal().abs()
    if len(basis) < basis.shape[1] or size.min() <= 1e-13 * size.max():
        raise not_determined(basis.shape[1], len(basis))
    return Q, R * scale


def log_det(basis: torch.Tensor) -> float:
    """log det HᵀH for a basis H (n, q)."""
    scale = basis.abs().amax(dim=0)
    return float(2 * (torch.linalg.qr(basis / scale, mode="r").R.diagonal().abs().log().sum() + scale.log().sum()))


def integrated_out(data: Observations, trend: Trend, basis_log_det: float) -> tuple[float, torch.Tensor]:
    """What integrating the coefficients out adds to the log-likelihood, and what its gradient takes: H C^½ (n, q).

    It adds −½ log det(HᵀG⁻¹H) + ½ log det(HᵀH) + (q/2) log 2π for each output; the second term makes it the same for
    every basis of the same functions. With C = (HᵀG⁻¹H)⁻¹, its derivative is that of −½ ‖L⁻¹H C^½‖² where C is held:
    the columns of H C^½ count like further observations in the quadratic form, though not in its determinant.
    """
    assert data.basis is not None
    outputs = data.y.reshape(data.size, -1).shape[1]
    spread = 2 * torch.linalg.slogdet(trend.half).logabsdet
    gain = 0.5 * outputs * (spread + basis_log_det + data.basis.shape[1] * math.log(2 * math.pi))
    return float(gain), math.sqrt(outputs) * data.basis @ trend.half


class ExactLikelihood(Likelihood):
    """O(n³) time; two n × n matrices. Refused before anything is allocated where these exceed ``budget`` (bytes)."""

    def __init__(self, space: Space, data: Observations, budget: int) -> None:
        super().__init__(space, data)
        self.budget = budget
        self._basis_log_det = 0.0 if data.basis is None else log_det(data.basis)
        n = data.size
        self._rows, self._columns = _TILES["cpu" if data.y.device.type == "cpu" else "cuda"]
        threads = torch.get_num_threads() if data.y.device.type == "cpu" else 1
        tiles = threads * _TILE_COPIES * min(n, self._rows) * min(n, self._columns) * 8
        # torch inverts out of place on an accelerator, and its factorisations take scratch memory
        matrices = 2 if data.y.device.type == "cpu" else 4
        require(
            matrices * n**2 * 8 + tiles,
            budget,
            f"the exact likelihood of {n} points ({matrices} matrices of {n} × {n})",
            'use likelihood="nearest-neighbours", a subset= of the points, or a larger memory_budget',
        )

        plan = compiled_plan(space, data.X) if n >= _WORTH_COMPILING else None
        self._compiled = None if plan is None else CompiledMatrix(space, data.X, plan)
        # compiled code sees y / s, with the kernel without its amplitude s
        self.amplitude = data.X.new_ones(n)
        if self._compiled is not None and isinstance(space.prior.kernel, Varying):
            self.amplitude = space.prior.kernel.amplitude.at(data.X)

    def __call__(self, log_values: np.ndarray) -> Evaluation:
        data, values = self.data, self.space.values(log_values)
        factor = self.factor(values)
        b, trend = data.y - data.mean, None
        gain, further = 0.0, None
        if data.basis is not None:
            right = torch.column_stack([data.basis, data.y])
            whitened = torch.linalg.solve_triangular(factor, right / self.amplitude[:, None], upper=False)
            q = data.basis.shape[1]
            trend = fit_trend(whitened[:, :q], whitened[:, q:].reshape(data.y.shape))
            b = data.y - data.basis @ trend.coefficients
            if data.restricted:
                gain, further = integrated_out(data, trend, self._basis_log_det)
        b = b.reshape(data.size, -1) / self.amplitude[:, None]
        outputs = b.shape[1]
        alpha = torch.cholesky_solve(b, factor)
        normalising = (factor.diagonal() * self.amplitude).log().sum() + 0.5 * data.size * math.log(2 * math.pi)
        log_likelihood = gain - 0.5 * (b * alpha).sum() - outputs * normalising
        if not math.isfinite(log_likelihood):
            raise NotPositiveDefiniteError("the log-likelihood is not finite: G is singular to working precision")
        if not self.space.names:  # nothing to differentiate
            return Evaluation(float(log_likelihood), np.zeros(0), trend)
        if further is not None:
            alpha = torch.column_stack([alpha, torch.cholesky_solve(further / self.amplitude[:, None], factor)])
        inverse = inverse_lower(factor)
        if outputs > 1:
            inverse.mul_(outputs)
        slopes = data.noise_slopes / self.amplitude.square()
        noise_gradient = float(0.5 * slopes @ (alpha.square().sum(dim=1) - inverse.diagonal()))
        # the coefficients of the trend maximise the likelihood, so their own change does not matter to first order
        return Evaluation(float(log_likelihood), self._gradient(log_values, alpha, inverse, noise_gradient), trend)

    def factor(self, values: list[float]) -> torch.Tensor:
        """The lower Cholesky factor of G (n, n), both sides divided by the amplitude where that is taken out."""
        data = self.data
        diagonal = data.diagonal(self.space.noise(values)) / self.amplitude.square()
        if self._compiled is not None:
            return self._compiled.factor(values, diagonal)
        kernel = self.space.kernel(values)
        embedding = kernel.embed(data.X, data.X.mean(dim=0))
        return Gram(kernel, embedding, diagonal, storage="tiles", budget=self.budget).cholesky()

    def _gradient(
        self, log_values: np.ndarray, alpha: torch.Tensor, inverse: torch.Tensor, noise_gradient: float
    ) -> np.ndarray:
        """The gradient (q,) in log space, from α (n, columns) and G⁻¹, of which the lower triangle is enough."""
        if self._compiled is not None:
            return self._compiled.gradient(self.space.values(log_values), alpha, inverse, noise_gradient)
        leaves = self.leaves(log_values)
        if self.space.has_kernel:
            self._collect(leaves, alpha, inverse)
        return self.gradient(log_values, leaves, noise_gradient)

    def _collect(self, leaves: list[torch.Tensor], alpha: torch.Tensor, inverse: torch.Tensor) -> None:
        """Let the leaves collect ½ tr((α αᵀ − G⁻¹) ∂K/∂θ), of which the lower triangle is enough; α is (n, outputs).

        Tiles are differentiated with respect to the embedding and to the leaves, on as many threads as there are; the
        embedding once at the end. What a thread has collected is added up in an order that does not depend on theirs.
        """
        X = self.data.X
        embedding = self.space.kernel(leaves).embed(X, X.mean(dim=0))
        shares = [_Share.of(embedding, leaves) for _ in range(min(_SHARES, -(-len(X) // self._rows)))]

        def work(number: int) -> None:
            share = shares[number]
            for top in range(number * self._rows, len(X), len(shares) * self._rows):
                self._collect_rows(share, top, alpha, inverse)

        share_out(work, range(len(shares))[::-1], X.device)  # the last has the widest rows
        for leaf, *parts in zip(leaves, *(share.leaves for share in shares), strict=True):
            found = [part.grad for part in parts if part.grad is not None]
            leaf.grad = sum(found, torch.zeros_like(leaf)) if found else None
        for part, *cuts in zip(embedding_leaves(embedding), *(share.cut_leaves for share in shares), strict=True):
            found = [cut.grad for cut in cuts if cut.grad is not None]
            if found:
                part.backward(sum(found[1:], found[0]), retain_graph=True)  # type: ignore[no-untyped-call]

    def _collect_rows(self, share: _Share, top: int, alpha: torch.Tensor, inverse: torch.Tensor) -> None:
        """The rows ``top`` … of the lower triangle, for one share."""
        bottom = min(top + self._rows, self.data.size)
        rows = slice_embedding(share.cut, top, bottom)
        kernel = self.space.kernel(share.leaves)
        for left in range(0, bottom, self._columns):
            right = min(left + self._columns, bottom)
            columns = slice_embedding(share.cut, left, right)
            weight = (alpha[top:bottom] @ alpha[left:right].T).sub_(inverse[top:bottom, left:right])
            if right > top:
                weight.tril_(top - left).diagonal(top - left).mul_(0.5)
            block = kernel.evaluate(rows, columns)
            if block.requires_grad:
                block.backward(weight)  # type: ignore[no-untyped-call]


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


@dataclass(frozen=True)
class _Share:
    """What one piece of the work collects gradients in: copies of the leaves, and the embedding cut off from them."""

    leaves: list[torch.Tensor]
    cut: Embedding

    @classmethod
    def of(cls, embedding: Embedding, leaves: list[torch.Tensor]) -> _Share:
        own = [leaf.detach().clone().requires_grad_() for leaf in leaves]
        return cls(own, map_embedding(embedding, lambda part: part.detach().requires_grad_(part.requires_grad)))

    @property
    def cut_leaves(self) -> list[torch.Tensor]:
        """The tensors of the embedding."""
        return embedding_leaves(self.cut)
