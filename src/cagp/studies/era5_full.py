"""All distinct points of ERA5, a million of them: nearest neighbours anywhere, iterative methods on a GPU."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import pandas as pd
import torch

from ..prior import Prior
from ..solvers import NearestNeighbours
from .base import AnyStudy, Drawing, Presentation, Study, Tables
from .era5_full_config import BOUNDED, HELD_OUT, ITERATED, MAP, MORE, FullConfig
from .era5_full_field import FullField, full_field
from .era5_full_figures import calibration_figure, convergence_figure, map_figure, neighbours_figure, z_figure
from .era5_full_findings import findings, iterations_found, neighbours_found, priors_found, quarters_found
from .era5_full_hyperparameters import FITTED, Era5FullHyperparameters, full_priors
from .era5_full_methods import bounded_neighbours, iterated, neighbours, tables_of, with_neighbours
from .forecast import Forecast, pass_seconds
from .place import place


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
        return 1 if place().type == "cuda" else asked  # one piece fills a GPU

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
            pass_seconds(config.d, config.held_out, dtype, place()) for dtype in (torch.float32, torch.float64)
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
