"""Does it help to start with Gauss-Seidel and go on with CG on b, as the paper's conclusion suggests?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import pandas as pd

from cagp.calibration import simulation_based_calibration
from cagp.solvers import Cholesky, ConjugateGradient, GaussSeidel, Solver, SweepsThenCG

from .drawing import LOOKS, hybrid_name, score_panels
from .problem import draw, generator, grid, make_prior, trace, uniform_points
from .study import Comparison, Drawing, Presentation, Study, Tables

_KERNEL = "Matern32"
_SHOWN = (5, 10, 20, 30, 50)
_ALONE = (GaussSeidel.name, ConjugateGradient.name)
_NOTABLE = 0.02
"""A gain that is worth a word."""


@dataclass(frozen=True)
class HybridConfig:
    """The paper's synthetic problem at ``lengthscales``, ``runs`` times, with CG after each of ``switches`` sweeps.

    Simulation-based calibration with ``simulations`` on ``sbc_runs`` sets of ``sbc_n`` points, a grid of ``sbc_side`` ×
    ``sbc_side`` test points and lengthscale ``sbc_lengthscale``, after each number of sweeps and of CG iterations in
    ``sbc_cases``.
    """

    runs: int
    sbc_runs: int
    lengthscales: tuple[float, ...] = (0.1, 0.2, 0.4)
    switches: tuple[int, ...] = (2, 5, 10, 20)
    iterations: int = 50
    n: int = 400
    side: int = 21
    noise_std: float = 0.1
    simulations: int = 1000
    sbc_n: int = 200
    sbc_side: int = 7
    sbc_lengthscale: float = 0.2
    sbc_cases: tuple[tuple[int, int], ...] = ((10, 0), (0, 10), (2, 8), (5, 5), (5, 20))

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods that are compared, by name."""
        return (*_ALONE, *(hybrid_name(switch) for switch in self.switches))


@dataclass(frozen=True)
class HybridPiece:
    """One run of the convergence at ``lengthscale``, or, without one, of the simulations."""

    run: int
    lengthscale: float | None = None


