"""A trend Hβ with unknown coefficients β: weights that are unbiased for every β, from any weights.

If HᵀW = h, the basis at the test points, the error of Wᵀy does not depend on β and has exactly the covariance C(W).
Weights of any solver, as rows, become so by W′ = W + D S with D = h − W H and any S (q, d) with S H = I. Neither
depends on y, so calibration is not lost. The best S is that of generalised least squares, (HᵀG⁻¹H)⁻¹ HᵀG⁻¹; a poorer
one widens the error bars and never makes them wrong. With A = S G Sᵀ, what W′ takes off the variance is that of W plus
2 D·(v − G w) Sᵀ − D A Dᵀ, which needs no further product with G.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import torch

from ..algebra.weights import Weights, in_order
from ..errors import InputError
from ..gram import Cross, Gram
from ..means import Mean
from ..preconditioners import PreparedPreconditioner
from ..solvers import Prepared
from ..support.orthonormal import orthonormal
from ..support.positive_definite import positive_definite_factor
from ..support.validation import magnitude

SUBSET = 1000
"""Training points that estimate the trend where the solver cannot be asked: they cost next to nothing."""

_DETERMINED = 1e-10
_AT_ONCE = 2**22  # covariances with training points that are in memory together, beside weights on some of these


class TrendBasis:
    """Functions that span a trend, √d times orthonormal at the data X (d, p)."""

    def __init__(self, mean: Mean, X: torch.Tensor) -> None:
        self._mean, self._X, self._origin = mean, X, X.mean(dim=0)
        lowest, highest = torch.aminmax(X, dim=0)
        spread = torch.maximum(highest - self._origin, self._origin - lowest)
        self._scale = torch.where(spread > 0, spread, 1.0)
        Q, R = orthonormal(self._functions(X), repr(mean), _DETERMINED)
        self._factor = R / len(X) ** 0.5
        self.at_training_points = Q * len(X) ** 0.5

    @cached_property
    def raw(self) -> torch.Tensor:
        """The coefficients (q, q) of these functions in those of the mean."""
        own = self._mean.basis(self._X)
        assert own is not None
        scale = own.abs().amax(dim=0)
        return torch.linalg.lstsq(own / scale, self.at_training_points).solution / scale[:, None]

    def _functions(self, X: torch.Tensor) -> torch.Tensor:
        functions = self._mean.spanning(X, self._origin, self._scale)
        assert functions is not None
        return functions

    def __call__(self, X: torch.Tensor) -> torch.Tensor:
        """The functions at test points (T, p), shape (T, q)."""
        functions = torch.linalg.solve_triangular(self._factor, self._functions(X), upper=True, left=False)
        if not math.isfinite(magnitude(functions)):
            raise InputError("X_test is too far out for the trend: its functions overflow there; rescale the points")
        return functions


@dataclass(frozen=True)
class EstimatedTrend:
    """Coefficients (q,) of a mean's basis and the covariance (q, q) of their error, whatever the true ones are."""

    mean: Mean
    coefficients: torch.Tensor
    covariance: torch.Tensor


class UnbiasedTrend:
    """S (q, d) for a Gram matrix with a basis H (d, q) and a prepared solver: by that, or some of the training points
    where it knows none, or ordinary least squares where that has the smaller variance.
    """

    def __init__(self, gram: Gram, prepared: Prepared) -> None:
        assert gram.basis is not None
        self._H, self._gram, self._unbiased = gram.basis, gram, prepared.unbiased
        self._support: torch.Tensor | None = None
        if prepared.unbiased:
            self._S, self._support = _from_some(gram)
            some = self._S[:, self._support]
            self.covariance = some @ gram.submatrix(self._support) @ some.T
        else:
            self._S, self._GS = _better(gram, prepared)
            self.covariance = self._GS @ self._S.T

    @cached_property
    def _GS(self) -> torch.Tensor:
        """S G (q, d); where S is on some of the points only, hardly ever asked for: before the first iteration."""
        assert self._support is not None
        rows = self._gram.kernel_rows(self._support)
        return self._S[:, self._support] @ rows + self._S * self._gram.noise

    def unbiased(self, weights: Weights, cross: Cross, order: torch.Tensor | None = None) -> Weights:
        """The weights with what makes them unbiased. ``cross`` are their test points, with V in that ``order`` (d,)."""
        if self._unbiased and weights.iteration:  # the solver has seen to it
            return weights
        assert cross.basis is not None
        D = cross.basis - weights.apply(self._H)
        if self._support is None:
            S = in_order(self._S, order).T
            VS = cross.matrix @ S if weights.indices is None else torch.cat([V @ S for V in _in_parts(cross)])
        else:
            VS = cross.columns(self._support) @ self._S[:, self._support].T
        gain = 2 * (VS - weights.apply(self._GS.T)) - D @ self.covariance
        reduction = weights.reduction + (D * gain).sum(dim=1)
        if weights.indices is None and weights.order is None:  # rows as long as those of S
            return replace(weights, values=torch.addmm(weights.values, D, self._S), reduction=reduction, upper=None)
        return replace(weights, reduction=reduction, upper=None, shift=(D, self._S))

    def estimate(self, b: torch.Tensor) -> torch.Tensor:
        """The coefficients (q,) in b = Hβ + f + noise (d,); ``covariance`` (q, q) is that of their error."""
        return self._S @ b


