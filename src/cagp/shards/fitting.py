"""What is learned about observations in shards: from a working set of them, by the same search as in memory.

The working set is a sample of all, for long distances, and patches around places drawn at random, or around points like
those to be predicted, each with all that is nearest to them. Who lies so deep in a patch that all its neighbours do as
well, which is checked, can be left out as if all observations were here: these judge kernels, and teach error bars. Up
to ``WORKING`` observations it is all of them.
"""

from __future__ import annotations

import dataclasses
import hashlib
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
from ..interop.xarray_conventions import fit_options
from ..kernels.nearness import near_coordinates
from ..left_out import FEWEST
from ..solvers import NearestNeighbours, as_solver
from .fields import FieldAxes, LazyField, is_grid, opened, some_points
from .sharded import ShardedModel
from .sources import files_of, is_frame, is_source, names_of, parts_of, require_columns
from .store import DESCRIPTION, SAMPLE, Rows, Store
from .surroundings import Metric, Surroundings
from .work import Workers, workers
from .writing import OtherShardsError, write

WORKING = 500_000
"""So many observations are learned from, at most, the patches and the sample."""

_PATCH, _DEEP = 4.0, 1.25  # rows of a patch, and those around one that is left out, as multiples of the neighbours
_AROUND_ONE = 2.0  # and rows around a point to be predicted
_LIKE = 100_000  # so many points of files or grids say where predictions are wanted
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
    like: Any = None,
    store: str | Path | None = None,
    features: Sequence[str] | None = None,
    n_jobs: int | None = None,
    memory_limit: float | None = None,
    progress: bool | None = None,
    **options: Any,
) -> ShardedModel:
    """A model of observations that no process ever holds as a whole, as ``cagp.fit`` makes one.

    ``source`` is a folder of Parquet files, or several files, or a Dask data frame: the column ``target``, and all
    others or those of ``features``. Or it is a Zarr store or NetCDF files: the variable ``target``, whose coordinates
    are the columns. They are cut into shards in the folder ``store``, by default beside the source, in another one than
    shards of other data, from which models may predict; a ``source`` may be such a store, too. ``like`` are points, or
    Parquet files of points, or a grid, where predictions are wanted. ``n_jobs`` workers of a local cluster do the work,
    with ``memory_limit`` bytes each, by default one for each core and half the free memory together; 1 is this process;
    where a Dask client is there, its workers do. After a kill the same call goes on. Ctrl-C in the search keeps the
    best model so far. ``options`` are those of ``cagp.fit``.
    """
    solver = as_solver(options.get("solver") or NearestNeighbours())
    if not isinstance(solver, NearestNeighbours) or not solver.k:
        raise InputError(f"solver must be NearestNeighbours(k) for data in shards, got {options['solver']!r}")
    if options.get("device") is not None:
        raise InputError("device is not known for data in shards, which are worked on by CPUs; leave it out")
    if options.get("noise_variance") is not None and np.ndim(options["noise_variance"]):
        raise InputError("noise_variance must be one number for data in shards, got one per observation")
    if options.get("together") is True:
        raise InputError("together=True is for several quantities, and data in shards are of one; leave it out")
    options["solver"] = dataclasses.replace(solver, shared=False)
    known = _there(source, target)
    if known is None and not isinstance(target, str):
        raise InputError(f"y must be the name of the column that is to be predicted, got {type(target).__name__}")
    data = (
        source
        if known is not None or not (is_source(source) and is_grid(source))
        else LazyField.opened(source, str(target), features)
    )
    field: LazyField | FieldAxes | None = (
        data if isinstance(data, LazyField) else None if known is None else known.field
    )
    units = list[str]()
    if field is not None:
        told, units = fit_options(field.axes, options.get("kernel"))
        options = told | options
    names = list(known.features if known else features or [name for name in names_of(data) if name != target])
    if known is not None and ((features and names != list(features)) or store):
        raise InputError(
            f"{source} is a store of the features {', '.join(map(repr, names))} already; leave out features and store, "
            "or give the data that it was made of"
        )
    if target in names or len({*names}) < len(names):
        raise InputError(f"features must be different columns, and not the target {target!r}; got {names}")
    options["like"] = _places(like, names, field)
    if known is None and is_frame(data):
        require_columns(data, [*names, str(target)])
    elif known is None:
        some = _beginning(data, [*names, str(target)])
        few = {"recalibrate": "auto"} if len(some.y) < FEWEST else {}  # which says nothing of all rows
        if len(some.y) > 1:  # a field may begin with cells that are missing
            _checked(some, names, options | few)
    with workers(n_jobs, memory_limit, progress) as by:
        kept = known or (
            write(data, str(target), store, by, names)
            if store
            else _written(data, str(target), _beside(source, str(target)), by, names)
        )
        rows, whole, options["like"] = working_set(kept, by, options)
        learned = fit_named(rows.X, rows.y, kept.features, units, whole=whole, progress=progress, **options)
        return ShardedModel.of(learned.replace(target_name=kept.target), kept, by)


def columns_of(source: Any, target: str) -> list[str]:
    """The names of all columns of files or a grid, with that of the ``target``."""
    known = _there(source, target)
    return list(known.names) if known else names_of(LazyField.opened(source, target) if is_grid(source) else source)


def _there(source: Any, target: str | None) -> Store | None:
    """The source, where it is a store already."""
    if not isinstance(source, (str, Path)) or not (Path(source) / DESCRIPTION).exists():
        return None
    found = Store.open(source)
    if target not in (None, found.target):
        raise InputError(f"{source} has shards for the target {found.target!r}, not for {target!r}")
    return found


