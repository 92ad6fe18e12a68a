"""A model of observations in shards: what was learned from some, and predictions from the nearest of all of them."""

from __future__ import annotations

import hashlib
import io
import json
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import torch

from ..errors import InputError, InputTypeError, SavedModelError
from ..gram.neighbours import search
from ..interop.xarray_conventions import exceedances
from ..kernels.nearness import looked_at
from ..left_out import Geometry
from ..model import Model
from ..predicting.conditioned import Conditioned
from ..predicting.solving import Solved
from ..prediction import Prediction
from ..quantities import UnknownHereError
from ..saving import About, Saved
from ..saving import load as load_model
from ..saving import write as write_model
from ..saving.folder import (
    IN_SHARDS,
    description_in,
    new_parts,
    require_parts,
    require_writable,
    write_description,
)
from ..solvers import NearestNeighbours
from ..solvers.nearest_neighbours import PreparedNearestNeighbours
from ..solvers.neighbourhoods import FarSubset, far_rows, with_far
from ..support.atomic_files import begun, fill_folder, one_writer, remove, remove_partial, whole_file, write_atomically
from ..support.progress import progress as progress_bar
from ..support.validation import ArrayLike, count, fraction
from ..tables import ENDINGS
from .fields import is_grid
from .grids import predict_grid
from .sources import Part, identity_of, is_frame, parts_of, require_columns
from .store import Rows, Store
from .surroundings import Far, Metric, Surroundings
from .work import Workers, workers

_BATCH = 8192  # places that are looked at together
_PIECE = 250_000  # points of a file of predictions, at most: a kill loses what is under way
_MODEL, _JOB, _POINTS = "_model", "_job.json", "_points"  # names that readers of Parquet folders pass over
_OF_ONE_FILE = {*ENDINGS, ".gz", ".zarr"} - {".parquet"}  # which folders are called by, too
_FORMAT, _VERSION = "cagp shards model", 1
_ENTRIES = {"format", "format_version", "cagp_version", "created", "store", "key", "parts", "near", "far"}
_WRONG = (ValueError, LookupError, TypeError, AttributeError, OverflowError, RuntimeError)
_DAMAGED = (*_WRONG, OSError, EOFError, BadZipFile, struct.error, zlib.error)  # of a file to read
_OWN = (_MODEL, _JOB, _POINTS, ".partial-")  # before the job is known


_LEARNED = (
    *("components", "weights", "margins", "transform", "prior", "solver", "prepared", "guarantee", "trend", "reach"),
    *("candidates", "interrupted", "record", "result", "device", "column_names", "encodings", "crs", "target_name"),
    "about",
)


