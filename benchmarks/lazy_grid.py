"""Ten million cells: a lazy grid written to Zarr, and the same map as a GeoTIFF, with time and peak memory of each.

    python benchmarks/lazy_grid.py [--cells 10000000] [--chunk 512]

The model has 20,000 observations on the globe and predicts from 30 nearest neighbours. Each file is written in a
process of its own, whose peak is that of all its resident memory, libraries included. A sample of the cells is then
predicted in one call, and must be the same.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
import xarray as xr
from peak_memory import high_water
from record import table

import cagp
from cagp.interop import register_xarray

OBSERVATIONS, SAMPLE = 20_000, 20_000


def model() -> cagp.Model:
    """A model of a smooth field with noise, in degrees."""
    rng = np.random.default_rng(0)
    latitude, longitude = (
        np.degrees(np.arcsin(rng.uniform(-0.9, 0.9, OBSERVATIONS))),
        rng.uniform(-180, 180, OBSERVATIONS),
    )
    y = np.sin(latitude / 9) * np.cos(longitude / 13) + 0.1 * rng.normal(size=OBSERVATIONS)
    prior = cagp.Prior(cagp.Geographic(cagp.Matern32(900.0), radius=6371.0), noise_variance=0.01)
    return prior.condition(np.c_[latitude, longitude], y, cagp.NearestNeighbours(30))


def side_of(cells: int) -> float:
    """The side in degrees of about so many cells of the model's part of the globe."""
    return float(np.sqrt(360 * 2 * np.degrees(np.arcsin(0.9)) / cells))


def lazily(out: Path, cells: int, chunk: int) -> int:
    """A grid backed by dask, predicted and written region by region; how many cells it has."""
    register_xarray()
    side, top = side_of(cells), float(np.degrees(np.arcsin(0.9)))
    grid = xr.Dataset(coords={"latitude": np.arange(top, -top, -side), "longitude": np.arange(-180, 180, side)})
    lazy = grid.cagp.predict(model(), level=0.95, chunks={"latitude": chunk, "longitude": chunk})
    lazy.to_zarr(out, zarr_format=2)
    return grid.sizes["latitude"] * grid.sizes["longitude"]


def as_map(out: Path, cells: int, chunk: int) -> int:
    """``cagp.write_map``, which keeps what is finished; how many cells it has."""
    cagp.write_map(model(), out, side_of(cells), progress=False)
    if out.suffix == ".zarr":
        return int(xr.open_zarr(out)["mean"].size)
    with rasterio.open(out) as file:
        return int(file.width * file.height)


def _child(connection: Any, work: Any, *arguments: Any) -> None:
    started, busy = time.perf_counter(), time.process_time()
    cells = work(*arguments)
    connection.send((cells, time.perf_counter() - started, time.process_time() - busy, high_water()))


def measured(what: str, work: Any, *arguments: Any) -> list[str]:
    """A row of the table: the work in a fresh process."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(sender, work, *arguments))
    process.start()
    sender.close()
    cells, seconds, busy, peak = receiver.recv()
    process.join()
    return [what, f"{cells:,}", f"{seconds:.1f}", f"{busy:.1f}", f"{peak / 2**30:.2f}"]


def largest_difference(folder: Path) -> float:
    """Between a sample of the cells in the files and one call of ``predict``, relative to the largest value."""
    rng, worst = np.random.default_rng(1), 0.0
    for name in ("lazy.zarr", "map.zarr"):
        found = xr.open_zarr(folder / name)
        i, j = (rng.integers(found.sizes[dim], size=SAMPLE) for dim in ("latitude", "longitude"))
        post = model().predict(np.c_[found["latitude"].values[i], found["longitude"].values[j]])
        at = {"latitude": xr.DataArray(i, dims="cell"), "longitude": xr.DataArray(j, dims="cell")}
        for band, wanted in zip(("mean", "std", "upper"), (post.mean, post.std, post.interval(0.95)[1]), strict=True):
            worst = max(worst, float(np.abs(found[band].isel(at).values - wanted).max() / np.abs(wanted).max()))
    return worst


def main() -> None:
    """Write the files, and print what it took."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cells", type=int, default=10_000_000)
    parser.add_argument("--chunk", type=int, default=512)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder, sizes = Path(name), (asked.cells, asked.chunk)
        rows = [
            measured("lazy Dataset to Zarr", lazily, folder / "lazy.zarr", *sizes),
            measured("write_map, Zarr", as_map, folder / "map.zarr", *sizes),
            measured("write_map, GeoTIFF", as_map, folder / "map.tif", *sizes),
        ]
        columns = ["what", "cells", "seconds", "processor seconds", "peak GiB"]
        notes = f"A sample of {SAMPLE:,} cells differs by at most {largest_difference(folder):.1e} from one call."
        table(f"{asked.cells:,} cells from {OBSERVATIONS:,} observations", columns, rows, notes)


if __name__ == "__main__":
    main()
