"""Fields on the global grid of ERA5, 721 × 1440, given 10⁵ data on a GPU: seconds, and which way the prior was drawn.

PYTHONPATH=src python benchmarks/gpu/simulate.py [--fields 100] [--step 1] [--data 100000] [--device cuda]
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch

import cagp


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fields", type=int, default=100)
    parser.add_argument("--step", type=int, default=1, help="every so-many-th row and column of the grid")
    parser.add_argument("--data", type=int, default=100_000)
    parser.add_argument("--neighbours", type=int, default=60)
    parser.add_argument("--device", default="cuda")
    given = parser.parse_args()
    device = torch.device(given.device)
    rng = np.random.default_rng(0)
    latitude = np.degrees(np.arcsin(2 * rng.random(given.data) - 1))
    X = np.column_stack([latitude, 360 * rng.random(given.data)])
    y = 288 - 30 * np.sin(np.radians(X[:, 0])) ** 2 + 5 * np.cos(np.radians(3 * X[:, 1])) + rng.standard_normal(len(X))
    rows, columns = np.linspace(90, -90, 721)[:: given.step], np.linspace(0, 360, 1441)[: -1 : given.step]
    grid = torch.from_numpy(np.stack(np.meshgrid(rows, columns, indexing="ij"), axis=-1).reshape(-1, 2)).to(device)
    kernel = cagp.Geographic(cagp.Matern32(0.174, variance=11.1**2))
    prior = cagp.Prior(kernel, mean=cagp.Constant(), noise_variance=1.17**2)
    model = prior.condition(X, y, cagp.NearestNeighbours(given.neighbours), device=device)
    _synchronised(device)
    start = time.perf_counter()
    simulator = model.simulator(grid)
    simulator.draw(1, seed=1, progress=False)
    _synchronised(device)
    prepared = time.perf_counter() - start
    found = simulator.draw(given.fields, seed=0, progress=False)
    _synchronised(device)
    seconds = time.perf_counter() - start
    name = torch.cuda.get_device_name() if device.type == "cuda" else "CPU"
    print(f"{name}: {given.fields} fields on {len(rows)} × {len(columns)} given {given.data:,} data")
    print(found.how)
    print(f"spread of the fields {found.spread:.4f} of what the posterior says")
    print(f"{seconds:.1f} s, of which {prepared:.1f} s prepare, with a first field")
    if device.type == "cuda":
        print(f"peak memory {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB")


def _synchronised(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
