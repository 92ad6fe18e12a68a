"""Predictions on a grid that no process holds as a whole, in a Zarr store: who predicts a block writes it."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..support.advice import optional
from ..support.atomic_files import begun, remove, remove_partial, write_atomically
from .fields import Region, cut, opened
from .work import Workers

Load = Callable[[Path], Any]

_OWN = _JOB, _MODEL, _DONE, _STORE = "_job.json", "_model", "_done", "_store.zarr"


def predict_grid(
    model: Any, points: Any, out: Path, observed: bool, level: float, exceed: Any, most: int, load: Load, by: Workers
) -> None:
    """The prediction at the coordinates of a grid, ``most`` cells at a time, as the Zarr store ``out``.

    Until all of it is done it lies in OUT.parts. A worker gets the model by ``load``.
    """
    from dask.base import tokenize

    from ..interop.xarray import conditioned_for
    from ..interop.xarray_prediction import predict_on

    optional("zarr", "predictions on grids", "xarray")
    if out.suffix != ".zarr":
        raise InputError(f"{out} must end in .zarr, since the points are a grid")
    grid = opened(points)
    conditioned = conditioned_for(model, grid, None)
    request: Any = conditioned.request(grid, observed, None, level, exceed)
    _, spread, dims = request.columns.within(grid)
    sizes = tuple(grid.sizes[dim] for dim in dims)
    template = predict_on(request, grid, _chunks(grid, dims, sizes, most), False)
    template = template.assign_coords(template.coords.to_dataset().compute().coords)  # lazy ones would not be written
    template = template.drop_encoding()  # which says how another file has them
    blocks = dict(template["mean"].variable.chunksizes)
    key = str(tokenize(observed, level, request.thresholds, model.key, blocks, *(each.data for each in spread)))
    parts = out.with_name(f"{out.name}.parts")
    if _is_done(out, key):
        by.tell(f"all of {out} was there")
    else:
        with begun(parts):
            if not _is_done(out, key):  # by another process, which was waited for
                _begin(model, template, parts, key)
                calls, regions = [], list(cut(template["mean"], 1))  # each a block
                for number, region in enumerate(regions):
                    if not (parts / _DONE / str(number)).exists():
                        own = [_of_region(each, region) for each in spread]
                        calls.append((load, replace(request, model=None), own, parts, region, number))
                by.all_of(_predict_block, calls, "predicting", done=len(regions) - len(calls), pieces="blocks")
                (parts / _STORE).rename(out)
    _remove_own(parts)  # which a kill after the last block may have left, too
    with suppress(OSError):  # it is not there, or somebody else has put something there
        parts.rmdir()


def _is_done(out: Path, key: str) -> bool:
    """Whether the store is there; one of another job is refused."""
    import zarr

    if out.exists() and (
        not (out / ".zgroup").is_file() or zarr.open_group(out, mode="r").attrs.get("cagp_job") != key
    ):
        raise InputError(f"{out} is there already, with something else; choose another name")
    return out.exists()


def _of_region(coordinate: Any, region: Region) -> Any:
    return coordinate.isel({dim: at for dim, at in region.items() if coordinate.sizes[dim] > 1})


def _begin(model: Any, template: Any, parts: Path, key: str) -> None:
    """Begin, or go on with, the job ``key`` in a folder; another one is refused once it has predictions."""
    if (parts / _JOB).exists() and (parts / _STORE).exists() and any((parts / _DONE).glob("*")):
        if json.loads((parts / _JOB).read_text(encoding="utf-8")) != key:
            raise InputError(
                f"{parts} has predictions of another model, for another grid, or in other batches; choose another name"
            )
        return
    _remove_own(parts)
    if others := sorted(each.name for each in parts.iterdir()):
        raise InputError(f"{parts} is a folder with other things in it, such as {others[0]}; choose another name")
    (parts / _DONE).mkdir()
    model.save(parts / _MODEL)
    template.attrs["cagp_job"] = key
    template.to_zarr(parts / _STORE, compute=False, zarr_format=2)
    write_atomically(parts / _JOB, json.dumps(key).encode())


def _remove_own(parts: Path) -> None:
    """Remove what an earlier call has left, and nothing else."""
    remove_partial(parts)
    for name in _OWN:
        remove(parts / name)


def _chunks(grid: Any, dims: Any, sizes: tuple[int, ...], most: int) -> dict[str, int]:
    """How the prediction is cut: as the grid is where its chunks are small, else in blocks of about so many cells."""
    from dask.array.core import normalize_chunks

    try:
        own = grid.chunksizes
    except ValueError:  # its variables are cut differently
        own = {}
    previous = tuple(own.get(dim, (size,)) for dim, size in zip(dims, sizes, strict=True)) if own else None
    limits: Any = {"limit": 8 * most, "dtype": np.float64, "previous_chunks": previous}
    blocks = normalize_chunks("auto", shape=sizes, **limits)
    return {str(dim): max(each) for dim, each in zip(dims, blocks, strict=True)}


def _predict_block(load: Load, request: Any, spread: Any, parts: Path, region: Region, number: int) -> None:
    """A block of a grid, given its coordinates; then a file says that it is done."""
    import dask
    import zarr

    with dask.config.set(scheduler="synchronous"):  # a worker has one thread
        found = replace(request, model=load(parts / _MODEL))(*(each.values for each in spread))
    group: Any = zarr.open_group(parts / _STORE, mode="r+")
    for i, name in enumerate(request.names):
        group[name][tuple(region.values())] = found[..., i]
    (parts / _DONE / str(number)).touch()
