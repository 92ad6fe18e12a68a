"""Where a function varies more, and where it is observed with more noise: patterns by the nearest-neighbour likelihood.

With the covariance C of a point and its neighbours under a kernel, an amplitude s and a noise pattern t, a term of the
likelihood is that of G = S C S + v T². Its derivatives in log s and log t at each of the points take two products with
S C S and no differentiation of the kernel, so that C is computed once and hundreds of values may be free.

The values at the centres are penalised as if their logarithms were standard normal: a centre that the data say nothing
about keeps the average.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from scipy.optimize import minimize
from scipy.spatial import KDTree

from ..errors import InputError
from ..kernels import RBF, Kernel, Pattern, Periodic, Product, Radial, Sum, Varying, embedding_leaves, map_embedding
from ..prior import Prior
from ..support.memory import require, resolve_budget
from ..support.validation import ArrayLike, count
from .neighbour_setting import NeighbourSetting
from .observations import Observations, observations
from .previous_neighbours import NONE
from .search_space import Space
from .terms import sample_terms, terms_wanted
from .vecchia import block_not_positive_definite

CENTRES = 30
_PER_CENTRE = 20
"""So many observations are needed for each centre."""

_LOOKED_AT = 20_000
"""Centres are found among so many points, drawn at random."""

_ROUNDS = 10
"""Of Lloyd's algorithm: the centres need only be spread like the data."""

_WIDTH = 0.7
"""Of a bump, as a share of the distance between neighbouring centres."""

_ITERATIONS = 30
_BATCH = 1500


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
    kernel = prior.kernel.kernel if isinstance(prior.kernel, Varying) else prior.kernel
    plain = replace(prior, kernel=kernel, noise_pattern=None)
    rng = np.random.default_rng(count(seed, "seed"))
    data = observations(plain, X, y, device)
    data = data.with_mean(plain.mean) if data.basis is None else data
    near, places = _centres(kernel, data.X, count(n_centres, "n_centres", minimum=1), rng)
    if len(places) < 2:
        raise InputError(
            f"{data.size} observations are too few for a pattern, which needs {2 * _PER_CENTRE} at different places"
        )
    centres = data.X[torch.from_numpy(places).to(data.X.device)].tolist()
    data = data.rows(rng.permutation(data.size))
    sample = sample_terms(data.size, terms_wanted(terms, data.size), rng)
    budget = resolve_budget(memory_budget, data.y.device)
    k = min(count(n_neighbours, "n_neighbours", minimum=1), data.size - 1)
    require(8 * len(sample.places) * (k + 1) ** 2, budget, "the covariances of all terms", "take fewer terms")
    space = Space.of(plain)
    likelihood = NeighbourSetting(space, data, sample, k, budget).likelihood(space.start)
    trend = likelihood(space.start).trend
    pattern = Pattern(near, centres, [1.0] * len(centres))
    own, local = likelihood.terms.compact(data)
    level = 0.0 if np.ndim(prior.noise_variance) else float(prior.noise_variance)
    b = local.y - local.mean if trend is None or local.basis is None else local.y - local.basis @ trend.coefficients
    blocks = _Blocks.of(kernel, local, own.members.to(data.y.device), b.reshape(local.size, -1), data.X.mean(dim=0))
    shares = pattern.shares(local.X)
    fixed = local.diagonal(0.0)
    values, found = np.zeros((2, len(centres))), np.array([amplitude, noise])

    def objective(free: np.ndarray) -> tuple[float, np.ndarray]:
        values[found] = free.reshape(-1, len(centres))
        logs = shares @ torch.from_numpy(values.T.copy()).to(shares)
        total, slopes = blocks.log_likelihood(logs[:, 0].exp(), level * (2 * logs[:, 1]).exp(), fixed)
        gradient = (shares.T @ slopes).cpu().numpy().T[found]
        return 0.5 * float(free @ free) - total, free - gradient.reshape(-1)

    start = np.zeros(int(found.sum()) * len(centres))
    best = minimize(objective, start, jac=True, method="L-BFGS-B", options={"maxiter": _ITERATIONS}).x
    values[found] = best.reshape(-1, len(centres))
    middle = (shares.mean(dim=0).cpu().numpy() @ values.T).tolist()
    patterns = [replace(pattern, values=np.exp(each - m).tolist()) for each, m in zip(values, middle, strict=True)]
    if amplitude:
        plain = replace(plain, kernel=Varying(kernel.scaled(float(np.exp(2 * middle[0]))), patterns[0]))
    if noise:
        variance = prior.noise_variance * float(np.exp(2 * middle[1]))
        plain = replace(plain, noise_variance=variance, noise_pattern=patterns[1])
    return plain


# --- where the centres are --------------------------------------------------------------------------------------------


