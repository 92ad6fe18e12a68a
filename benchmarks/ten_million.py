"""Ten million training points with nearest neighbours: time and peak memory of ``cagp.fit`` and of a prediction.

    python benchmarks/ten_million.py [--rows 10000000] [--test 100000] [--kernel matern32] [--commands FOLDER]

The field is a sum of random waves in the unit square, from a wide range of wavelengths, with noise. The table is
written for ``performance_page.py`` where nothing but the defaults was asked for. With --commands the same is done by
``cagp fit`` and ``cagp predict`` from Parquet files that are written to FOLDER, and what they say is printed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from peak_memory import high_water
from record import RESULTS, table, write
from scipy.ndimage import map_coordinates

import cagp
from cagp.calibration import evaluate
from cagp.tables import write_table

ROWS, TEST = 10_000_000, 100_000
WAVES = 300
GRID = 2001
NOISE = 0.1


def field(X: np.ndarray) -> np.ndarray:
    """The value of a random function (n,) at points X (n, 2) of the unit square, interpolated from a fine grid."""
    rng = np.random.default_rng(0)
    lengths = np.exp(rng.uniform(np.log(0.02), np.log(1.0), WAVES))
    east, north = (rng.normal(size=(WAVES, 2)) / lengths[:, None]).T
    phases, sizes = 2 * np.pi * rng.random(WAVES), lengths * np.sqrt(2.0 / np.square(lengths).sum())
    axis = np.linspace(0.0, 1.0, GRID)
    rows, columns = np.exp(1j * np.outer(axis, east)), np.exp(1j * (np.outer(north, axis) + phases[:, None]))
    grid = ((rows * sizes) @ columns).real
    return np.asarray(map_coordinates(grid, X.T * (GRID - 1), order=1))


def taken(what: str, started: float) -> list[str]:
    """What was done, the seconds since ``started``, and the peak of memory until now."""
    return [what, f"{time.perf_counter() - started:.1f}", f"{high_water() / 2**30:.1f}"]


def by_commands(folder: Path, X: np.ndarray, y: np.ndarray, X_test: np.ndarray, options: list[str]) -> None:
    """The same on the command line; what each command says, its seconds and its own peak."""
    write_table(folder / "train.parquet", {"east": X[:, 0], "north": X[:, 1], "height": y})
    write_table(folder / "new.parquet", {"east": X_test[:, 0], "north": X_test[:, 1]})
    measured = "import sys; from cagp.cli import app; code = app(sys.argv[1:], standalone_mode=False) or 0\n"
    measured += "print(next(line for line in open('/proc/self/status') if line.startswith('VmHWM')))"
    commands = [
        ["fit", "train.parquet", "--target", "height", "--out", "model", "--no-report", "--overwrite", *options],
        ["predict", "model", "new.parquet", "--out", "predicted.parquet", "--observed", "--overwrite"],
    ]
    for command in commands:
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", measured, *command], check=True, cwd=folder)
        print(f"cagp {command[0]}: {time.perf_counter() - began:.1f} s", flush=True)


def main() -> None:
    """As the module says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--test", type=int, default=TEST)
    parser.add_argument("--kernel", help="one kernel in place of all candidates")
    parser.add_argument("--commands", type=Path, help="folder for the tables and the model")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the results")
    asked = parser.parse_args()
    rng = np.random.default_rng(1)
    began = time.perf_counter()
    X, X_test = rng.random((asked.rows, 2)), rng.random((asked.test, 2))
    y = field(X) + NOISE * rng.normal(size=asked.rows)
    y_test = field(X_test) + NOISE * rng.normal(size=asked.test)
    rows = [taken("the data", began)]
    if asked.commands is not None:
        asked.commands.mkdir(parents=True, exist_ok=True)
        by_commands(asked.commands, X, y, X_test, ["--kernel", asked.kernel] if asked.kernel else [])
        return
    began = time.perf_counter()
    model = cagp.fit(X, y, kernel=asked.kernel, progress=False)
    rows.append(taken("`cagp.fit(X, y)`", began))
    print(model.story, flush=True)
    began = time.perf_counter()
    prediction = model.predict(X_test, progress=False).observed()
    rows.append(taken(f"prediction of {asked.test:,} points", began))
    scores = evaluate(prediction, y_test, "observed")
    half, most = scores.coverage([0.5, 0.95])
    notes = (
        f"Peak: the largest resident size of the process so far. RMSE of new observations {scores.rmse:.4f}, of which "
        f"{NOISE:g} is noise; CRPS {scores.crps:.4f}; 50% intervals hold {half:.1%}, 95% hold {most:.1%}."
    )
    found = table(f"{asked.rows:,} observations in the plane", ["what", "seconds", "peak GiB"], rows, notes)
    if (asked.rows, asked.test, asked.kernel) == (ROWS, TEST, None):
        write(asked.out, "ten_million", "Ten million observations", [found], False)


if __name__ == "__main__":
    main()
