"""The solvers that the study `acceleration` compares, how large they are, and how they are drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ..preconditioners import Jacobi, Nystrom, Preconditioner, SymmetricGaussSeidel
from ..solvers import (
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
from .style import Look

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
