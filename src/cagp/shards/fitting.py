"""What is learned about observations in shards: from a working set of them, by the same search as in memory.

The working set is a sample of all, for long distances, and patches around places drawn at random, each with all that is
nearest to them. Who lies so deep in a patch that all its neighbours do as well, which is checked, can be left out as if
all observations were here: these judge kernels, and teach error bars. Up to ``WORKING`` observations it is all of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.spatial import cKDTree

from ..choosing.front_door import fit_named
from ..choosing.options import FitRequest, Options, TrainingData
from ..errors import InputError
from ..hyperparameters import fit as fit_hyperparameters
from ..kernels.nearness import near_coordinates
from ..solvers import NearestNeighbours, as_solver
from .sharded import ShardedModel
from .sources import is_frame, parts_of
from .store import DESCRIPTION, SAMPLE, Rows, Store
from .surroundings import Metric, Surroundings
from .work import Workers, workers
from .writing import write

WORKING = 500_000
"""So many observations are learned from, at most, the patches and the sample."""

_PATCH, _DEEP = 4.0, 1.25  # rows of a patch, and those around one that is left out, as multiples of the neighbours
_PILOT: dict[str, Any] = {
    "n_neighbours": 20,
    "terms": 2000,
    "n_restarts": 0,
    "tolerance": 5e-3,
    "standard_errors": False,
}
_TOGETHER = 50  # patches that a task looks for
_PILOTED = 20_000  # rows that say in which units distances are, before anything is known


def fit(
    source: Any,
    target: str | None = None,
    *,
    store: str | Path | None = None,
    features: Sequence[str] | None = None,
    n_jobs: int | None = None,
    memory_limit: float | None = None,
    progress: bool | None = None,
    **options: Any,
) -> ShardedModel:
    """A model of observations that no process ever holds as a whole, as ``cagp.fit`` makes one.

    ``source`` is a folder of Parquet files, or several files, or a Dask data frame: the column ``target``, and all
    others or those of ``features``. They are cut into shards in the folder ``store``, by default beside the source;
    a ``source`` may be such a store, too. ``n_jobs`` workers of a local cluster do the work, with ``memory_limit``
    bytes each, by default one for each core and half the free memory together; 1 is this process; where a Dask client
    is there, its workers do. After a kill the same call goes on. ``options`` are those of ``cagp.fit``.
    """
    solver = as_solver(options.get("solver") or NearestNeighbours())
    if not isinstance(solver, NearestNeighbours) or not solver.k:
        raise InputError(f"solver must be NearestNeighbours(k) for data in shards, got {options['solver']!r}")
    for name, why in (("like", "points to be predicted"), ("device", "another device")):
        if options.get(name) is not None:
            raise InputError(f"{name}, for {why}, is not known for data in shards; leave it out")
    if options.get("noise_variance") is not None and np.ndim(options["noise_variance"]):
        raise InputError("noise_variance must be one number for data in shards, got one per observation")
    options["solver"] = dataclasses.replace(solver, shared=False)
    with workers(n_jobs, memory_limit, progress) as by:
        kept = _store(source, target, store, features, by, options)
        rows, whole = working_set(kept, by, options)
        learned = fit_named(rows.X, rows.y, kept.features, whole=whole, progress=progress, **options)
        return ShardedModel.of(learned, kept, by)


def _store(
    source: Any,
    target: str | None,
    folder: str | Path | None,
    features: Sequence[str] | None,
    by: Workers,
    options: dict[str, Any],
) -> Store:
    """The source as a store, made where it is none; ``options`` that cannot be are refused before."""
    if isinstance(source, (str, Path)) and (Path(source) / DESCRIPTION).exists():
        found = Store.open(source)
        if target not in (None, found.target):
            raise InputError(f"{source} has shards for the target {found.target!r}, not for {target!r}")
        return found
    if not isinstance(target, str):
        raise InputError(f"y must be the name of the column that is to be predicted, got {type(target).__name__}")
    if folder is None:
        beside = Path() if is_frame(source) else Path(source if isinstance(source, (str, Path)) else source[0])
        folder = beside.resolve().parent if beside.name else beside
        folder = folder / f"{beside.stem or 'cagp'}-shards-{target}"
    if not is_frame(source):
        chosen = list(features or (name for name in parts_of(source)[1] if name != target))
        parts, _ = parts_of(source, [*chosen, target])
        some = parts[0].cut(_PILOTED)[0].read([*chosen, target])
        _checked(Rows(some[:, :-1], some[:, -1], np.arange(len(some))), chosen, options)
    return write(source, target, folder, by, features)


def _checked(some: Rows, names: Sequence[str], options: dict[str, Any]) -> FitRequest:
    """What is asked for, about some of the rows."""
    return Options(**options).checked(TrainingData(some.X, some.y, list(names), torch.device("cpu")))


def working_set(store: Store, by: Workers, options: dict[str, Any]) -> tuple[Rows, np.ndarray]:
    """The observations that are learned from, and which of them (m,) can be left out as if these were all."""
    if store.size <= WORKING:
        rows = store.take(np.arange(store.size), by)
        return rows, np.arange(len(rows.y))
    k = options["solver"].k
    size, deep = int(_PATCH * k), int(_DEEP * k)
    sample, draws = store.sample, np.random.default_rng(options.get("seed", 0))
    around = _pilot(store, by, options)
    centres = draws.choice(len(sample.y), max(1, (WORKING - SAMPLE) // size), replace=False)
    at = around.metric(sample.X[np.sort(centres)])
    batches = [(around, at[batch], size) for batch in around.batches(at, _TOGETHER)]
    patches = by.all_of(_patch, batches, "patches")
    rows = Rows.joined([sample, *(found for found, _, _ in patches)])
    points = around.metric(rows.X)
    tree = cKDTree(points)
    whole = []
    for found, near, distance in patches:
        inside = np.searchsorted(rows.row, found.row)[near]
        reach = np.full(inside.shape, np.inf)
        hopeful = distance < distance[:, -1:]
        reach[hopeful] = tree.query(points[inside[hopeful]], deep + 1)[0][:, -1]
        # a ball that lies in a ball of which everything is known
        whole.append(inside[distance + reach <= distance[:, -1:]])
    centre = [np.searchsorted(rows.row, found.row)[near[:, 0]] for found, near, _ in patches]
    return rows, np.unique(np.concatenate([*whole, *centre]))


def _pilot(store: Store, by: Workers, options: dict[str, Any]) -> Surroundings:
    """Who is near, by the kernel that is tried first, fitted to a part of the sample."""
    some = store.sample.at(np.random.default_rng(0).permutation(len(store.sample.y))[:_PILOTED])
    first = _checked(some, store.features, options).first_candidate(some.y)
    prior = fit_hyperparameters(
        first.start, some.X, some.y, likelihood="nearest-neighbours", fix=first.fixed, progress=False, **_PILOT
    ).prior
    X = torch.from_numpy(some.X)
    origin = X.mean(dim=0)
    near = near_coordinates(prior.kernel, prior.kernel.embed(X, origin))
    if not near:
        raise InputError(f"kernel must have a part that falls with distance for data in shards, got {prior.kernel!r}")
    (found,) = Surroundings.of(store, [Metric(prior.kernel, origin, near)], by)
    return found


def _patch(around: Surroundings, at: np.ndarray, size: int) -> tuple[Rows, np.ndarray, np.ndarray]:
    return around.find(at, size)
