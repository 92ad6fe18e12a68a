"""What a second worker brings, and what it costs to go through a Dask cluster at all, on this machine.

The same work in this process, on a cluster of one worker and on one of two, each with one thread: medians of
interleaved rounds. ``first`` is the first call, in which each of two workers makes the model from its recipe. What two
workers can reach at best is measured too: matrix products in two processes that have nothing to do with each other.

    python benchmarks/cluster.py [--rounds N]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import joblib
import numpy as np
import torch
from distributed import Client, LocalCluster
from timing import medians

import cagp
from cagp.calibration import simulation_based_calibration
from cagp.predicting.conditioned import Conditioned
from cagp.support.memory import human
from cagp.workers.pool import Parcel

PRIOR = cagp.Prior(cagp.Matern32(lengthscale=0.2), noise_variance=0.01)


def predictions(solver: cagp.Solver, d: int, T: int, batch_size: int, storage: str) -> tuple[Callable[[], Any], str]:
    """A prediction of T points from d, and its name."""
    rng = np.random.default_rng(0)
    X, X_test = rng.random((d, 2)), rng.random((T, 2))
    model = PRIOR.condition(X, np.sin(6 * X[:, 0]), solver, storage=storage)
    sent = human(Parcel.of(partial(Conditioned, model.recipe, model.device)).content.nbytes)
    call = partial(model.predict, X_test, batch_size=batch_size)
    return call, f"{solver!r}, {storage}, d = {d:,}, T = {T:,}, recipe {sent}"


def simulations(solver: cagp.Solver, d: int, n: int) -> tuple[Callable[[], Any], str]:
    """Simulation-based calibration with n solves for d training points, and its name."""
    rng = np.random.default_rng(0)
    X, X_test = rng.random((d, 2)), rng.random((50, 2))
    call = partial(simulation_based_calibration, PRIOR, X, X_test, solver, n)
    return call, f"calibration of {solver!r}, d = {d:,}, {n} simulations"


def on(client: Client, call: Callable[[], Any]) -> Any:
    with joblib.parallel_config(backend="dask", client=client):
        return call()


def products() -> None:
    """Work for about a second that needs nothing but a core."""
    A = torch.ones(1000, 1000, dtype=torch.float64)
    for _ in range(15):
        A @ A


def at_best(client: Client, rounds: int) -> float:
    """How much more two workers do than one, both with nothing but products to do."""
    addresses = list(client.scheduler_info()["workers"])

    def run_on(chosen: list[str]) -> None:
        client.gather([client.submit(products, workers=[address], pure=False) for address in chosen])

    found = medians({"one": partial(run_on, addresses[:1]), "both": partial(run_on, addresses)}, rounds)
    return 2 * found["one"] / found["both"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    cases = [
        predictions(cagp.NearestNeighbours(100), 100_000, 8_000, 1_000, "tiles"),
        predictions(cagp.GaussSeidel(5), 4_000, 160, 20, "tiles"),
        predictions(cagp.GaussSeidel(5), 4_000, 800, 100, "dense"),
        predictions(cagp.CalibratedCG(5, cagp.Nystrom(300)), 4_000, 160, 20, "tiles"),
        predictions(cagp.Cholesky(), 2_000, 4_000, 500, "dense"),
        simulations(cagp.ConjugateGradient(10), 1_500, 200),
    ]
    options: dict[str, Any] = {"threads_per_worker": 1, "processes": True, "dashboard_address": ":0"}
    print("seconds here, with 1 worker, with 2 workers (first call), ratio 1 → 2 workers")
    with (
        LocalCluster(n_workers=1, **options) as small,
        LocalCluster(n_workers=2, **options) as large,
        Client(small) as one,
        Client(large) as two,
    ):
        for client in (one, two):
            client.run(__import__, "cagp")  # starting Python is not what is measured
        print(f"  {at_best(two, rounds):.2f} at best: products in two processes on this machine")
        for call, name in cases:
            start = time.perf_counter()
            on(two, call)
            first = time.perf_counter() - start
            found = medians(
                {"here": call, "one": partial(on, one, call), "two": partial(on, two, call)},
                rounds,
            )
            here, single, double = found["here"], found["one"], found["two"]
            print(f"  {here:6.2f} {single:6.2f} {double:6.2f} ({first:.2f}) {single / double:5.2f}  {name}", flush=True)


if __name__ == "__main__":
    main()