def _written(data: Any, target: str, place: Path, by: Workers, names: Sequence[str]) -> Store:
    """The data as a store in a folder called ``place``, or ``place``-2, … where others have shards of other data."""
    number, folder = 1, place
    while True:
        try:
            return write(data, target, folder, by, names)
        except OtherShardsError:
            by.tell(
                f"{folder} has shards of other data or other columns, or of data that have changed, and stays: remove "
                "it when no model predicts from it"
            )
        number += 1
        folder = place.with_name(f"{place.name}-{number}")


def _beside(source: Any, target: str) -> Path:
    """Where shards are put when nothing is said: beside the source, or the folder that files lie in, so that nobody
    reads them with these; or where this process works. Some files of a folder are called by the first one.
    """
    some = ""
    if isinstance(source, LazyField):
        said = source.flat.encoding.get("source")
        source = said if isinstance(said, str) and Path(said).exists() else ""
    if isinstance(source, (list, tuple)):
        files = [
            each.parent.resolve() / each.name for each in map(Path, source if is_grid(source) else files_of(source))
        ]
        source = files[0].parent
        if files != sorted(each for each in source.glob(f"*{files[0].suffix}") if each.name[0] not in "._"):
            every = hashlib.sha256(repr(files).encode()).hexdigest()[:8]
            some = f"-{files[0].stem}" if len(files) == 1 else f"-{files[0].stem}-{every}"
    beside = Path("" if is_frame(source) else source)
    folder = beside.resolve().parent if beside.name else beside
    return folder / f"{beside.stem or 'cagp'}{some}-shards-{target}"


def _beginning(data: Any, columns: list[str]) -> Rows:
    """Some of the rows, before there are shards."""
    if isinstance(data, LazyField):
        some = data.some(_PILOTED)
    else:
        some = parts_of(data, columns, columns[:-1])[0][0].cut(_PILOTED)[0].read(columns)
    return Rows(some[:, :-1], some[:, -1], np.arange(len(some)))


def _places(like: Any, names: Sequence[str], field: LazyField | FieldAxes | None) -> Any:
    """Points (T, p) where predictions are wanted: as they were given, or those of files or a grid, some of many."""
    if is_grid(like):
        if field is None:
            raise InputError("like is a grid, and the observations are not; give points, or Parquet files of points")
        return some_points(field.axes, field.longitudes, opened(like), _LIKE)
    if not is_source(like):
        return like
    if is_frame(like):
        raise InputError("like is a Dask data frame; give points, such as like.compute(), or Parquet files of points")
    parts, _ = parts_of(like, names)
    size = sum(part.rows for part in parts)
    chosen = np.sort(np.random.default_rng(0).choice(size, min(size, _LIKE), replace=False))
    ends = np.searchsorted(chosen, [part.first + part.rows for part in parts[:-1]])
    own = zip(parts, np.split(chosen, ends), strict=True)
    return np.concatenate([part.read(names)[rows - part.first] for part, rows in own if len(rows)])


def _checked(some: Rows, names: Sequence[str], options: dict[str, Any]) -> FitRequest:
    """What is asked for, about some of the rows."""
    return Options(**options).checked(TrainingData(some.X, some.y, list(names), torch.device("cpu")))


def working_set(store: Store, by: Workers, options: dict[str, Any]) -> tuple[Rows, np.ndarray, Any]:
    """The observations that are learned from, which of them (m,) can be left out as if these were all, and some of the
    points that ``options`` say to be ``like`` those to be predicted: all that is near these is among them.
    """
    if store.size <= WORKING:
        rows = store.take(np.arange(store.size), by)
        return rows, np.arange(len(rows.y)), options.get("like")
    k = options["solver"].k
    size, around_one, deep = int(_PATCH * k), int(_AROUND_ONE * k), int(_DEEP * k)
    sample, draws, room = store.sample, np.random.default_rng(options.get("seed", 0)), WORKING - SAMPLE
    around, like = _pilot(store, by, options)
    batches = []
    if like is not None:
        like = like[np.sort(draws.choice(len(like), min(len(like), max(1, room // 2 // around_one)), replace=False))]
        room -= len(like) * around_one
        at = around.metric(like)
        batches = [(around, at[batch], around_one) for batch in around.batches(at, _TOGETHER)]
    wanted = len(batches)
    centres = draws.choice(len(sample.y), max(1, room // size), replace=False)
    at = around.metric(sample.X[np.sort(centres)])
    batches += [(around, at[batch], size) for batch in around.batches(at, _TOGETHER)]
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
    centre = [np.searchsorted(rows.row, found.row)[near[:, 0]] for found, near, _ in patches[wanted:]]
    return rows, np.unique(np.concatenate([*whole, *centre])), like


def _pilot(store: Store, by: Workers, options: dict[str, Any]) -> tuple[Surroundings, np.ndarray | None]:
    """Who is near, by the kernel that is tried first, fitted to a part of the sample; and the points ``like``."""
    some = store.sample.at(np.random.default_rng(0).permutation(len(store.sample.y))[:_PILOTED])
    request = _checked(some, store.features, options)
    first = request.first_candidate(some.y)
    prior = fit_hyperparameters(
        first.start, some.X, some.y, likelihood="nearest-neighbours", fix=first.fixed, progress=False, **_PILOT
    ).prior
    X = torch.from_numpy(some.X)
    origin = X.mean(dim=0)
    near = near_coordinates(prior.kernel, prior.kernel.embed(X, origin))
    if not near:
        raise InputError(f"kernel must have a part that falls with distance for data in shards, got {prior.kernel!r}")
    (found,) = Surroundings.of(store, [Metric(prior.kernel, origin, near)], by)
    return found, None if request.like is None else request.like.numpy()


def _patch(around: Surroundings, at: np.ndarray, size: int) -> tuple[Rows, np.ndarray, np.ndarray]:
    return around.find(at, size)
