"""What ``Auto`` picks from: solvers, the time that each is going to take, and the excess that it leaves."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch

from ..errors import NotPositiveDefiniteError
from ..gram import Cross, Gram
from ..kernels import map_embedding
from ..preconditioners import Nystrom
from ..support.threads import on_one_thread
from .base import Solver
from .calibrated_cg import CalibratedCG
from .cholesky import Cholesky
from .nearest_neighbours import NearestNeighbours
from .rates import Rates

LADDER = (50, 100, 200, 400, 800)
"""The numbers of neighbours to pick from."""

PATIENCE = 600.0
"""Seconds: where no solver reaches the excess within these, what comes closest within them is picked."""

_AS_FAST = 1.5
_AT_ONCE = 0.25
"""Exact is picked where it takes at most so many times as long as the fastest, or so many seconds."""

_PROBES = 16
_TESTS_PER_PROBE = 32
"""The excess is judged at one in so many test points, at least at a few of them, at most at ``_PROBES``."""

_FEWEST_PROBES = 4
_FREE = 2e-3
"""Seconds that are not worth saving."""

_MARGIN = 0.7
"""A few test points may be kinder than all: so much of the stated excess may be expected at them."""

_SLOWEST = 0.9
_FASTEST = 0.3
"""Twice the neighbours leave between these parts of the excess: what the measured decrease is trusted for."""

_FAR_SHARE = 1.2
"""Neighbours with the far ones that a trend adds, in relation to the near ones."""

_CG_NUMBERS = 14
"""Numbers per training and test point that are alive while CG runs from neighbours."""

_ITERATIONS = 10
_MOST_RANK = 2_000
_POINTS_PER_RANK = 20
"""Ten iterations with rank 2,000 left at most 1% on data of 36,000 to 64,800 points, with little noise too."""

_TREE = 25
"""Building a search tree takes as long as looking at so many coordinates for each point and each of its levels."""

_TREE_POINTS = 150
"""Finding one more neighbour takes as long as looking at so many coordinates."""

_SHARING_FROM = 4_000
"""Test points from which on they may lie so close together that they share neighbours, which leaves less excess."""

_CLUSTERS = 4
_CLUSTER = 64
"""Then some that lie together are tried: so many times so many."""


@dataclass(frozen=True)
class Candidate:
    """A solver and the ``excess`` that it is expected to leave; None where nobody has looked."""

    solver: Solver
    excess: float | None

    def reaches(self, excess: float) -> bool:
        return self.excess is None or self.excess <= _MARGIN * excess


class Costs:
    """How long solvers take for one Gram matrix on a machine with known ``rates``."""

    def __init__(self, gram: Gram, rates: Rates) -> None:
        self._gram, self._rates = gram, rates
        self._searched = gram.search_coordinates()
        self._coordinates = gram.coordinates().shape[1]
        self.sharing = 1.0  # of the time for neighbourhoods, where test points share them

    def seconds(self, solver: Solver, tests: int, prepared: bool = False) -> float:
        """About how long ``solver`` takes for so many test points, its preparation included if it is to be done."""
        once, each = self._parts(solver, tests)
        return each if prepared else once + each

    def _parts(self, solver: Solver, tests: int) -> tuple[float, float]:
        """Seconds to prepare the solver, and to predict."""
        if isinstance(solver, NearestNeighbours):
            return self._tree(), tests * self.neighbours(solver.k)
        if isinstance(solver, CalibratedCG) and solver.start is not None:
            before, start = self._parts(solver.start, tests)
            once, each = self._counted(solver, tests)
            return before + once, start + each
        return self._counted(solver, tests)

    def _counted(self, solver: Solver, tests: int) -> tuple[float, float]:
        """The same from the operations, in as many batches as memory makes of the test points."""
        gram, pace = self._gram, self._rates.pace
        if isinstance(solver, CalibratedCG):
            solver = CalibratedCG(solver.iterations + 1, solver.preconditioner)  # one pass goes to the start
        tiles = gram.storage == "tiles"
        at_once = max(1, int(gram.working_budget // (_CG_NUMBERS * gram.size * gram.dtype.itemsize)))
        batches = -(-tests // at_once)
        once = solver.operations(gram.size, 0).seconds(tiles=tiles, pace=pace)
        if isinstance(solver, CalibratedCG):  # the passes are made for the test points
            once -= CalibratedCG(solver.iterations).operations(gram.size, 0).seconds(tiles=tiles, pace=pace)
        all_of_it = solver.operations(gram.size, -(-tests // batches)).seconds(tiles=tiles, pace=pace)
        return once, batches * (all_of_it - once)

    def neighbours(self, k: int) -> float:
        """Seconds for a test point with its k nearest neighbours, in the long run."""
        gram, rates = self._gram, self._rates
        size = min(gram.size, round(k * (1 if gram.basis is None else _FAR_SHARE)))
        return self.sharing * rates.neighbourhood(size, self._coordinates) + self._looking(k)

    def _looking(self, k: int) -> float:
        """Seconds to find the neighbours of a test point."""
        gram, rates = self._gram, self._rates
        if self._searched is None:
            return gram.size * rates.pace.kernel_value
        q = self._searched.shape[1]
        seen = min(float(gram.size), k * 3.0 ** min(q, 30))
        return rates.search * (_TREE_POINTS * k + q * seen)

    def _tree(self) -> float:
        if self._searched is None:
            return 0.0
        return _TREE * self._rates.search * self._gram.size * math.log2(max(2, self._gram.size))


# --- excess -----------------------------------------------------------------------------------------------------------


@dataclass
class Probe:
    """A few test points, at which more and more neighbours are tried."""

    gram: Gram
    cross: Cross

    def __post_init__(self) -> None:
        self._variance: dict[int, float] = {}

    @classmethod
    def of(cls, gram: Gram, cross: Cross | None, tests: int) -> Probe:
        """Some of the test points, or where there are none, training points that nobody has seen."""
        number = max(_FEWEST_PROBES, min(_PROBES, tests // _TESTS_PER_PROBE))
        some = torch.Generator().manual_seed(0)
        if cross is not None:
            rows = torch.randperm(cross.size, generator=some)[:number].sort().values.to(gram.device)
            coordinates = gram.search_coordinates(cross.seen_by(gram).test)
            if cross.size >= _SHARING_FROM and coordinates is not None and gram.device.type == "cpu":
                rows = torch.cat([_around(coordinates, int(row)) for row in rows[:: number // _CLUSTERS]]).unique()
            return cls(gram, cross.seen_by(gram).rows(rows))
        rows = torch.randperm(gram.size, generator=some)[: min(number, gram.size // 2)].to(gram.device)
        others = gram.without(rows)
        left_out = map_embedding(gram.embedding, lambda part: part[:, rows])
        return cls(others, others.cross(left_out, None if gram.basis is None else gram.basis[rows]))

    def excess(self, k: int, judged: int | None = None) -> float:
        """mean(variance − exact) / mean(exact) with k neighbours, where exact is what ``judged`` neighbours tell.

        They are k unless more are known: half as many and twice as many say how the variance goes on.
        """
        exact = self._exact(k if judged is None else judged)
        return self._mean_variance(k) / exact - 1 if exact > 0 else math.inf

    def _exact(self, k: int) -> float:
        fewer, own, more = (self._mean_variance(n) for n in (k // 2, k, 2 * k))
        gained = max(own - more, 0.0)
        ratio = min(max(gained / max(fewer - own, 1e-300), _FASTEST), _SLOWEST)
        if 2 * k >= self.gram.size:
            ratio = 0.0  # twice as many are all
        return max(own - gained / (1 - ratio), more / 2)  # an extrapolation that goes further says nothing

    def _mean_variance(self, k: int) -> float:
        k = min(k, self.gram.size)
        if k not in self._variance:
            few = self.cross.size < 2 * torch.get_num_threads()
            self._variance[k] = on_one_thread(lambda: self._try(k), self.gram.device) if few else self._try(k)
        return self._variance[k]

    def _try(self, k: int) -> float:
        prepared = NearestNeighbours(k).prepare(self.gram)
        try:
            weights = prepared.final(prepared.arrange(self.cross))
        except NotPositiveDefiniteError:
            weights = None
        left = self.cross.prior_variance() - (0 if weights is None else weights.reduction)
        return float(left.double().mean())

    def sharing(self, rates: Rates) -> float:
        """What is left of the time for neighbourhoods where test points share them."""
        k, q = min(LADDER[1], self.gram.size), self.gram.coordinates().shape[1]
        found = NearestNeighbours(k).prepare(self.gram).arrange(self.cross).neighbourhoods
        if found is None:
            return 1.0
        alone, own = rates.neighbourhood(k, q), found.group[found.group >= 0]
        seconds = (self.cross.size - len(own)) * alone
        for size, rows in zip(found.offsets.diff().tolist(), own.bincount().tolist(), strict=True):
            seconds += rates.neighbourhood(size, q) + 4 * rows * size**2 * rates.pace.flop
        return seconds / (self.cross.size * alone)


def _around(coordinates: torch.Tensor, row: int) -> torch.Tensor:
    """The test points nearest to one of them, of all ``coordinates`` (T, q)."""
    distance = (coordinates - coordinates[row]).square().sum(dim=1)
    return distance.topk(_CLUSTER, largest=False).indices


# --- the choice -------------------------------------------------------------------------------------------------------


def candidates(gram: Gram, costs: Costs, probe: Probe, tests: int, excess: float) -> list[Candidate]:
    """What there is to pick from. Neighbours are tried from few to many, as long as they can be the cheapest."""
    found = [Candidate(solver, 0.0 if solver.is_exact(gram.size) else None) for solver in others(gram)]
    limit = min((costs.seconds(each.solver, tests) for each in found), default=math.inf)
    tried: list[int] = []
    free = [k for k in LADDER if tests * costs.neighbours(k) <= _FREE]
    for k in LADDER:
        if k < max(free, default=0):
            continue  # a few more cost nothing, so there is nothing to try
        solver = NearestNeighbours(k)
        size = 2 * _FAR_SHARE * k
        if k >= gram.size or 4 * size * size * gram.dtype.itemsize > gram.budget:
            break
        if costs.seconds(solver, tests) > limit:
            break
        tried.append(k)
        if Candidate(solver, probe.excess(k)).reaches(excess):
            break
    # the more neighbours, the better they tell what is exact: one measure for all
    found += [Candidate(NearestNeighbours(k), probe.excess(k, tried[-1])) for k in tried]
    return found or [Candidate(NearestNeighbours(LADDER[0]), None)]


def others(gram: Gram) -> list[Solver]:
    """Solvers that need G as a whole, where they fit the memory."""
    found: list[Solver] = [Cholesky()] if 2 * gram.dense_bytes <= gram.budget else []
    rank = min(_MOST_RANK, gram.size // _POINTS_PER_RANK, int(gram.working_budget // (4 * 3 * 8 * gram.size)))
    if rank >= 1:
        found.append(CalibratedCG(_ITERATIONS, Nystrom(rank), start=NearestNeighbours(200)))
    return found


def pick(
    from_: Sequence[Candidate], costs: Costs, tests: int, excess: float, prepared: Collection[Solver]
) -> tuple[Candidate, str]:
    """The cheapest that reaches the excess, and why it is that, in a few words."""
    seconds = {each: costs.seconds(each.solver, tests, each.solver in prepared) for each in from_}
    wanted = f"{100 * excess:.2g}%"
    able = [each for each in from_ if each.reaches(excess) and seconds[each] <= PATIENCE]
    if not able:
        quick = [each for each in from_ if seconds[each] <= PATIENCE and each.excess is not None]
        if quick:
            return min(quick, key=lambda each: each.excess or 0.0), f"nothing reaches {wanted} within ten minutes"
        return min(from_, key=seconds.__getitem__), "all take longer than ten minutes"
    cheapest = min(able, key=seconds.__getitem__)
    for each in able:
        if each.excess == 0 and seconds[each] <= max(_AS_FAST * seconds[cheapest], _AT_ONCE):
            return each, "exact and the fastest" if each is cheapest else "exact and about as fast as any"
    return cheapest, f"the fastest within {wanted}"
