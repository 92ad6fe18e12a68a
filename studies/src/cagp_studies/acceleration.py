"""How fast which solver gets how close to the exact posterior: by passes over G, and by the clock."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
import torch

from cagp.prediction import Prediction
from cagp.prior import Prior
from cagp.solvers import Cholesky, GaussSeidel, Solver
from cagp.support.memory import available_bytes, require, resolve_budget

from .acceleration_cases import METHODS, TITLES, Case, Posed, Sizes, pose
from .acceleration_results import comparisons, figures, findings
from .machine import Forecast, default_device, measure
from .problem import errors
from .study import Presentation, Study, Tables

_SHARE_OF_GPU = 0.9
_EVALUATIONS = 60
_WARM_UP = 100


def _quick(d: int) -> Sizes:
    return Sizes(128, d // 8, 50, (10, 30, 100, 300), 16, (d // 16, d // 8, d // 4, d // 2))


def _large(rank: int) -> Sizes:
    return Sizes(1024, rank, 500, (30, 100, 300, 500), 64, (500, 1000, 2000, 4000, 8000))


@dataclass(frozen=True)
class AccelerationConfig:
    """The data sets, each with its sizes."""

    cases: tuple[Case, ...]


@dataclass(frozen=True)
class AccelerationPiece:
    """One data set."""

    case: Case


class Acceleration(Study[AccelerationConfig, AccelerationPiece]):
    """All solvers on synthetic and real data; the exact GP is computed for every one of them."""

    name = "acceleration"
    title = "Acceleration: excess variance against passes over G and against time"
    shows = "What the paper's conclusion asks for: faster calibrated solvers"
    alone = True
    scales: ClassVar[Mapping[str, AccelerationConfig]] = {
        "quick": AccelerationConfig(
            (
                Case("synthetic", 1600, 25, _quick(1600)),
                Case("uneven", 1600, 25, _quick(1600)),
                *(Case(name, d, 25, _quick(d), 300) for name, d in (("concrete", 927), ("bike", 1600))),
                *(Case(name, 1600, 25, _quick(1600), 300) for name in ("kin40k", "protein")),
                Case("era5", 1800, 25, _quick(1800)),
            )
        ),
        "paper": AccelerationConfig(
            (
                Case("synthetic", 10_000, 100, _large(1000)),
                Case("uneven", 10_000, 100, _large(1000)),
                Case("concrete", 927, 100, _quick(927), 927),
                Case("bike", 15_642, 200, _large(2000), 4000),
                Case("kin40k", 36_000, 200, _large(2000), 8000),
                Case("protein", 41_157, 200, _large(2000), 8000),
                Case("era5", 64_800, 100, _large(4000)),
            )
        ),
    }

    def pieces(self, config: AccelerationConfig) -> Mapping[str, AccelerationPiece]:
        # the largest first: where it does not fit, one knows at once
        return {case.name: AccelerationPiece(case) for case in sorted(config.cases, key=lambda case: -case.d)}

    def forecast(self, config: AccelerationConfig, pieces: Sequence[AccelerationPiece]) -> Forecast:
        seconds, memory = 0.0, 0.0
        for case in (piece.case for piece in pieces):
            rates, sizes = measure(case.T, default_device()), case.sizes
            runs = [variant for method in METHODS.values() for variant in method.variants(sizes)]
            sweeps = sum(sizes.iterations for run in runs if run.every)
            products = sum(sizes.iterations for run in runs if not run.every)
            n = min(case.fit_points, case.d)
            seconds += _EVALUATIONS * (3 * rates.factor(n) + 20 * rates.assemble(n))
            seconds += rates.factor(case.d) + len(runs) * rates.assemble(case.d)
            seconds += sweeps * rates.sweep(case.d, case.T, False) + products * rates.product(case.d, False)
            memory = max(memory, _bytes(case))
        return Forecast(seconds, memory)

    def run(self, config: AccelerationConfig, piece: AccelerationPiece, seed: int) -> Tables:
        case, device = piece.case, default_device()
        budget = int(_SHARE_OF_GPU * available_bytes(device)) if device.type == "cuda" else resolve_budget(None, device)
        what = f"the exact GP of {case.d:,} points, which {TITLES[case.name]} is compared with,"
        require(_bytes(case), budget, what, "take a GPU with more memory, or --scale quick")
        posed = pose(case, seed)
        bench = _Bench(posed, device, budget)
        bench.warm_up()
        [(exact, seconds)] = bench.posteriors(Cholesky(), every=True)
        scores = errors(exact, posed.problem.truth, posed.of)
        identity = {"data": case.name, "seed": seed}
        facts = {
            **identity,
            **posed.facts(),
            **{f"exact_{name}": value for name, value in scores.items()},
            "exact_seconds": seconds,
            "device": device.type,
        }
        variance = exact.variance
        del exact  # and with it G and its factor
        rows = []
        for method, how in METHODS.items():
            for variant in how.variants(case.sizes):
                label = {**identity, "method": method, "variant": variant.label, "solver": repr(variant.solver)}
                rows += [
                    {**label, **row} for row in _rows(bench.posteriors(variant.solver, variant.every), posed, variance)
                ]
        return {"table": pd.DataFrame(rows), "data": pd.DataFrame([facts])}

    def present(self, config: AccelerationConfig, tables: Tables) -> Presentation:
        facts = tables["data"].set_index("data")
        return Presentation(
            figures=figures(config.cases, tables["table"], facts),
            comparisons=comparisons(config.cases, tables["table"], facts),
            remarks=[
                *findings(config.cases, tables["table"]),
                "Excess is mean(variance − exact variance) / mean(exact variance) over the test points, of the latent "
                "f; it does not depend on y but for the methods marked *, which are not calibrated: there it says how "
                "wide the error bars are, not that they are right.",
                "A pass reads the whole of G once, with all test points side by side; CG on b and the random "
                "directions read it with one or a few vectors, which is cheaper by the clock. Neighbours read none, a "
                "subset the square of its share of the points. What a preconditioner needs is no pass and counts in "
                "the seconds only. Going on from neighbours takes a pass to find what they left over. The hybrid runs "
                "its sweeps on b as well, to find what they left of it: these passes with one vector are not counted.",
                "Seconds are from the start, the assembly of G and all preparation included, on one thread of the "
                "processor or on the GPU. Data-side solvers prepare all iterations at once: each of their points is a "
                "run of its own. With few test points, as here, they cannot show their strength, which is that more "
                "test points cost next to nothing.",
                "With the same noise everywhere and a stationary kernel, the diagonal of G is constant and Jacobi is "
                "plain CG. On `Synthetic, uneven noise` the standard deviation of the noise goes from 0.1 to 3.",
                "RMSE and NLL: of the latent f on synthetic data, of held-out observations elsewhere, in standard "
                "deviations of the target for the tables and in kelvin for ERA5. They are averages over few test "
                "points; excess, which does not depend on the truth there, is the better measure of convergence.",
            ],
        )


def _bytes(case: Case) -> int:
    """G and its factor, and beside it test-side vectors or a preconditioner."""
    return 8 * case.d * (2 * case.d + 8 * case.T)


def _rows(
    posteriors: Iterator[tuple[Prediction, float]], posed: Posed, exact: np.ndarray
) -> Iterator[dict[str, int | float]]:
    """How far each posterior is from the ``exact`` variances (T,) on average and at worst, and from the truth."""
    for posterior, seconds in posteriors:
        more = posterior.variance - exact
        yield {
            "m": int(posterior.iterations[0]),
            "passes": posterior.passes,
            "seconds": seconds,
            "excess": float(more.mean() / exact.mean()),
            "worst": float((more / exact).max()),
            **errors(posterior, posed.problem.truth, posed.of),
        }


class _Bench:
    """Posteriors of a problem with the time that they took."""

    def __init__(self, posed: Posed, device: torch.device, budget: int) -> None:
        self._posed, self._device, self._budget = posed, device, budget

    def warm_up(self) -> None:
        """What is done once in a process, such as loading the libraries of a GPU, is not the first solver's fault."""
        posed = self._posed
        part = slice(0, _WARM_UP)
        prior = Prior(posed.prior.kernel, mean=posed.prior.mean, noise_variance=1.0)
        for solver in (Cholesky(), GaussSeidel(1)):
            prior.condition(posed.problem.X[part], posed.problem.y[part], solver, device=self._device).predict(
                posed.problem.X_test, progress=False
            )

    def posteriors(self, solver: Solver, every: bool) -> Iterator[tuple[Prediction, float]]:
        """After every iteration, or the last; the clock stands still while the posterior is looked at."""
        posed, seconds = self._posed, 0.0
        start = self._now()
        model = posed.prior.condition(
            posed.problem.X, posed.problem.y, solver, device=self._device, memory_budget=self._budget
        )
        test = posed.problem.X_test
        for posterior in model.iterate(test) if every else iter([model.predict(test, progress=False)]):
            seconds += self._now() - start
            yield posterior, seconds
            start = self._now()
        del model, posterior  # G must go before that of the next solver comes
        if self._device.type == "cuda":
            torch.cuda.empty_cache()

    def _now(self) -> float:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        return time.perf_counter()