def _centres(kernel: Kernel, X: torch.Tensor, wanted: int, rng: np.random.Generator) -> tuple[Kernel, np.ndarray]:
    """What is near, and which of the points X (n, p) are centres: spread like these in the kernel's coordinates."""
    near = _nearness(kernel)
    if near is None:
        raise InputError(f"a pattern needs a kernel that falls with distance, got {kernel!r}")
    rows = rng.permutation(len(X))[:_LOOKED_AT]
    some = X[torch.from_numpy(rows).to(X.device)]
    points = torch.cat(embedding_leaves(near.embed(some, X.mean(dim=0)))).T.cpu().numpy()
    middles = points[: max(1, min(wanted, len(X) // _PER_CENTRE))]
    for _ in range(_ROUNDS):
        _, label = KDTree(middles).query(points)
        counts = np.bincount(label, minlength=len(middles))
        sums = [np.bincount(label, weights=column, minlength=len(middles)) for column in points.T]
        middles = np.where(counts[:, None] > 0, np.stack(sums, axis=1) / np.maximum(counts, 1)[:, None], middles)
    chosen = np.unique(KDTree(points).query(middles)[1])
    apart = 0.0 if len(chosen) < 2 else float(np.median(KDTree(points[chosen]).query(points[chosen], k=2)[0][:, 1]))
    if not apart > 0:
        return near, rows[:1]
    return _widened(near, _WIDTH * apart), rows[chosen]


def _nearness(kernel: Kernel) -> Kernel | None:
    """The kernel as one that only says what is near: that of its strongest term, with bumps in place of its profile."""
    if isinstance(kernel, Periodic):
        return replace(kernel, variance=1.0)
    if isinstance(kernel, Radial):
        return RBF(kernel.lengthscale, 1.0)
    children = {name: each for name, child in kernel.children.items() if (each := _nearness(child)) is not None}
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


def _widened(kernel: Kernel, factor: float) -> Kernel:
    """The kernel with all its lengthscales times ``factor``."""

    def take(name: str, value: float) -> float:
        return value * factor if ".lengthscale" in name else value

    return kernel.with_hyperparameters(take)


# --- the likelihood ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Blocks:
    """Covariances C (m, k+1, k+1) of points with their neighbours, ``members`` (m, k+1), and what is observed there."""

    covariances: torch.Tensor
    members: torch.Tensor
    real: torch.Tensor
    b: torch.Tensor

    @classmethod
    def of(
        cls, kernel: Kernel, data: Observations, members: torch.Tensor, b: torch.Tensor, origin: torch.Tensor
    ) -> _Blocks:
        real = members != NONE
        here = torch.where(real, members, 0)
        parts = []
        for some in here.split(_BATCH):
            flat = kernel.embed(data.X[some.reshape(-1)], origin)
            embedding = map_embedding(flat, partial(torch.Tensor.reshape, shape=(-1, *some.shape)))
            parts.append(torch.func.vmap(kernel.evaluate, in_dims=1)(embedding, embedding))
        both = real[:, :, None] & real[:, None, :]
        return cls(torch.where(both, torch.cat(parts), 0.0), here, real, b)

    def log_likelihood(
        self, amplitude: torch.Tensor, noise: torch.Tensor, fixed: torch.Tensor
    ) -> tuple[float, torch.Tensor]:
        """log p(b) but for a constant, and its derivatives (n, 2) in the logarithms of amplitude and noise pattern.

        Each of ``amplitude``, ``noise`` and noise that is ``fixed`` is (n,).
        """
        total, slopes = 0.0, torch.zeros(len(amplitude), 2, dtype=torch.float64, device=amplitude.device)
        for start in range(0, len(self.members), _BATCH):
            some = slice(start, start + _BATCH)
            members, real = self.members[some], self.real[some]
            s, v = (torch.where(real, each[members], 0.0) for each in (amplitude, noise))
            K = self.covariances[some] * s[:, :, None] * s[:, None, :]
            G = K.clone()
            G.diagonal(dim1=1, dim2=2).add_(torch.where(real, v + fixed[members], 1.0))
            factor, info = torch.linalg.cholesky_ex(G)
            if bool(info.any()):
                raise block_not_positive_definite(G.shape[1] - 1, int(info.max()))
            z = torch.linalg.solve_triangular(factor, torch.where(real[:, :, None], self.b[members], 0.0), upper=False)
            last, outputs = z[:, -1].clone(), z.shape[2]
            total -= float((0.5 * last.square().sum(dim=1) + outputs * factor[:, -1, -1].log()).sum())
            # as in the likelihood of ``vecchia``: the derivative in G is ½ (r uᵀ + u rᵀ)
            both = torch.cat([z, torch.zeros_like(z[:, :, :1])], dim=2)
            both[:, -1, :-1], both[:, -1, -1] = 0.0, 1.0
            solved = torch.linalg.solve_triangular(factor.mT, both, upper=True)
            a, u = solved[:, :, :-1], solved[:, :, -1]
            r = (a @ last[:, :, None])[:, :, 0] + 0.5 * (last.square().sum(dim=1) - outputs)[:, None] * u
            products = K @ torch.stack([u, r], dim=2)
            pair = torch.stack([r * products[:, :, 0] + u * products[:, :, 1], 2 * r * u * v], dim=2)
            slopes.index_add_(0, members.reshape(-1), pair.reshape(-1, 2))
        return total, slopes