@dataclass(frozen=True, eq=False)
class ShardedModel:
    """Predictions from the nearest of all observations in a ``store``.

    ``learned`` is the model of some of them: its kernels, its margins, its transform and its story are those of this
    one, its predictions are not. ``far`` are observations far from most points, for the trend; ``around`` knows who is
    near by each component. ``cagp.fit`` makes one from Parquet files or a Dask data frame.
    """

    learned: Model
    store: Store
    far: Rows
    around: tuple[Surroundings, ...]

    @classmethod
    def of(cls, learned: Model, store: Store, by: Workers) -> ShardedModel:
        """The model for all observations of a store, in one or two passes over them."""
        for component in learned.components:
            _require_possible(component)
        size = store.size
        far = [_far_of(each, size) for each in learned.components]
        wanted = np.concatenate([np.empty(0, dtype=np.int64), *(rows.numpy() for own in far for rows, _, _ in own)])
        some = store.take(np.concatenate([looked_at(size), wanted]), by)
        metrics = [Metric.of(each.prior.kernel, size, some) for each in learned.components]
        around = zip(Surroundings.of(store, metrics, by), far, strict=True)
        kept = some.at(np.isin(some.row, wanted))
        return cls(learned, store, kept, tuple(replace(each, far=own) for each, own in around))

    @cached_property
    def key(self) -> str:
        """A hash of what predictions depend on."""
        told = [repr(self.store), repr(self.learned), repr(self.learned.weights.tolist()), repr(self.learned.margins)]
        told += [repr((each.metric.near, each.metric.origin)) for each in self.around]
        return hashlib.sha256("\n".join(told).encode()).hexdigest()

    def __getattr__(self, name: str) -> Any:
        """What was learned, as a ``Model`` has it; what only a model in memory can do is refused with the remedy."""
        if name in _LEARNED:
            return getattr(self.learned, name)
        if name.startswith("_") or not hasattr(Model, name):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        raise UnknownHereError(
            f"a model of data in shards has no {name}, which needs all observations in memory: {self.instead}; to add "
            "observations, write them beside the others and fit again"
        )

    @property
    def instead(self) -> str:
        """What has all that a ``Model`` has."""
        return "take those around the places in question, model.learned.prior.condition(X, y)"

    @property
    def size(self) -> int:
        """How many observations predict."""
        return self.store.size

    @property
    def story(self) -> str:
        """What was tried, chosen and found, in words."""
        return (
            f"Fitted to {len(self.learned.y):,} of {self.size:,} observations; predictions come from the nearest of "
            f"all of them, which are in shards in {self.store.folder}.\n\n{self.learned.story}"
        )

    def __repr__(self) -> str:
        return f"ShardedModel({self.store.size:,} observations in {self.store.folder}, learned={self.learned!r})"

    # --- predictions ----------------------------------------------------------------------------------------------

    def predict(
        self, X_test: ArrayLike, *, stop: None = None, batch_size: int | None = None, progress: bool | None = None
    ) -> Prediction:
        """What is predicted at X_test (T, p), here; ``predict_to`` is for points in files, and for large grids.

        The same as that of a model of all observations in memory with the solver of this one, to rounding. Ctrl-C ends
        it. ``batch_size`` and ``progress`` are those of ``Model.predict``; there is nothing to ``stop``.
        """
        if stop is not None:
            raise InputError(f"stop is for solvers with iterations, and nearest neighbours have none; got {stop!r}")
        most = _BATCH if batch_size is None else count(batch_size, "batch_size", minimum=1)
        test, _ = self.learned.test_points(X_test)
        X = test.cpu().numpy()
        means, variances = np.empty((2, len(self.around), len(X)))
        distance = None if self.learned.margins is None else np.empty(len(X))
        with progress_bar("predict", len(X) * len(self.around), progress) as advance:
            for i, (component, around) in enumerate(zip(self.learned.components, self.around, strict=True)):
                at = around.metric(X)
                for batch in around.batches(at, most):
                    rows, near, _ = around.find(at[batch], _solver(component).k)
                    means[i, batch], variances[i, batch] = self._solved(component, around, rows, near, X[batch])
                    if i == 0 and distance is not None:
                        distance[batch] = self._apart(rows.X[near[:, 0]], X[batch])
                    advance(len(batch))
        return self.learned.prediction_of(X_test, means, variances, distance)

    def _solved(
        self, component: Conditioned, around: Surroundings, rows: Rows, near: np.ndarray, X: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of f at points X (n, p), each (n,), given the places ``near`` (n, k) of neighbours."""
        every = Rows.joined([rows, self.far])
        test, members = torch.from_numpy(X), torch.from_numpy(np.searchsorted(every.row, rows.row)[near])
        levels, at = [], torch.from_numpy(around.metric(X))
        for own, take, ask in around.far:
            points = np.searchsorted(every.row, own.numpy())
            tree = search(torch.from_numpy(around.metric(every.X[points])))
            levels.append(FarSubset(torch.from_numpy(points), take, ask, tree))
        members = with_far(members, levels, lambda level: level.nearest_to(at))
        recipe = replace(component.recipe, X=every.X, y=self._modelled(every.y), whole=None)
        local = Conditioned(
            replace(recipe, solver=NearestNeighbours(near.shape[1], far=0, shared=False)), torch.device("cpu")
        )
        prepared, cross = local.prepared, local.cross(test)
        assert isinstance(prepared, PreparedNearestNeighbours)
        weights = prepared.weights_on(cross, members, prepared.anchors.expand(len(X), -1), strict=True)
        found = Solved.of(local, cross, local.offset(test), False, weights)
        return found.mean.numpy(), found.variance.numpy()

    @cached_property
    def _geometry(self) -> Geometry:
        return Geometry(self.learned.components[0])

    def _apart(self, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        """How far points (n, p) are from each other in the geometry that margins know, (n,)."""
        a, b = (self._geometry.coordinates(torch.from_numpy(each)) for each in (one, other))
        return (a - b).norm(dim=1).numpy()

    def _modelled(self, y: np.ndarray) -> np.ndarray:
        transform = self.learned.transform
        return y if transform is None else transform.of(torch.from_numpy(y)).numpy()

    def predict_to(
        self,
        points: Any,
        out: str | Path,
        *,
        observed: bool = False,
        interval: float = 0.95,
        exceed: float | Sequence[float] = (),
        batch_size: int | None = None,
        n_jobs: int | None = None,
        memory_limit: float | None = None,
        progress: bool | None = None,
    ) -> Path:
        """Predict at the rows of Parquet files or of a Dask data frame, and write the folder ``out`` of Parquet files;
        or at the coordinates of a grid, and write the Zarr store ``out``, block by block.

        They have all columns that each file of points has once, as they are, and mean, std and the two ends of the
        ``interval``, such as lower_95, and of the thresholds ``exceed`` the probability of more, such as exceeds_50, in
        place of what was called so before, of the function or of new observations (``observed``), in the order of the
        points. Up to ``batch_size`` points, by default 250,000, make a file, or a
        block. ``n_jobs`` and ``memory_limit`` are as for ``cagp.shards.fit``. A file that is there is whole; after a
        kill the same call goes on, and says so. Points that are near each other are best in one file: for each file
        those shards are read that are near its points. A grid is a lazy xarray object, or a Zarr store or NetCDF file;
        its blocks lie in OUT.parts until all are done.
        """
        interval = fraction(interval, "interval")
        thresholds = exceedances(exceed, "exceed")
        place, most = Path(out), _PIECE if batch_size is None else count(batch_size, "batch_size", minimum=1)
        if is_grid(points):
            with workers(n_jobs, memory_limit, progress) as by:
                predict_grid(self, points, place, observed, interval, exceed, most, loaded, by)
            return place
        if place.suffix.lower() in _OF_ONE_FILE:
            raise InputError(
                f"{place} is called like one file, and these predictions are a folder of Parquet files, which readers "
                f"of Parquet take as one table; choose a name without {place.suffix}"
            )
        if clash := {"mean", "std", *_ends(interval), *thresholds} & set(self.store.features):
            raise InputError(f"the feature {min(clash)!r} is called like a new column; fit to one of another name")
        if is_frame(points):  # what is wrong with points is said before work
            require_columns(points, self.store.features)
        pieces, names = ([], []) if is_frame(points) else self._pieces(points, most)
        asked = [observed, interval, [*thresholds.values()], self.key, most, identity_of(points)]
        key = hashlib.sha256(json.dumps(asked).encode()).hexdigest()
        with begun(place):
            self._require_job(place, key)
            if is_frame(points):
                points.to_parquet(place / _POINTS, write_index=False)
                pieces, names = self._pieces(place / _POINTS, most)
            paths = [place / f"part-{number:05d}.parquet" for number in range(len(pieces))]
            how = names, observed, interval, thresholds
            calls = [(place / _MODEL, *each, *how) for each in zip(pieces, paths, strict=True)]
            left = [call for call in calls if not call[2].exists()]
            with workers(n_jobs, memory_limit, progress) as by:
                by.all_of(_predict_piece, left, "predicting", done=len(calls) - len(left))
            remove_partial(place)
        return place

    def _pieces(self, points: Any, most: int) -> tuple[list[Part], list[str]]:
        """The points of Parquet files, as many together as one file of predictions has; the columns that come along."""
        parts, names = parts_of(points, self.store.features)
        return [piece for part in parts for piece in part.cut(most)], names

    def _require_job(self, place: Path, key: str) -> None:
        """Begin, or go on with, the job ``key`` in a folder; another one is refused once it has predictions."""
        if (place / _JOB).exists() and any(place.glob("part-*.parquet")):
            if (place / _JOB).read_bytes() != json.dumps(key).encode():
                raise InputError(
                    f"{place} has predictions of another model, for other points, or in other batches; choose another "
                    "folder"
                )
        elif any(not each.name.startswith(_OWN) for each in place.iterdir()):
            raise InputError(f"{place} is a folder with other things in it; choose another one")
        else:
            remove(place / _POINTS)
            self.save(place / _MODEL, overwrite=True)
            write_atomically(place / _JOB, json.dumps(key).encode())

    # --- on disk --------------------------------------------------------------------------------------------------

    def save(self, folder: str | Path, *, about: About | None = None, overwrite: bool = False) -> Path:
        """Save the model as a folder that ``cagp.load`` reads; the observations stay where they are."""
        place = require_writable(folder, overwrite)

        def fill(at: Path) -> None:
            with new_parts(at, IN_SHARDS, overwrite) as parts:
                write_model(Saved.of(self.learned, about), parts / "learned")
                self.far.write(parts / "far.parquet", self.store.names)
                for i, each in enumerate(self.around):
                    scales = [scale.numpy() for _, scale in each.metric.near]
                    rows = [own.numpy() for own, _, _ in each.far]
                    np.savez(parts / f"around-{i}.npz", each.metric.origin.numpy(), each.low, each.high, *scales, *rows)
                near = [[leaf for leaf, _ in each.metric.near] for each in self.around]
                far = [[counts for _, *counts in each.far] for each in self.around]
                of = {"store": str(self.store.folder), "key": self.store.key, "parts": parts.name}
                known = {"format": _FORMAT, "format_version": _VERSION, "near": near, "far": far}
                write_description(at / IN_SHARDS, known | of)

        return fill_folder(place, fill)


def read_sharded(folder: str | Path) -> ShardedModel:
    """The model of observations in shards that was saved in a folder; its store has to be where it was."""
    place = Path(folder)
    try:
        return _read(place)
    except SavedModelError:
        with one_writer(place):  # another process may have replaced the model meanwhile; now none does
            return _read(place)


def _read(place: Path) -> ShardedModel:
    """What the folder holds now."""
    try:
        known = description_in(place, IN_SHARDS, _FORMAT, {_VERSION: (_ENTRIES,)})
        store, parts = Store.open(known["store"]), place / require_parts(known["parts"])
        learned = load_model(parts / "learned")
        if store.key != known["key"]:
            raise ValueError(f"the shards in {store.folder} were made anew, of other data or columns; fit again")
        if len(store.features) != learned.X.shape[1]:
            raise ValueError(f"it is of other features than {store.folder}")
        around = []
        for i, (component, near) in enumerate(zip(learned.components, known["near"], strict=True)):
            content = io.BytesIO((parts / f"around-{i}.npz").read_bytes())  # np.load leaves a damaged file open
            with np.load(content) as file:
                if sum(each.file_size for each in file.zip.infolist()) > content.getbuffer().nbytes:
                    raise ValueError("its arrays are packed, which cagp does not do")
                origin, low, high, *others = (file[name] for name in file.files)
            arrays = [torch.from_numpy(each) for each in others]
            pairs = tuple(zip(near, arrays[: len(near)], strict=True))
            far = [
                (rows, count(take, "far"), count(ask, "far"))
                for rows, (take, ask) in zip(arrays[len(near) :], known["far"][i], strict=True)
            ]
            if not all(1 <= take <= ask <= len(rows) for rows, take, ask in far):
                raise ValueError("more observations are far than there are")
            metric = Metric(component.prior.kernel, torch.from_numpy(origin), pairs)
            width = metric(origin[None]).shape[1]  # whose terms are those of the kernel
            if not low.shape == high.shape == (len(store.blocks), width):
                raise ValueError(f"it is of other blocks than those in {store.folder}")
            around.append(Surroundings(store, metric, low, high, far))
        return ShardedModel(learned, store, Rows.read(parts / "far.parquet", None, store.names), tuple(around))
    except _DAMAGED as error:
        raise SavedModelError(f"{place} holds no model of data in shards that can be read ({error})") from error


def is_sharded(folder: str | Path) -> bool:
    """Whether the folder holds a model of observations in shards."""
    return (Path(folder) / IN_SHARDS).exists()


def _solver(component: Conditioned) -> NearestNeighbours:
    assert isinstance(component.solver, NearestNeighbours)
    return component.solver


def _require_possible(component: Conditioned) -> None:
    """Refuse what needs all observations at once."""
    if not isinstance(component.solver, NearestNeighbours):
        raise InputTypeError(f"data in shards are predicted by NearestNeighbours, got {component.solver!r}")
    if np.ndim(component.prior.noise_variance) or component.prior.noise_factors is not None:
        raise InputError("noise_variance must be one number for data in shards, got one per observation")


def _far_of(component: Conditioned, size: int) -> Far:
    """The numbers of the observations in each subset of far ones, how many a point takes, and asks for."""
    solver = _solver(component)
    k, far = min(solver.k, size), solver.far_of(component.prior.mean.unknown)
    return far_rows(size, k, far, solver.seed) if far and k < size else []


def loaded(folder: Path) -> ShardedModel:
    """The model in a folder, which is read once as long as it is the same."""
    return _read_once(folder, (folder / IN_SHARDS).stat().st_mtime_ns)


@lru_cache(maxsize=1)
def _read_once(folder: Path, changed: int) -> ShardedModel:
    return read_sharded(folder)


def _ends(interval: float) -> tuple[str, str]:
    """What the columns with the two ends of an interval are called."""
    return f"lower_{100 * interval:g}", f"upper_{100 * interval:g}"


def _predict_piece(
    folder: Path,
    piece: Part,
    path: Path,
    names: Sequence[str],
    observed: bool,
    interval: float,
    thresholds: Mapping[str, float],
) -> None:
    """The file of some points, with their columns of these ``names``; ``folder`` has the model."""
    import pyarrow as pa
    from pyarrow import parquet

    if path.exists():  # by a worker that was killed before it could tell
        return
    model = loaded(folder)
    table = piece.table(names)
    found = model.predict(piece.numbers(table, model.store.features), progress=False)
    found = found.observed() if observed else found
    new = {"mean": found.mean, "std": found.std} | dict(zip(_ends(interval), found.interval(interval), strict=True))
    new |= {name: found.exceedance(threshold) for name, threshold in thresholds.items()}
    table = table.drop_columns([name for name in new if name in table.column_names])
    for name, values in new.items():
        table = table.append_column(name, pa.array(values))
    with whole_file(path) as temporary:
        parquet.write_table(table, temporary, use_dictionary=[name for name in table.column_names if name not in new])
