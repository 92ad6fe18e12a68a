"""All distinct points of ERA5, a million of them: nearest neighbours anywhere, iterative methods on a GPU."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
import torch

from cagp.prior import Prior
from cagp.solvers import NearestNeighbours
from cagp.support.memory import human

from .drawing import LOOKS
from .era5_full_figures import calibration_figure, convergence_figure, map_figure, neighbours_figure, z_figure
from .era5_full_methods import bounded_neighbours, iterated, neighbours, tables_of, with_neighbours
from .era5_full_setting import (
    BOUNDED,
    COARSE,
    FITTED,
    FREE,
    HELD_OUT,
    ITERATED,
    MAP,
    MORE,
    PRIOR_WORDS,
    Era5FullHyperparameters,
    FullConfig,
    FullField,
    full_field,
    full_priors,
    rows_of,
    z_of,
)
from .machine import Forecast, default_device, pass_seconds
from .study import AnyStudy, Comparison, Drawing, Presentation, Study, Tables

_QUARTERS = ("smoothest quarter", "second", "third", "roughest quarter")


def priors_found(config: FullConfig, table: pd.DataFrame) -> Comparison:
    """Nearest neighbours with each set of hyperparameters, on both samples."""
    rows = []
    for name in config.names:
        for sample in (HELD_OUT, MORE):
            found = _neighbours(config, table, name, sample)
            points = config.more if sample == MORE else config.held_out
            rows.append(
                [
                    PRIOR_WORDS[name],
                    f"{points:,}",
                    f"{found['rmse']:.3f}",
                    f"{found['nll']:.3f}",
                    f"{found['z_std']:.2f}",
                    f"{found['p_value']:.1g}",
                    f"{100 * found['coverage_50']:.0f}%",
                    f"{100 * found['coverage_95']:.1f}%",
                    found["verdict"],
                ]
            )
    return Comparison(
        f"Is the model calibrated? {config.neighbours[-1]} nearest neighbours at held-out field values, noise "
        "included; the verdict is that of four tests (uniformity, mean, std, coverage) at a joint level of 1%",
        ["hyperparameters", "points", "RMSE (K)", "NLL", "std of z", "KS p-value", "in the 50% interval",
         "in the 95% interval", "verdict"],
        rows,
    )  # fmt: skip


def quarters_found(config: FullConfig, predictions: pd.DataFrame) -> Comparison:
    """The std of z where the field is smooth and where it is rough."""
    rows = []
    for name in config.names:
        chosen = rows_of(predictions, name, NearestNeighbours.name, MORE, config.neighbours[-1])
        by_spread = np.array_split(z_of(config, name, chosen)[np.argsort(chosen["spread"].to_numpy())], len(_QUARTERS))
        rows.append([PRIOR_WORDS[name], *(f"{np.sqrt(np.square(z).mean()):.2f}" for z in by_spread)])
    return Comparison(
        f"Root mean square of z at the {config.more:,} held-out points, by the spread of the nine nearest "
        "observations; 1 where calibrated",
        ["hyperparameters", *_QUARTERS],
        rows,
    )


def neighbours_found(config: FullConfig, table: pd.DataFrame) -> Comparison:
    """What more neighbours bring, and cost."""
    rows = []
    for name in config.names:
        found = rows_of(table, name, NearestNeighbours.name, MORE).sort_values("k")
        best = found["mean_variance"].iloc[-1]
        for row in found.itertuples():
            more = "–" if row.k == config.neighbours[-1] else f"{100 * (row.mean_variance / best - 1):.3g}%"
            rows.append(
                [PRIOR_WORDS[name], str(row.k), f"{row.rmse:.4f}", f"{row.nll:.3f}", more, f"{row.seconds:.1f}"]
            )
    return Comparison(
        f"Nearest neighbours at {config.more:,} held-out points: excess of the mean variance over that of k = "
        f"{config.neighbours[-1]}, and time with the search tree",
        ["hyperparameters", "k", "RMSE (K)", "NLL", "excess", "seconds"],
        rows,
    )


def iterations_found(config: FullConfig, table: pd.DataFrame) -> Comparison:
    """The iterative methods and nearest neighbours on the same points, with certified shares."""
    rows = []
    for name in config.iterated:
        methods = {each: rows_of(table, name, each, HELD_OUT).sort_values(["k", "m"]) for each in (*ITERATED, BOUNDED)}
        best = min(found["mean_variance"].min() for found in methods.values())
        for each, found in methods.items():
            for row in found.itertuples():
                label = f"{row.k} nearest neighbours" if each == BOUNDED else f"{LOOKS[each].label}, m = {row.m}"
                rows.append(
                    [
                        PRIOR_WORDS[name],
                        label,
                        f"{row.rmse:.3f}",
                        f"{row.nll:.3f}",
                        f"{row.z_std:.2f}",
                        f"{100 * (row.mean_variance / best - 1):.3g}%",
                        f"{100 * row.share_lower:.2g}% to {100 * row.share_upper:.2g}%",
                        f"{row.seconds:.1f}",
                        "–" if np.isnan(row.certificate_seconds) else f"{row.certificate_seconds:.1f}",
                        f"{row.bounds_seconds:.1f}",
                    ]
                )
    return Comparison(
        f"{config.held_out} held-out points, {config.d:,} training points. Excess: over the lowest certified variance, "
        "which is the closest to the exact one. Share: of the variance that is computational, certified. Seconds: of "
        "an iteration, of a certificate, and of the bounds",
        ["hyperparameters", "method", "RMSE (K)", "NLL", "std of z", "excess", "share", "seconds", "certificate",
         "bounds"],
        rows,
    )  # fmt: skip


def findings(config: FullConfig, table: pd.DataFrame) -> list[str]:
    """Remarks: what was found, what was left out and why."""
    nll = {name: _neighbours(config, table, name, MORE)["nll"] for name in config.names}
    verdicts = {name: _neighbours(config, table, name, MORE)["verdict"] for name in config.names}
    fitted, seconds = config.prior(FITTED), table.loc[table["solver"] == MAP, "seconds"].iloc[0]
    return [
        _verdict(config, table, verdicts),
        f"Hyperparameters of the map and the iterative methods: {PRIOR_WORDS[FITTED]} (amplitude "
        f"{fitted.amplitude:.3g} K, lengthscale {fitted.lengthscale:.3g} Earth radii, noise {fitted.noise_std:g} K). "
        f"NLL at {config.more:,} "
        f"held-out points: {nll[FITTED]:.3f}, against {nll[COARSE]:.3f} ({PRIOR_WORDS[COARSE]}) and {nll[FREE]:.3f} "
        f"({PRIOR_WORDS[FREE]}: {config.prior(FREE).noise_std:.2g} K). `era5-full-hyperparameters` says why the "
        "noise is held.",
        f"The map: {config.map_neighbours} nearest neighbours at every point of the grid in {seconds:.0f} s, search "
        "tree included, on the processor, also where there is a GPU.",
        "Held-out points are drawn uniformly from the points of the grid, so that there are as many near the poles, "
        "where points lie close together, as at the equator.",
        *_left_out(config, table),
    ]


def _verdict(config: FullConfig, table: pd.DataFrame, verdicts: dict[str, str]) -> str:
    if all(verdict == "calibrated" for verdict in verdicts.values()):
        return f"The model is not rejected on {config.more:,} held-out points with any hyperparameters."
    said = "; ".join(f"{PRIOR_WORDS[name]}: {verdict}" for name, verdict in verdicts.items())
    found = _neighbours(config, table, FITTED, MORE)
    return (
        f"The model is rejected on {config.more:,} held-out points ({said}). This is no fault of the computation: "
        "nearest neighbours are calibrated under the prior. One stationary prior serves oceans and mountains: with "
        f"the hyperparameters from {PRIOR_WORDS[FITTED]}, {100 * found['coverage_50']:.0f}% of the points lie in "
        "their 50% intervals, "
        f"{100 * found['coverage_95']:.1f}% in their 95% intervals, and z by quarters of roughness differs "
        "severalfold (the table). Error bars are right on average at best, too wide over smooth and too narrow "
        "over rough ground."
    )


def _left_out(config: FullConfig, table: pd.DataFrame) -> list[str]:
    """Why there are no iterative methods, where there are none."""
    if ITERATED[0] in set(table["solver"]):
        return []
    operations = 2 * config.d**2 * config.held_out
    scale = "paper" if config.thin == 1 else "quick"
    return [
        "LEFT OUT: GaussSeidel and CalibratedCG, and the certified bounds for nearest neighbours, because there was "
        f"no GPU: each pass over the Gram matrix of {config.d:,} points with {config.held_out} right-hand sides is "
        f"{operations:.1e} operations, and the three methods need some eighty of them. On a machine with a CUDA GPU "
        f"(with a memory budget of {human(config.sizes.memory)}) `cagp reproduce era5-full --scale {scale}` "
        "with the same output folder adds them and keeps what is done."
    ]


def _neighbours(config: FullConfig, table: pd.DataFrame, name: str, sample: str) -> pd.Series:
    """The row of the largest k."""
    return rows_of(table, name, NearestNeighbours.name, sample, config.neighbours[-1]).iloc[0]


# --- the study --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FullPiece:
    """``method`` is the map, nearest neighbours on a sample, an iterative method, or the bounds for neighbours."""

    method: str
    prior: str
    sample: str = HELD_OUT


class Era5Full(Study[FullConfig, FullPiece]):
    """The table has a row for each method, k or m, and sample of held-out points; "predictions" has error = mean −
    truth, the latent std and, for nearest neighbours, the spread of the nine nearest observations; "map" the mean and
    the latent std on the whole grid, row by row from 90° N and 0° E, each pole a row of equal numbers.
    """

    name = "era5-full"
    revision: ClassVar[int] = 2  # tighter bounds
    title = "ERA5: the million"
    shows = "nothing in the paper: the same field with all its distinct points, 16 times as many as the paper uses"
    builds_on: ClassVar[AnyStudy | None] = Era5FullHyperparameters()
    scales: ClassVar[Mapping[str, FullConfig]] = {
        "quick": FullConfig(thin=4, neighbours=(10, 30, 100)),
        "paper": FullConfig(thin=1),
    }

    def complete(self, config: FullConfig, tables: Tables) -> FullConfig:
        priors = full_priors(tables)
        return dataclasses.replace(config, priors=tuple(priors[name] for name in config.names))

    def side_by_side(self, asked: int) -> int:
        return 1 if default_device().type == "cuda" else asked  # one piece fills a GPU

    def pieces(self, config: FullConfig) -> Mapping[str, FullPiece]:
        pieces = {MAP: FullPiece(MAP, FITTED)}
        for name in config.names:
            for sample in (HELD_OUT, MORE):
                pieces[f"neighbours-{name}-{sample}"] = FullPiece(NearestNeighbours.name, name, sample)
        if config.iterates():
            pieces |= {f"{each}-{name}": FullPiece(each, name) for name in config.iterated for each in _LARGE}
        return pieces

    def forecast(self, config: FullConfig, pieces: Sequence[FullPiece]) -> Forecast | None:
        """Of the iterative methods, which solve in single precision and certify in double; the rest is soon over."""
        large = [piece for piece in pieces if piece.method in _LARGE]
        if not large:
            return None
        iterative, recorded = sum(piece.method != BOUNDED for piece in large), config.sizes.recorded
        # CG begins with a residual; a certificate at its start too, and one to see what it takes; three for bounds
        solved = iterative * (recorded[-1] + 1)
        certified = iterative * (len(recorded) + 2) + 3 * len(large)
        single, double = (
            pass_seconds(config.d, config.held_out, dtype, default_device()) for dtype in (torch.float32, torch.float64)
        )
        return Forecast(solved * single + certified * double, config.sizes.memory)

    def run(self, config: FullConfig, piece: FullPiece, seed: int) -> Tables:
        field, prior = full_field(config.thin), config.prior(piece.prior).prior()
        identity = {"seed": seed, "prior": piece.prior, "solver": piece.method}
        if piece.method == MAP:
            return _map(config, field, prior, seed, identity)
        hidden = field.held_out(config.held_out + (config.more if piece.sample == MORE else 0), seed)
        problem = field.without(hidden, hidden[config.held_out :] if piece.sample == MORE else hidden)
        if piece.method == BOUNDED:
            found = bounded_neighbours(prior, problem, config.neighbours, config.sizes)
        elif piece.method in ITERATED:
            found = iterated(prior, problem, piece.method, config.sizes, seed)
        else:
            found = neighbours(prior, problem, config.neighbours)
        identity |= {"sample": piece.sample, "d": len(problem.y)}
        return tables_of(found, problem, identity, spread=piece.method == NearestNeighbours.name)

    def present(self, config: FullConfig, tables: Tables) -> Presentation:
        table, predictions = tables["table"], tables["predictions"]
        figures = {
            "map": map_figure(config, tables[MAP], predictions),
            "neighbours": neighbours_figure(config, table),
            "calibration": calibration_figure(config, predictions),
            "z": z_figure(config, predictions),
        }
        comparisons = [
            priors_found(config, table),
            quarters_found(config, predictions),
            neighbours_found(config, table),
        ]
        if ITERATED[0] in set(table["solver"]):
            figures["convergence"] = convergence_figure(config, table)
            comparisons.append(iterations_found(config, table))
        drawings = {name: Drawing(figure, caption) for name, (figure, caption) in figures.items()}
        return Presentation(drawings, comparisons, findings(config, table))


_LARGE = (*ITERATED, BOUNDED)


def _map(config: FullConfig, field: FullField, prior: Prior, seed: int, identity: dict[str, object]) -> Tables:
    """Mean and latent std on the whole grid, in mK and a tenth of that."""
    hidden = field.held_out(config.held_out, seed)
    problem = field.without(hidden, hidden)
    start = time.perf_counter()
    posterior = with_neighbours(prior, problem, config.map_neighbours).predict(field.X, progress=False)
    seconds = time.perf_counter() - start
    row = {**identity, "d": len(problem.y), "k": config.map_neighbours, "m": 0, "seconds": seconds}
    mean, std = (field.on_map(values).ravel() for values in (posterior.mean.round(3), posterior.std.round(4)))
    return {"table": pd.DataFrame([row]), MAP: pd.DataFrame({"mean": mean, "std": std})}