class Hybrid(Study[HybridConfig, HybridPiece]):
    """The mean's convergence, and the calibration, of Gauss-Seidel, CG on b, and the one after the other."""

    name = "hybrid"
    title = "Gauss-Seidel, then CG on b: does the hybrid help?"
    shows = "The paper's conclusion: mixing Gauss-Seidel and CG"
    scales: ClassVar[Mapping[str, HybridConfig]] = {
        "quick": HybridConfig(runs=5, sbc_runs=2, side=11, simulations=500),
        "paper": HybridConfig(runs=50, sbc_runs=20),
    }

    def pieces(self, config: HybridConfig) -> Mapping[str, HybridPiece]:
        simulated = {f"sbc-run-{run:03d}": HybridPiece(run) for run in range(config.sbc_runs)}
        converging = {
            f"{each:g}-run-{run:03d}": HybridPiece(run, each)
            for run in range(config.runs)
            for each in config.lengthscales
        }
        return simulated | converging  # the slow ones first

    def run(self, config: HybridConfig, piece: HybridPiece, seed: int) -> Tables:
        rng = generator(seed, piece.run)
        identity = {"seed": seed, "run": piece.run}
        if piece.lengthscale is None:
            prior = make_prior(_KERNEL, config.sbc_lengthscale, config.noise_std)
            X, X_test = uniform_points(config.sbc_n, rng), grid(config.sbc_side)
            simulation_seed = int(rng.integers(2**31))
            rows: list[dict[str, Any]] = []
            for sweeps, steps in config.sbc_cases:
                result = simulation_based_calibration(
                    prior,
                    X,
                    X_test,
                    _solver(sweeps, steps),
                    n_simulations=config.simulations,
                    seed=simulation_seed,
                    progress=False,
                )
                found: dict[str, Any] = {"p_value": result.p_value, "z_std": result.z_std, "verdict": result.verdict}
                rows.append({**identity, "sweeps": sweeps, "steps": steps, **found})
            return {"calibration": pd.DataFrame(rows)}
        prior = make_prior(_KERNEL, piece.lengthscale, config.noise_std)
        problem, m = draw(prior, config.n, config.side, rng), config.iterations
        solvers: dict[str, Solver] = {GaussSeidel.name: _solver(m, 0), ConjugateGradient.name: _solver(0, m)}
        solvers |= {hybrid_name(sweeps): _solver(sweeps, m - sweeps) for sweeps in config.switches if sweeps < m}
        rows = [{**row, "solver": name} for name, solver in solvers.items() for row in trace(prior, problem, solver, m)]
        rows += trace(prior, problem, Cholesky(), 1)
        return {"table": pd.DataFrame([{"lengthscale": piece.lengthscale, **identity, **row} for row in rows])}

    def present(self, config: HybridConfig, tables: Tables) -> Presentation:
        table = tables["table"]
        about = (
            f"Mean over {config.runs} runs; bands are one standard error. d = {config.n}, T = {config.side**2}. "
            "The hybrids are Gauss-Seidel up to the switch, then CG on what it left of b."
        )
        titles = {f"{each:g}": f"Matérn 3/2, ℓ = {each:g}" for each in config.lengthscales}
        by_case = table.assign(case=table["lengthscale"].map("{:g}".format))
        drawn = {
            score: score_panels(
                by_case, score, case="case", titles=titles, solvers=config.methods, ylabel=ylabel, log=log
            )
            for score, ylabel, log in (
                ("rmse", "RMSE of the latent mean", True),
                ("nll", "NLL of the latent truth", False),
            )
        }
        return Presentation(
            figures={
                "rmse": Drawing(drawn["rmse"], f"RMSE of the posterior mean against the latent truth. {about}"),
                "nll": Drawing(drawn["nll"], f"NLL of the latent truth under the marginal posteriors. {about}"),
            },
            comparisons=[_levels(config, table), _calibration(config, tables["calibration"])],
            remarks=[
                *(_finding(config, table, each) for each in config.lengthscales),
                *(_nll_finding(config, table, each) for each in config.lengthscales),
                _calibration_finding(tables["calibration"]),
                "CG starts its Krylov space anew from the residual that Gauss-Seidel left, and its first steps undo "
                "part of what the sweeps had gained in RMSE: it reduces the error in the energy norm of G, which is "
                "not the error at the test points. What CG would have learnt before the switch is lost.",
                "m counts sweeps and CG iterations together. A hybrid pays one pass over G more, for the residual.",
                "This is the hybrid on G v = b: the sweeps first. Chain([GaussSeidel(5), ConjugateGradient(10)]) "
                "applies the solvers to k(X, X′) in turn, which for b is the other way round: CG, then the sweeps.",
                "The hybrid's directions come from y, so its flag `calibrated` is False. CG on the test side, "
                "`CalibratedCG`, goes on from Gauss-Seidel in the same way and stays calibrated: "
                "Chain([GaussSeidel(5), CalibratedCG(10)]).",
                "The training points are independent and uniform, so Gauss-Seidel is used in natural order.",
            ],
        )


def _solver(sweeps: int, steps: int) -> Solver:
    if not steps:
        return GaussSeidel(sweeps, order="natural")
    return SweepsThenCG(sweeps, steps) if sweeps else ConjugateGradient(steps)


def _means(table: pd.DataFrame) -> pd.DataFrame:
    return table.groupby(["lengthscale", "solver", "m"])[["rmse", "nll"]].mean()


def _levels(config: HybridConfig, table: pd.DataFrame) -> Comparison:
    means, shown = _means(table), [m for m in _SHOWN if m <= config.iterations]
    rows = []
    for each in config.lengthscales:
        for method in config.methods:
            own = [means.loc[(each, method, m)] for m in shown]
            rows.append([f"{each:g}", LOOKS[method].label, *(f"{x.rmse:.3f} / {x.nll:.2f}" for x in own)])
        exact = means.loc[(each, Cholesky.name, 1)]
        rows.append([f"{each:g}", LOOKS[Cholesky.name].label, *[f"{exact.rmse:.3f} / {exact.nll:.2f}"] * len(shown)])
    return Comparison("RMSE / NLL, mean over runs", ["ℓ", "method", *(f"m = {m}" for m in shown)], rows)


