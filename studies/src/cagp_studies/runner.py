"""Runs a study: the missing pieces in parallel, then tables, figures and the record for the report.

Finished pieces are kept on disk, so that an interrupted study continues where it stopped, under the fingerprint of
everything that decides their numbers: the study and its revision, the version of cagp, the configuration and the seed.
Change one of them and nothing kept from before is used.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import joblib
import pandas as pd
import torch

from cagp.support.atomic_files import write_atomically
from cagp.support.progress import progress
from cagp.support.validation import choice, count

from .machine import Forecast, describe
from .report import Record
from .study import SCALES, AnyStudy, Drawing, Tables


def fingerprint(study: AnyStudy, config: Any, seed: int) -> str:
    """A hash, 64 hexadecimal digits, of all that decides the numbers of a study."""
    from cagp import __version__

    decisive = {
        "study": study.work or study.name,
        "revision": study.revision,
        "cagp": __version__,
        "configuration": type(config).__name__,
        "values": dataclasses.asdict(config),
        "seed": seed,
    }
    return hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Finished:
    """A finished piece: its tables, the seconds it took, and the versions and machine it was computed with."""

    tables: Tables
    seconds: float
    environment: dict[str, str]


class PieceStore:
    """The finished pieces of one study with one configuration and seed, in ``folder``/<start of the fingerprint>."""

    def __init__(self, folder: Path, key: str) -> None:
        self._key = key
        self.folder = folder / key[:16]

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.json"

    def save(self, name: str, piece: Finished) -> None:
        """Keep a piece."""
        content = {
            "fingerprint": self._key,
            "seconds": piece.seconds,
            "environment": piece.environment,
            "tables": {table: frame.to_dict(orient="list") for table, frame in piece.tables.items()},
        }
        write_atomically(self._path(name), json.dumps(content).encode())

    def load(self, name: str) -> Finished | None:
        """A piece kept before, or None: also where the file is damaged or belongs to another configuration."""
        try:
            content = json.loads(self._path(name).read_text())
            if content["fingerprint"] != self._key:
                return None
            tables = {table: pd.DataFrame(columns) for table, columns in content["tables"].items()}
            return Finished(tables, content["seconds"], content["environment"])
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None


_PNG_DPI = 150


Announce = Callable[[str, Forecast], None]
"""Takes the name of a study and what its missing pieces will take, before they start."""


def run_study(
    study: AnyStudy,
    out: Path,
    *,
    scale: str = "quick",
    seed: int = 0,
    jobs: int = 1,
    solvers: Sequence[str] = (),
    show: bool | None = None,
    announce: Announce | None = None,
) -> Record:
    """Run ``study`` at a scale and leave tables, figures and a record in ``out``/<name of the study>.

    Pieces that were finished before with the same configuration and seed are not computed again. ``jobs`` processes
    work in parallel; ``solvers`` are more solvers, by name, for a study that takes them; ``show`` is for the progress
    bar, as everywhere. A study that this one builds on is run first.
    """
    return _run(study, out, scale, seed, jobs, solvers, show, announce)[0]


def _run(
    study: AnyStudy,
    out: Path,
    scale: str,
    seed: int,
    jobs: int,
    solvers: Sequence[str],
    show: bool | None,
    announce: Announce | None,
) -> tuple[Record, Tables]:
    config = study.scales[choice(scale, "scale", SCALES)]
    count(seed, "seed")
    count(jobs, "jobs", minimum=1)
    if solvers:
        config = study.with_solvers(config, tuple(solvers))
    if study.builds_on is not None:
        _, before = _run(study.builds_on, out, scale, seed, jobs, (), show, announce)
        config = study.complete(config, before)
    folder = out / study.name
    store = PieceStore(out / (study.work or study.name) / "pieces", fingerprint(study, config, seed))
    finished = _finish(study, config, store, seed, jobs, show, announce)

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
        solvers=list(solvers),
    )
    record.save(folder)
    return record, tables


def _finish(
    study: AnyStudy,
    config: Any,
    store: PieceStore,
    seed: int,
    jobs: int,
    show: bool | None,
    announce: Announce | None,
) -> Mapping[str, Finished]:
    """All pieces, in their order; what is not on disk yet is computed and kept as soon as it is done."""
    pieces = study.pieces(config)
    finished = {name: store.load(name) for name in pieces}
    missing = [name for name, piece in finished.items() if piece is None]
    jobs = study.side_by_side(min(jobs, max(len(missing), 1)))
    # several processes share the cores between them; a process of its own may use them all, unless it measures time
    threads = 1 if study.alone else max(1, joblib.cpu_count() // jobs)
    if announce and missing:
        with _threads(threads):
            forecast = study.forecast(config, [pieces[name] for name in missing])
        if forecast is not None:
            announce(study.name, forecast.shared_by(jobs))
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


@contextmanager
def _threads(number: int) -> Iterator[None]:
    """So many threads for torch inside."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _inner_threads(jobs: int, threads: int) -> dict[str, Any]:
    return {"inner_max_num_threads": threads} if jobs > 1 else {}


def _compute(
    study: AnyStudy, config: Any, name: str, piece: Any, seed: int, store: PieceStore, threads: int
) -> tuple[str, Finished]:
    """One piece, kept on disk before it is returned."""
    start = time.perf_counter()
    try:
        with _threads(threads):
            tables: Tables = study.run(config, piece, seed)
    except Exception as error:
        error.add_note(f"This was the piece {name!r} of the study {study.name!r}; the pieces finished before are kept.")
        raise
    finished = Finished(tables, time.perf_counter() - start, describe())
    store.save(name, finished)
    return name, finished


def _save_figure(folder: Path, name: str, drawing: Drawing) -> None:
    """PNG for the report, PDF for print; without the date, so that equal figures are equal files."""
    for suffix, options in ((".png", {"dpi": _PNG_DPI}), (".pdf", {"metadata": {"CreationDate": None}})):
        content = io.BytesIO()
        drawing.figure.savefig(content, format=suffix[1:], bbox_inches="tight", **options)
        write_atomically(folder / f"{name}{suffix}", content.getvalue())
