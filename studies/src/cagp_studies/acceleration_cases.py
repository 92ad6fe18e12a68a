"""What the study `acceleration` compares: solvers with their sizes and looks, and data sets, each with its prior."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from cagp import datasets
from cagp.datasets import Dataset, era5_grid
from cagp.hyperparameters import fit
from cagp.kernels import Matern32
from cagp.preconditioners import Jacobi, Nystrom, Preconditioner, SymmetricGaussSeidel
from cagp.prior import Prior
from cagp.solvers import (
    CalibratedCG,
    Chain,
    ConjugateGradient,
    GaussSeidel,
    NearestNeighbours,
    RandomDirections,
    RandomKrylov,
    Solver,
    Subset,
)

from .drawing import Look
from .era5_hyperparameters import KNOWN
from .machine import default_device
from .problem import Problem, draw, generator, make_prior
from .uci import split

MARKS = (1, 2, 5, 10, 20)
"""Data-side solvers do all iterations before their first prediction, so each of these is a run with its own time."""

NEIGHBOURS = "neighbours"
"""The method that reads no pass of G."""


@dataclass(frozen=True)
class Sizes:
    """How large the solvers are: points in a block, rank of ``Nystrom``, ``neighbours`` as a method of their own and
    ``start`` of them to start from, vectors in a block of ``RandomKrylov``, points of a ``Subset``. ``iterations`` is
    the most for every solver, ``sweeps`` those of Gauss-Seidel before CG in the hybrid.
    """

    block: int
    rank: int
    start: int
    neighbours: tuple[int, ...]
    krylov: int
    subsets: tuple[int, ...]
    iterations: int = 20
    sweeps: int = 5

    def marks(self) -> tuple[int, ...]:
        """After how many iterations data-side solvers are run."""
        return tuple(m for m in MARKS if m <= self.iterations)


@dataclass(frozen=True)
class Variant:
    """A solver to run. ``every``: all its iterations are of interest, each with the time up to it; else the last."""

    label: str
    solver: Solver
    every: bool


@dataclass(frozen=True)
class Method:
    """``variants`` are what is run for it, and drawn as one line; ``group`` is the row of panels it is drawn in."""

    look: Look
    group: str
    variants: Callable[[Sizes], Iterator[Variant]]


SWEEPS, TEST_SIDE = "sweeps and directions", "conjugate gradients from the test points"
"""The groups."""


def _every(make: Callable[[Sizes], Solver]) -> Callable[[Sizes], Iterator[Variant]]:
    """One run, of which every iteration is shown."""

    def variants(sizes: Sizes) -> Iterator[Variant]:
        yield Variant("", make(sizes), True)

    return variants


def _at_marks(make: Callable[[Sizes, int], Solver]) -> Callable[[Sizes], Iterator[Variant]]:
    """One run for each number of iterations."""

    def variants(sizes: Sizes) -> Iterator[Variant]:
        for m in sizes.marks():
            yield Variant("", make(sizes, m), False)

    return variants


def _neighbours(sizes: Sizes) -> Iterator[Variant]:
    for k in sizes.neighbours:
        yield Variant(f"k = {k}", NearestNeighbours(k), False)


def _subsets(sizes: Sizes) -> Iterator[Variant]:
    for size in sizes.subsets:
        yield Variant(f"{size:,} points", Subset(size=size), False)


def _cg(make: Callable[[Sizes], Preconditioner | None], near: bool) -> Callable[[Sizes], Iterator[Variant]]:
    """``CalibratedCG`` from zero, or from the weights on the nearest neighbours."""
    return _every(
        lambda sizes: CalibratedCG(
            # the neighbours' step counts as an iteration, the residual after it as a pass
            sizes.iterations - near,
            make(sizes),
            start=NearestNeighbours(sizes.start) if near else None,
        )
    )


_PRECONDITIONERS: Sequence[tuple[str, str, str, str, Callable[[Sizes], Preconditioner | None]]] = (
    ("none", "no preconditioner", "#000000", "o", lambda sizes: None),
    ("jacobi", "Jacobi", "#E69F00", "x", lambda sizes: Jacobi()),
    ("sgs", "symmetric GS", "#009E73", "s", lambda sizes: SymmetricGaussSeidel(sizes.block)),
    ("nystrom", "Nyström", "#0072B2", "^", lambda sizes: Nystrom(sizes.rank)),
)

_DASHED = (0, (4, 1.5))

METHODS: dict[str, Method] = {
    "gs-natural": Method(
        Look("GS, natural order", "#0072B2", "-", "o"), SWEEPS, _every(lambda s: GaussSeidel(s.iterations, "natural"))
    ),
    "gs-random": Method(
        Look("GS, random order", "#56B4E9", _DASHED, "v"), SWEEPS, _every(lambda s: GaussSeidel(s.iterations))
    ),
    "gs-blocks": Method(
        Look("GS, spatial blocks", "#009E73", "-.", "s"),
        SWEEPS,
        _every(lambda s: GaussSeidel(s.iterations, block_size=s.block, partition="spatial")),
    ),
    "cg-on-b": Method(
        Look("CG on b*", "#D55E00", "--", "X"), SWEEPS, _at_marks(lambda s, m: ConjugateGradient(iterations=m))
    ),
    "hybrid": Method(
        Look("chain of GS and CG on b*", "#CC79A7", (0, (3, 1, 1, 1)), "P"),
        SWEEPS,
        _at_marks(lambda s, m: Chain([GaussSeidel(s.sweeps), ConjugateGradient(m)])),
    ),
    "random-krylov": Method(
        Look("random Krylov", "#E69F00", "-", "^"), SWEEPS, _at_marks(lambda s, m: RandomKrylov(m, s.krylov))
    ),
    "random-directions": Method(
        Look("random directions", "#999999", ":", "*"), SWEEPS, _at_marks(lambda s, m: RandomDirections(m))
    ),
    "subset": Method(Look("subset", "#000000", (0, (1, 1)), "D"), SWEEPS, _subsets),
    **{
        f"cg-{key}": Method(Look(f"CG, {words}", color, "-", marker), TEST_SIDE, _cg(make, near=False))
        for key, words, color, marker, make in _PRECONDITIONERS
    },
    **{
        f"near-{key}": Method(
            Look(f"neighbours, then CG, {words}", color, _DASHED, marker), TEST_SIDE, _cg(make, near=True)
        )
        for key, words, color, marker, make in _PRECONDITIONERS
    },
    NEIGHBOURS: Method(Look("neighbours alone", "#D55E00", ":", "D"), TEST_SIDE, _neighbours),
}
"""All methods by name; * marks those that are not calibrated."""


def calibrated(method: str, sizes: Sizes) -> bool:
    """Whether every solver of a method is."""
    return all(variant.solver.calibrated for variant in METHODS[method].variants(sizes))


# --- data sets --------------------------------------------------------------------------------------------------------


TITLES = {
    "synthetic": "Synthetic",
    "uneven": "Synthetic, uneven noise",
    "concrete": "Concrete",
    "bike": "Bike",
    "kin40k": "kin40k",
    "protein": "Protein",
    "era5": "ERA5",
}
"""The data sets by name."""

TABLES = ("concrete", "bike", "kin40k", "protein")
"""Those that are a loader in ``cagp.datasets``, standardised, with hyperparameters to fit."""

UNITS = {
    "rmse": dict.fromkeys(TABLES, " (std of the target)") | {"era5": " (K)"},
    "nll": dict.fromkeys(TABLES, " (standardised target)") | {"era5": " (temperature in K)"},
}
"""Of a score on a data set, where it has one, for the label of an axis."""

_LENGTHSCALE, _NOISE_STD = 0.2, 0.1
_UNEVEN = (0.1, 3.0)


@dataclass(frozen=True)
class Case:
    """A data set with ``d`` training and ``T`` test points, and the sizes of the solvers.

    For ``synthetic`` and ``uneven``, T is a square number; for ``era5``, d is twice one: the grid is n × 2n.
    Hyperparameters of tables are fitted to ``fit_points``.
    """

    name: str
    d: int
    T: int
    sizes: Sizes
    fit_points: int = 0


@dataclass(frozen=True)
class Posed:
    """A problem with its prior; ``of`` says what the truth in it is: "latent" or "observed" values."""

    prior: Prior
    problem: Problem
    of: str

    def facts(self) -> Mapping[str, Any]:
        """What one must know to compare data sets: sizes, and noise relative to the prior variance of f."""
        d, p = self.problem.X.shape
        variance = float(self.prior.kernel(self.problem.X_test[:1])[0, 0])
        noise = self.prior.noise(torch.from_numpy(self.problem.X))
        return {
            "d": d,
            "T": len(self.problem.truth),
            "dimension": p,
            "noise": float(noise.mean()) / variance,
            "of": self.of,
        }


def pose(case: Case, seed: int) -> Posed:
    """The problem of a case."""
    rng = generator(seed, list(TITLES).index(case.name))
    if case.name in TABLES:
        return _table(case, rng)
    if case.name == "era5":
        n = round((case.d / 2) ** 0.5)
        grid = era5_grid(n, 2 * n)
        test = grid.held_out(case.T, seed)
        return Posed(KNOWN.prior(), Problem(grid.X, grid.y, test.X, test.y), "observed")
    prior = make_prior("Matern32", _LENGTHSCALE, _NOISE_STD)
    if case.name == "uneven":
        low, high = np.log(_UNEVEN)
        prior = Prior(prior.kernel, noise_variance=np.exp(rng.uniform(low, high, size=case.d)) ** 2)
    return Posed(prior, draw(prior, case.d, round(case.T**0.5), rng), "latent")


def _table(case: Case, rng: np.random.Generator) -> Posed:
    data: Dataset = getattr(datasets, case.name)()
    problem, _ = split(data, round(case.d / 0.9), case.T, rng)
    start = Prior(Matern32((2.0,) * problem.X.shape[1]), noise_variance=0.1)
    fitted = fit(
        start,
        problem.X,
        problem.y,
        likelihood="exact",
        subset=min(case.fit_points, len(problem.y)),
        seed=int(rng.integers(2**31)),
        n_restarts=0,
        tolerance=1e-3,
        standard_errors=False,
        device=default_device(),
        progress=False,
    )
    return Posed(fitted.prior, problem, "observed")