def _calibration(config: HybridConfig, table: pd.DataFrame) -> Comparison:
    rows = []
    for (sweeps, steps), own in table.groupby(["sweeps", "steps"], sort=False):
        verdicts = ", ".join(f"{verdict} {n} of {len(own)}" for verdict, n in own["verdict"].value_counts().items())
        p = ", ".join(f"{value:.2g}" for value in own["p_value"][:5])
        flag = "yes" if _solver(sweeps, steps).calibrated else "no"
        rows.append([f"{sweeps} + {steps}", flag, p, f"{own['z_std'].min():.3f} to {own['z_std'].max():.3f}", verdicts])
    return Comparison(
        f"Simulation-based calibration at ℓ = {config.sbc_lengthscale:g}, d = {config.sbc_n}, "
        f"{config.simulations} simulations a run",
        ["sweeps + CG iterations", "flagged calibrated", "p-values (first runs)", "std of z over runs", "verdicts"],
        rows,
    )


def _finding(config: HybridConfig, table: pd.DataFrame, lengthscale: float) -> str:
    """At how many m some hybrid has a lower mean RMSE than both GS and CG, and by how much at best."""
    rmse = _means(table).loc[lengthscale]["rmse"].unstack("solver").drop(columns=Cholesky.name)
    alone = rmse[list(_ALONE)].min(axis=1)
    hybrids = rmse[[name for name in config.methods if name in rmse and name not in _ALONE]]
    gain = 1 - hybrids.min(axis=1) / alone
    ahead = gain[gain > _NOTABLE]
    if not len(ahead):
        return (
            f"Found, ℓ = {lengthscale:g}: no hybrid is at any m up to {config.iterations} more than {_NOTABLE:.0%} "
            "ahead in RMSE of the better one of Gauss-Seidel and CG alone."
        )
    best = int(gain.idxmax())
    return (
        f"Found, ℓ = {lengthscale:g}: at {len(ahead)} of {config.iterations} m (from {ahead.index[0]} to "
        f"{ahead.index[-1]}) a hybrid is more than {_NOTABLE:.0%} ahead in RMSE of the better one of Gauss-Seidel and "
        f"CG alone, most at m = {best}: {hybrids.loc[best].min():.3f} ({LOOKS[str(hybrids.loc[best].idxmin())].label}) "
        f"against {alone[best]:.3f}."
    )


def _nll_finding(config: HybridConfig, table: pd.DataFrame, lengthscale: float) -> str:
    """Who has which NLL after the last iteration."""
    nll = _means(table).loc[lengthscale]["nll"]
    last = nll.xs(config.iterations, level="m")
    best = last[[name for name in config.methods if name in last and name not in _ALONE]]
    return (
        f"Found, ℓ = {lengthscale:g}: NLL at m = {config.iterations}: {best.min():.2f} "
        f"({LOOKS[str(best.idxmin())].label}), Gauss-Seidel {last[GaussSeidel.name]:.2f}, "
        f"CG {last[ConjugateGradient.name]:.2f}, exact {nll[(Cholesky.name, 1)]:.2f}."
    )


def _calibration_finding(table: pd.DataFrame) -> str:
    mixed = table[(table["sweeps"] > 0) & (table["steps"] > 0)]
    counts = ", ".join(f"{verdict} {n}" for verdict, n in mixed["verdict"].value_counts().items())
    low, high = mixed["z_std"].min(), mixed["z_std"].max()
    return (
        f"Found: of {len(mixed)} simulation-based calibrations of a hybrid the verdicts are: {counts}; the standard "
        f"deviation of z is between {low:.3f} and {high:.3f}, where 1 is calibrated, less is "
        "too wide error bars and more is too narrow ones."
    )
