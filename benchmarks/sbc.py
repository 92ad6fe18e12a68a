"""What simulation-based calibration costs, in units of one solve: the paper's synthetic problem, 1,000 simulations.

400 training points, a 21 × 21 grid, Matérn 3/2. The weights of Gauss-Seidel do not depend on y, so all simulations
together should cost little more than one solve and the sampling. Medians of interleaved rounds.

    python benchmarks/sbc.py [--quick]
"""

from __future__ import annotations

import numpy as np
import torch
from record import options, table, write
from timing import medians

import cagp
from cagp.calibration import simulation_based_calibration
from cagp.calibration.projection import draw

SIMULATIONS = 1000
PRIOR = cagp.Prior(cagp.Matern32(lengthscale=0.2), noise_variance=0.01)
SOLVER = cagp.GaussSeidel(iterations=5)


def main() -> None:
    arguments = options(__doc__).parse_args()
    rounds, simulations = (1, 20) if arguments.quick else (15, SIMULATIONS)
    rng = np.random.default_rng(0)
    X, y = rng.random((400, 2)), rng.standard_normal(400)
    axis = np.linspace(0, 1, 21)
    X_test = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    train, test, w = (torch.from_numpy(array) for array in (X, X_test, rng.standard_normal(len(X_test))))
    times = medians(
        {
            "one solve": lambda: PRIOR.condition(X, y, SOLVER).predict(X_test),
            "sampling": lambda: draw(PRIOR, train, test, w, simulations, np.random.default_rng(0), 2**32),
            "calibration": lambda: simulation_based_calibration(PRIOR, X, X_test, SOLVER, simulations),
        },
        rounds,
    )
    beyond = (times["calibration"] - times["sampling"]) / times["one solve"]
    rows = [[name, f"{1e3 * seconds:.1f}"] for name, seconds in times.items()]
    tables = [
        table(
            f"{simulations:,} simulations, `{SOLVER!r}`, d = {len(X)}, T = {len(X_test)}",
            ["what", "ms"],
            rows,
            f"Medians of {rounds}. The calibration without the sampling costs {beyond:.2f} solves.",
        )
    ]
    write(arguments.out, "sbc", "Simulation-based calibration", tables, arguments.quick)


if __name__ == "__main__":
    main()
