"""Where a function varies more, or is observed with more noise: patterns by the nearest-neighbour likelihood.

With an amplitude s and a noise pattern t, a term of it is that of G = S C S + v T², where C is the covariance of a
point and its neighbours. Its derivatives in log s and log t take two products with S C S: C is computed once, and
hundreds of values may be free.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.cluster.vq import kmeans2
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import minimize
from scipy.spatial import KDTree

from ..errors import InputError, NotPositiveDefiniteError
from ..gram.covariances import Covariances
from ..gram.previous_neighbours import NONE, previous_neighbours
from ..kernels import RBF, Kernel, Pattern, Periodic, Product, Radial, Sum, Varying, embedding_leaves
from ..prior import Prior
from ..support.memory import require, resolve_budget
from ..support.validation import ArrayLike, count
from .observations import Observations, observations
from .search_space import Space
from .terms import Terms, sample_terms, terms_wanted
from .vecchia import VecchiaLikelihood, block_factors, conditional_terms

CENTRES = 30
_ITERATIONS = 30
_BATCH = 1500  # terms at a time
_NEAR = 0.1  # levels whose logarithms are so close to the prior's are as good for the bend of the likelihood
_PER_CENTRE = 20  # so many observations are needed for each centre
_LOOKED_AT = 20_000  # centres are found among so many points, drawn at random
_ROUNDS = 10  # of Lloyd's algorithm: the centres need only be spread like the data
_WIDTH = 0.7  # of a bump, as a share of the distance between neighbouring centres


def fit_patterns(
    prior: Prior,
    X: ArrayLike,
    y: ArrayLike,
    *,
    amplitude: bool = True,
    noise: bool = True,
    n_centres: int = CENTRES,
    n_neighbours: int = 30,
    terms: int | str | None = None,
    seed: int = 0,
    memory_budget: float | None = None,
    device: str | torch.device | None = None,
) -> Prior:
    """The prior with an ``amplitude`` of the function, and a ``noise`` level, that vary with the inputs.

    For observations y (n,) at X (n, p), by the nearest-neighbour likelihood of ``n_neighbours`` and ``terms`` as in
    ``fit``. The hyperparameters of ``prior`` should have been fitted; they are held, but for the variances, which are
    those at an average place afterwards. Fitting the result once more adapts the lengthscales. Patterns that the prior
    has are found anew.

    ``n_centres`` is how many centres the patterns have, at most one for 20 observations. They are spread like the data
    in the coordinates of the kernel, so that columns which hardly matter to it hardly matter here.

    >>> import numpy as np, cagp
    >>> from cagp.hyperparameters import fit_patterns
    >>> rng = np.random.default_rng(0)
    >>> X = np.sort(rng.random((300, 1)), axis=0)
    >>> y = np.sin(6 * X[:, 0]) + np.where(X[:, 0] < 0.5, 0.02, 0.3) * rng.normal(size=300)
    >>> found = fit_patterns(cagp.Prior(cagp.Matern52(0.4), noise_variance=0.02), X, y, amplitude=False, n_centres=4)
    >>> low, high = found.noise_pattern(np.array([[0.1], [0.9]]))
    >>> bool(high > 5 * low)
    True
    """
    if not (amplitude or noise):
        raise InputError("amplitude and noise are both False: there is nothing to find")
    if noise and np.ndim(prior.noise_variance):
        raise InputError("noise=True, but the noise variance is given for each observation; say noise=False")
    return PatternFit(prior, X, y, n_centres, n_neighbours, terms, seed, memory_budget, device).prior(amplitude, noise)


class PatternFit:
    """Patterns for a prior and observations, of the amplitude, of the noise or of both; see ``fit_patterns``."""

    def __init__(
        self,
        prior: Prior,
        X: ArrayLike,
        y: ArrayLike,
        n_centres: int = CENTRES,
        n_neighbours: int = 30,
        terms: int | str | None = None,
        seed: int = 0,
        memory_budget: float | None = None,
        device: str | torch.device | None = None,
    ) -> None:
        kernel = prior.kernel.kernel if isinstance(prior.kernel, Varying) else prior.kernel
        self._plain = plain = replace(prior, kernel=kernel, noise_pattern=None)
        rng = np.random.default_rng(count(seed, "seed"))
        data = observations(plain, X, y, device)
        data = data.with_mean(plain.mean) if data.basis is None else data
        near, places = spread_centres(kernel, data.X, count(n_centres, "n_centres", minimum=1), rng)
        centres = data.X[torch.from_numpy(places).to(data.X.device)].tolist()
        data = data.rows(rng.permutation(data.size))
        sample = sample_terms(data.size, terms_wanted(terms, data.size), rng)
        budget = resolve_budget(memory_budget, data.y.device)
        k = min(count(n_neighbours, "n_neighbours", minimum=1), data.size - 1)
        require(8 * len(sample.places) * (k + 1) ** 2, budget, "the covariances of all terms", "take fewer terms")
        space = Space.of(plain)
        chosen = torch.from_numpy(sample.places)
        nearest = Terms.all_of(previous_neighbours(kernel, data.X, k, chosen), chosen)
        # by torch: compiled code, which fits to few observations do not need otherwise, does not pay for one evaluation
        likelihood = VecchiaLikelihood(space, data, nearest, budget)
        trend = likelihood.trend(space.start)
        local = likelihood.local
        b = local.y - local.mean if trend is None or local.basis is None else local.y - local.basis @ trend.coefficients
        members = likelihood.own.members.to(data.y.device)
        self._blocks = ScaledBlocks.of(kernel, local, members, b.reshape(local.size, -1), data.X.mean(dim=0))
        self._pattern = Pattern(near, centres, [1.0] * len(centres))
        self._shares, self._fixed = self._pattern.shares(local.X), local.diagonal(0.0)
        level = 0.0 if np.ndim(prior.noise_variance) else float(prior.noise_variance)
        self._level = level * local.noise_slopes
        self._slopes, self._squares = self._information(np.zeros(2 * len(centres)))

    @property
    def n_centres(self) -> int:
        """How many values each pattern has."""
        return len(self._slopes) // 2

    def promise(self, amplitude: bool, noise: bool) -> tuple[float, int]:
        """How much more patterns would raise the log-likelihood than levels do, by a Newton step, and their freedom.

        Where nothing varies, twice the gain is distributed like χ² of that freedom, or less: the values are penalised.
        """
        free = self._free(amplitude, noise)
        slopes, bend = self._slopes[free], _bend(self._squares, free)
        levels = np.kron(np.eye(amplitude + noise), np.ones((self.n_centres, 1)))
        gain = _gain(slopes, bend) - _gain(levels.T @ slopes, levels.T @ bend @ levels)
        return gain, len(free) - levels.shape[1]

    def prior(self, amplitude: bool, noise: bool) -> Prior:
        """The prior with these patterns."""
        free = self._free(amplitude, noise)
        levels = self._levels(amplitude, noise)
        squares = self._squares if np.abs(levels).max() < _NEAR else self._information(levels)[1]
        root = cholesky(_bend(squares, free))

        def whitened(u: np.ndarray) -> tuple[float, np.ndarray]:
            logs = levels.copy()
            logs[free] += solve_triangular(root, u)
            value, slopes = self._objective(logs)
            return value, solve_triangular(root, slopes[free], trans="T")

        # in coordinates in which the objective bends alike in all directions, a few steps are enough
        best = minimize(whitened, np.zeros(len(free)), jac=True, method="L-BFGS-B", options={"maxiter": _ITERATIONS})
        levels[free] += solve_triangular(root, best.x)
        both = levels.reshape(2, -1)
        middle = (self._shares.mean(dim=0).cpu().numpy() @ both.T).tolist()
        patterns = [replace(self._pattern, values=np.exp(v - m).tolist()) for v, m in zip(both, middle, strict=True)]
        found = self._plain
        if amplitude:
            found = replace(found, kernel=Varying(found.kernel.scaled(float(np.exp(2 * middle[0]))), patterns[0]))
        if noise:
            variance = found.noise_variance * float(np.exp(2 * middle[1]))
            found = replace(found, noise_variance=variance, noise_pattern=patterns[1])
        return found

    def _levels(self, amplitude: bool, noise: bool) -> np.ndarray:
        """Flat patterns (2c,) at the best levels: where the prior's are far off, its bend says nothing about that."""
        places = self._free(amplitude, noise).reshape(amplitude + noise, -1)

        found = np.zeros(len(self._slopes))

        def flat(levels: np.ndarray) -> tuple[float, np.ndarray]:
            found[places] = levels[:, None]
            value, slopes = self._objective(found)
            return value, slopes[places].sum(axis=1)

        step = minimize(flat, np.zeros(len(places)), jac=True, method="L-BFGS-B", options={"ftol": 1e-4})
        found[places] = step.x[:, None]
        return found

    def _objective(self, logs: np.ndarray) -> tuple[float, np.ndarray]:
        """Minus the log-likelihood of the logarithms (2c,) of both patterns, and its slopes (2c,)."""
        # penalised as if they were standard normal: a centre that the data say nothing about keeps the average
        total, slopes = self._blocks.log_likelihood(*self._at(logs))
        gradient = (self._shares.T @ slopes).cpu().numpy().T.reshape(-1)
        return 0.5 * float(logs @ logs) - total, logs - gradient

    def _information(self, logs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The slopes of the log-likelihood (2c,), and how much they vary (2c, 2c)."""
        slopes, squares = self._blocks.information(self._shares, *self._at(logs))
        if not bool(squares.isfinite().all()):
            raise NotPositiveDefiniteError("the slopes of the likelihood are not finite; a larger noise_variance helps")
        return slopes.cpu().numpy(), squares.cpu().numpy()

    def _at(self, logs: np.ndarray) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Amplitude, noise and noise that is known (n,), of which patterns have the logarithms (2c,)."""
        at = self._shares @ torch.from_numpy(logs.reshape(2, -1).T.copy()).to(self._shares)
        return at[:, 0].exp(), self._level * (2 * at[:, 1]).exp(), self._fixed

    def _free(self, amplitude: bool, noise: bool) -> np.ndarray:
        """The places of the values that are to be found among those of both patterns."""
        return np.flatnonzero(np.repeat([amplitude, noise], self.n_centres))


def _bend(squares: np.ndarray, free: np.ndarray) -> np.ndarray:
    """Minus the second derivatives of the penalised likelihood in the ``free`` values, about."""
    return squares[np.ix_(free, free)] + np.eye(len(free))


def _gain(slopes: np.ndarray, bend: np.ndarray) -> float:
    """What one step of Newton's method promises."""
    step = solve_triangular(cholesky(bend), slopes, trans="T")
    return 0.5 * float(step @ step)


@dataclass(frozen=True)
class ScaledBlocks:
    """Covariances C (m, k+1, k+1) of points with their neighbours, ``members`` (m, k+1), and what is observed there."""

    covariances: torch.Tensor
    members: torch.Tensor
    real: torch.Tensor
    b: torch.Tensor

    @classmethod
    def of(
        cls, kernel: Kernel, data: Observations, members: torch.Tensor, b: torch.Tensor, origin: torch.Tensor
    ) -> ScaledBlocks:
        real = members != NONE
        here, found = torch.where(real, members, 0), members.new_zeros(*members.shape, members.shape[1], dtype=b.dtype)
        all_of = Covariances(kernel, kernel.embed(data.X, origin), data.X.new_zeros(data.size))
        all_of.expect(found.numel())
        for some, there, out in zip(*(each.split(_BATCH) for each in (here, real, found)), strict=True):
            with all_of.blocks(some) as lower:
                both = there[:, :, None] & there[:, None, :]
                out.copy_(torch.where(both, lower.tril() + lower.tril(-1).mT, 0.0))
        return cls(found, here, real, b)

    def log_likelihood(
        self, amplitude: torch.Tensor, noise: torch.Tensor, fixed: torch.Tensor
    ) -> tuple[float, torch.Tensor]:
        """log p(b) but for a constant, and its slopes (n, 2) in the logarithms of amplitude and noise pattern."""
        total, slopes = 0.0, torch.zeros(len(amplitude), 2, dtype=torch.float64, device=amplitude.device)
        for members, value, pair in self._terms(amplitude, noise, fixed):
            total += value
            slopes.index_add_(0, members.reshape(-1), pair.reshape(-1, 2))
        return total, slopes

    def information(
        self, shares: torch.Tensor, amplitude: torch.Tensor, noise: torch.Tensor, fixed: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The slopes (2c,) in the values at c centres, with ``shares`` (n, c), and how much they vary (2c, 2c)."""
        # by the sum of their squares over the terms, of which none is foreseen by the others
        c = shares.shape[1]
        gradient, squares = shares.new_zeros(2 * c), shares.new_zeros(2 * c, 2 * c)
        for members, _, pair in self._terms(amplitude, noise, fixed):
            each = (pair.mT @ shares[members]).reshape(len(pair), 2 * c)
            gradient += each.sum(dim=0)
            squares += each.T @ each
        return gradient, squares

    def _terms(
        self, amplitude: torch.Tensor, noise: torch.Tensor, fixed: torch.Tensor
    ) -> Iterator[tuple[torch.Tensor, float, torch.Tensor]]:
        """A few terms at a time: their members (B, k+1), their sum, and the slopes at each member (B, k+1, 2)."""
        batches = (each.split(_BATCH) for each in (self.members, self.real, self.covariances))
        for members, real, C in zip(*batches, strict=True):
            s, v = (torch.where(real, each[members], 0.0) for each in (amplitude, noise))
            K = C * s[:, :, None] * s[:, None, :]
            factor = block_factors(K, real, v + fixed[members])
            observed = torch.where(real[:, :, None], self.b[members], 0.0)
            values, r, u = conditional_terms(factor, observed, observed.shape[2])
            products = K @ torch.stack([u, r], dim=2)
            slopes = [r * products[:, :, 0] + u * products[:, :, 1], 2 * r * u * v]
            yield members, float(values.sum()), torch.stack(slopes, dim=2)


def spread_centres(kernel: Kernel, X: torch.Tensor, wanted: int, rng: np.random.Generator) -> tuple[Kernel, np.ndarray]:
    """What is near, and which of the points X (n, p) are centres: spread like these in the kernel's coordinates."""
    near = nearness(kernel)
    if near is None:
        raise InputError(f"a pattern needs a kernel that falls with distance, got {kernel!r}")
    rows = rng.permutation(len(X))[:_LOOKED_AT]
    some = X[torch.from_numpy(rows).to(X.device)]
    points = torch.cat(embedding_leaves(near.embed(some, X.mean(dim=0)))).T.cpu().numpy()
    middles = points[: max(1, min(wanted, len(X) // _PER_CENTRE))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # points that are there twice: a centre without any stays
        middles, _ = kmeans2(points, middles, iter=_ROUNDS, minit="matrix")
    chosen = np.unique(KDTree(points).query(middles)[1])
    apart = 0.0 if len(chosen) < 2 else float(np.median(KDTree(points[chosen]).query(points[chosen], k=2)[0][:, 1]))
    if not apart > 0:
        needed = f"which needs {2 * _PER_CENTRE} at different places"
        raise InputError(f"{len(X)} observations are too few for a pattern, {needed}")
    width = _WIDTH * apart
    wide = near.with_hyperparameters(lambda name, value: value * width if ".lengthscale" in name else value)
    return wide, rows[chosen]


def nearness(kernel: Kernel) -> Kernel | None:
    """The kernel as one that only says what is near: that of its strongest term, with bumps in place of its profile."""
    if isinstance(kernel, Periodic):
        return replace(kernel, variance=1.0)
    if isinstance(kernel, Radial):
        return RBF(kernel.lengthscale, 1.0)
    children = {name: each for name, child in kernel.children.items() if (each := nearness(child)) is not None}
    if not children:
        return None
    if isinstance(kernel, Sum):
        return max(children.items(), key=lambda each: _variance(kernel.children[each[0]]))[1]
    if isinstance(kernel, Product):
        return Product(tuple(children.values()))
    return kernel.with_children(children)


def _variance(kernel: Kernel) -> float:
    """The product of all variances inside: that of a term of a sum."""
    own = kernel.hyperparameter_values.get("variance", 1.0)
    return float(own) * float(np.prod([_variance(child) for child in kernel.children.values()]))
