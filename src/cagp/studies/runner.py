"""Runs a study: the missing pieces in parallel, then tables, figures and the record for the report."""

from __future__ import annotations

import dataclasses
import io
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import joblib
import pandas as pd
import torch

from ..progress import progress
from ..validation import choice, count
from .base import SCALES, AnyStudy, Drawing, Tables
from .environment import describe
from .files import write_atomically
from .pieces import Finished, PieceStore, fingerprint
from .record import Record

_PNG_DPI = 150


def run_study(
    study: AnyStudy, out: Path, *, scale: str = "quick", seed: int = 0, jobs: int = 1, show: bool | None = None
) -> Record:
    """Run ``study`` at a scale and leave tables, figures and a record in ``out``/<name of the study>.

    Pieces that were finished before with the same configuration and seed are not computed again. ``jobs`` processes
    work in parallel; ``show`` is for the progress bar, as everywhere.
    """
    config = study.scales[choice(scale, "scale", SCALES)]
    count(seed, "seed")
    count(jobs, "jobs", minimum=1)
    folder = out / study.name
    store = PieceStore(folder / "pieces", fingerprint(study, config, seed))
    finished = _finish(study, config, store, seed, jobs, show)

    pieces = finished.values()
    names = list(dict.fromkeys(name for piece in pieces for name in piece.tables))
    tables = {
        name: pd.concat([p.tables[name] for p in pieces if name in p.tables], ignore_index=True) for name in names
    }
    presentation = study.present(config, tables)
    for name, table in tables.items():
        write_atomically(folder / f"{name}.csv", table.to_csv(index=False).encode())
    for name, drawing in presentation.figures.items():
        _save_figure(folder, name, drawing)
    record = Record(
        name=study.name,
        title=study.title,
        shows=study.shows,
        scale=scale,
        seed=seed,
        configuration=dataclasses.asdict(config),
        pieces=len(finished),
        seconds=sum(piece.seconds for piece in pieces),
        environments=[dict(e) for e in dict.fromkeys(tuple(piece.environment.items()) for piece in pieces)],
        tables=names,
        figures={name: drawing.caption for name, drawing in presentation.figures.items()},
        comparisons=presentation.comparisons,
        remarks=presentation.remarks,
    )
    record.save(folder)
    return record


def _finish(
    study: AnyStudy, config: Any, store: PieceStore, seed: int, jobs: int, show: bool | None
) -> Mapping[str, Finished]:
    """All pieces, in their order; what is not on disk yet is computed and kept as soon as it is done."""
    pieces = study.pieces(config)
    finished = {name: store.load(name) for name in pieces}
    missing = [name for name, piece in finished.items() if piece is None]
    jobs = 1 if study.alone else min(jobs, max(len(missing), 1))
    # several processes share the cores between them; a process of its own may use them all, unless it measures time
    threads = 1 if study.alone else max(1, joblib.cpu_count() // jobs)
    calls = [joblib.delayed(_compute)(study, config, name, pieces[name], seed, store, threads) for name in missing]
    with (
        progress(study.name, len(pieces), show) as advance,
        joblib.parallel_config("loky" if jobs > 1 else "sequential", **_inner_threads(jobs, threads)),
        closing(joblib.Parallel(n_jobs=jobs, return_as="generator_unordered")(calls)) as results,
    ):
        advance(len(pieces) - len(missing))
        for name, piece in results:
            finished[name] = piece
            advance(1)
    return {name: piece for name, piece in finished.items() if piece is not None}


def _inner_threads(jobs: int, threads: int) -> dict[str, Any]:
    return {"inner_max_num_threads": threads} if jobs > 1 else {}


def _compute(
    study: AnyStudy, config: Any, name: str, piece: Any, seed: int, store: PieceStore, threads: int
) -> tuple[str, Finished]:
    """One piece, kept on disk before it is returned."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    start = time.perf_counter()
    try:
        tables: Tables = study.run(config, piece, seed)
    except Exception as error:
        error.add_note(f"This was the piece {name!r} of the study {study.name!r}; the pieces finished before are kept.")
        raise
    finally:
        torch.set_num_threads(before)
    finished = Finished(tables, time.perf_counter() - start, describe())
    store.save(name, finished)
    return name, finished


def _save_figure(folder: Path, name: str, drawing: Drawing) -> None:
    """PNG for the report, PDF for print; without the date, so that equal figures are equal files."""
    for suffix, options in ((".png", {"dpi": _PNG_DPI}), (".pdf", {"metadata": {"CreationDate": None}})):
        content = io.BytesIO()
        drawing.figure.savefig(content, format=suffix[1:], bbox_inches="tight", **options)
        write_atomically(folder / f"{name}{suffix}", content.getvalue())
