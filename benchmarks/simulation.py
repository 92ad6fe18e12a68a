"""Fields on a grid given many scattered data: seconds and peak memory of one call of ``simulate``, in its own process.

Not part of the performance page: one problem, and which way the prior was drawn.

    python benchmarks/simulation.py [--fields 100] [--side 300] [--data 100000] [--threads 2]
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch
from peak_memory import high_water

import cagp


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fields", type=int, default=100)
    parser.add_argument("--side", type=int, default=300)
    parser.add_argument("--data", type=int, default=100_000)
    parser.add_argument("--neighbours", type=int, default=60)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--method", default="auto")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    rng = np.random.default_rng(0)
    X = rng.random((given.data, 2))
    y = np.sin(20 * X[:, 0]) * np.cos(15 * X[:, 1]) + 0.1 * rng.standard_normal(given.data)
    axis = np.linspace(0, 1, given.side)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    prior = cagp.Prior(cagp.Matern32(0.1), mean=cagp.Constant(), noise_variance=0.01)
    model = prior.condition(X, y, cagp.NearestNeighbours(given.neighbours))
    before, wall, processor = high_water(), time.perf_counter(), time.process_time()
    found = model.simulate(grid, given.fields, seed=0, method=given.method, progress=False)
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    print(f"{given.fields} fields on {given.side} × {given.side} given {given.data:,} data, {found.how}.")
    print(f"spread of the fields {found.spread:.4f} of what the posterior says")
    print(f"{wall:.1f} s, {processor:.1f} s of processor time on {given.threads} threads")
    print(f"peak memory {high_water() / 2**30:.2f} GiB, {before / 2**30:.2f} GiB of it before the call")


if __name__ == "__main__":
    main()