def _in_parts(cross: Cross) -> Iterator[torch.Tensor]:
    """V, some rows at a time where it is large and nobody else needs it."""
    step = max(1, _AT_ONCE // cross.gram.size)
    if cross.size <= step:
        yield cross.matrix
        return
    for start in range(0, cross.size, step):
        yield cross.rows(slice(start, start + step)).matrix


def _left_inverse(U: torch.Tensor, H: torch.Tensor) -> torch.Tensor:
    """S (q, d) with S H = I and the same rows' span as U (q, d); not finite where U does not allow for it."""
    inner, info = torch.linalg.inv_ex(U @ H)
    S = inner @ U if not int(info) else torch.full_like(U, torch.nan)
    return S + (torch.eye(len(S)).to(S) - S @ H) @ S  # once more: what rounding left is squared


def _better(gram: Gram, prepared: Prepared) -> tuple[torch.Tensor, torch.Tensor]:
    """S and S G, each (q, d): of the solver's own S and that of ordinary least squares the one of smaller variance."""
    H = gram.basis
    assert H is not None
    candidates = [_left_inverse(H.T, H)]
    iterates = prepared.corrections(in_order(H.T.to(prepared.gram.dtype), prepared.order))
    last = deque(iterates, maxlen=1)  # nothing of a solver that knows test points only
    candidates += [_left_inverse(each.dense().to(gram.dtype), H) for each in last]
    error = [(S @ H - torch.eye(len(S)).to(S)).abs().amax() for S in candidates]
    sound = [S for S, e in zip(candidates, error, strict=True) if bool(e < torch.finfo(S.dtype).eps ** 0.5)]
    # a matrix that nobody has stored so far is not stored for one product
    kept = gram.computed or prepared.gram.computed
    products = (gram if kept else gram.cast(gram.dtype)).matmul(torch.cat(sound)).split(H.shape[1])
    return min(zip(sound, products, strict=True), key=lambda pair: float((pair[0] * pair[1]).sum()))


def _from_some(gram: Gram) -> tuple[torch.Tensor, torch.Tensor]:
    """S from generalised least squares on some of the training points, zero elsewhere, and which points."""
    H = gram.basis
    assert H is not None
    chosen = torch.randperm(gram.size, generator=torch.Generator().manual_seed(0))[:SUBSET].sort().values
    chosen = chosen.to(gram.device)
    factor, info = torch.linalg.cholesky_ex(gram.submatrix(chosen))
    # where rounding has taken the factor, ordinary least squares will do
    U = H[chosen].T if int(info) else torch.cholesky_solve(H[chosen], factor).T
    S = torch.zeros(H.shape[1], gram.size).to(H)
    S[:, chosen] = _left_inverse(U, H[chosen])
    return S, chosen


class Constrained(PreparedPreconditioner):
    """A preconditioner with which conjugate gradients stay among unbiased weights, Hᵀz = 0; the floor of P holds."""

    def __init__(self, P: PreparedPreconditioner) -> None:
        super().__init__(P.gram)
        H = P.gram.basis
        assert H is not None
        self._P, self.floor, self.held_bytes = P, P.floor, P.held_bytes
        self._solved = P.apply(H.T)  # rows P⁻¹H (q, d)
        what, remedy = "HᵀP⁻¹H of the trend", "a larger noise_variance"
        self._H, self._inner = H, positive_definite_factor(self._solved @ H, what, remedy)

    def enter(self, R: torch.Tensor) -> torch.Tensor:
        # what of a residual lies in the span of H is not to be solved for; left there, rounding would feed on it
        return R - torch.cholesky_solve((R @ self._solved.T).T, self._inner).T @ self._H.T

    def apply(self, R: torch.Tensor) -> torch.Tensor:
        Z = self._P.apply(R)
        return Z - torch.cholesky_solve((Z @ self._H).T, self._inner).T @ self._solved

    def product(self, P: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.enter(self.gram.matmul(P)), P
