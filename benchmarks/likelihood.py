"""The likelihood: its distance from the floor, against torch, an older release and GPBoost's optimum, a busy machine.

Evaluations of value and gradient take turns, so that all see the same machine. ``--released`` is the folder ``src`` of
an older release, which runs in a process of its own. The optimum is that of Heaton's simulated field (CAGP_DATA has
heaton_simulated.csv.gz), or of a simulated one where there is no such file; GPBoost comes with ``cagp[peers]``.

    python benchmarks/likelihood.py [--released PATH] [--quick]
"""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from record import Table, options, table, write
from threadpoolctl import threadpool_limits

import cagp
from cagp.gram.previous_neighbours import previous_neighbours
from cagp.hyperparameters import fit, log_likelihood
from cagp.hyperparameters.exact import exact_likelihood
from cagp.hyperparameters.observations import observations
from cagp.hyperparameters.radial_plan import compiled_plan
from cagp.hyperparameters.search_space import Space
from cagp.hyperparameters.terms import Terms
from cagp.hyperparameters.vecchia import CompiledVecchiaLikelihood, VecchiaLikelihood
from cagp.support import lapack
from cagp.support.threads import threads_for

Call = Callable[[], object]


def simulated(n: int, p: int) -> tuple[np.ndarray, np.ndarray]:
    """Points in the unit cube (n, p), and something rough at them (n,)."""
    rng = np.random.default_rng(0)
    X = rng.random((n, p))
    return X, np.sin(9 * X[:, 0]) + np.cos(7 * X[:, -1]) + 0.2 * rng.standard_normal(n)


def neighbours_problem(n: int, k: int) -> tuple[dict[str, Call], dict[str, np.ndarray]]:
    """Evaluations of the nearest-neighbour likelihood with two lengthscales, and the same as arrays."""
    X, y = simulated(n, 2)
    prior = cagp.Prior(cagp.Matern12((0.3, 0.2)), noise_variance=0.05)
    space, data = Space.of(prior), observations(prior, X, y, None)
    data = data.rows(np.random.default_rng(0).permutation(n))
    terms = Terms.all_of(previous_neighbours(prior.kernel, data.X, k))
    plan = compiled_plan(space, data.X)
    assert plan is not None, "this benchmark needs numba"
    compiled = CompiledVecchiaLikelihood(space, data, terms, plan)
    plain = VecchiaLikelihood(space, data, terms, 2**32)
    calls: dict[str, Call] = {"torch": lambda: plain(space.start), "compiled": lambda: compiled(space.start)}
    return calls, {"X": X, "y": y, "k": np.array(k), "lengthscale": np.array([0.3, 0.2])}


def exact_problem(n: int, p: int) -> tuple[dict[str, Call], dict[str, np.ndarray]]:
    """Evaluations of the exact likelihood with p lengthscales, and the same as arrays."""
    X, y = simulated(n, p)
    prior = cagp.Prior(cagp.Matern32((2.0,) * p), noise_variance=0.05)
    space, data = Space.of(prior), observations(prior, X, y, None)
    likelihood = exact_likelihood(space, data, 2**33)
    arrays = {"X": X, "y": y, "k": np.array(0), "lengthscale": np.full(p, 2.0)}
    return {"now": lambda: likelihood(space.start)}, arrays


class Released:
    """Evaluations by an older release, in a process that waits in between."""

    def __init__(self, folder: Path, arrays: dict[str, np.ndarray], scratch: str) -> None:
        path = Path(scratch) / "problem.npz"
        np.savez(path, allow_pickle=False, **arrays)
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("released_likelihood.py")), str(path)],
            env={**os.environ, "PYTHONPATH": str(folder)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._line()

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the older release failed"
        return line

    def __call__(self) -> float:
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        return float(self._line())

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()


@contextlib.contextmanager
def busy() -> Iterator[None]:
    """Another process that multiplies matrices on two threads meanwhile."""
    code = "import numpy as np; A = np.ones((1500, 1500)); print('ready', flush=True)\nwhile True: A @ A"
    threads = {"OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2", "MKL_NUM_THREADS": "2"}
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env={**os.environ, **threads}
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield
    finally:
        process.terminate()
        process.wait()


def in_turn(calls: dict[str, Call], rounds: int) -> dict[str, float]:
    """Median seconds; a call that returns a float has taken its own time."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.perf_counter()
            own = call()
            times[name].append(own if isinstance(own, float) else time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in times.items()}


def evaluations(quick: bool, released: Path | None) -> Table:
    large, small, k, rounds = (400, 200, 8, 1) if quick else (105_569, 10_000, 30, 3)
    rows = []
    for name, (calls, arrays), beside in (
        (f"nearest neighbours, {large:,} points, two lengthscales", neighbours_problem(large, k), False),
        (f"nearest neighbours, {small:,} points, two lengthscales", neighbours_problem(small, k), True),
        ("exact, 2,000 points in 22 columns", exact_problem(200 if quick else 2_000, 22), True),
    ):
        if not beside:
            calls.pop("torch")  # the release was by torch, too
        for call in calls.values():
            call()  # compiled, or read from disk
        with tempfile.TemporaryDirectory() as scratch:
            old = Released(released, arrays, scratch) if released else None
            every = calls | ({"released": old} if old else {})
            alone = in_turn(every, rounds)
            with busy() if beside else contextlib.nullcontext():
                crowded = in_turn(every, rounds) if beside else {}
            if old:
                old.close()
        for each, seconds in alone.items():
            ratio = f"{alone['released'] / seconds:.1f}" if old else "–"
            then = [f"{crowded[each]:.3f}", f"{crowded[each] / seconds:.1f}"] if beside else ["–", "–"]
            rows.append([name, each, f"{seconds:.3f}", ratio, *then])
    columns = ["likelihood", "by", "s", "released / this", "s, machine busy", "busy / alone"]
    notes = f"k = {k}. Medians of {rounds} rounds in which all take turns. Busy: beside a process with two threads."
    return table("Value and gradient", columns, rows, notes)


def floors(quick: bool) -> Table:
    """One evaluation with value, gradient and information by one thread, beside what cannot be avoided, in turn."""
    rows, B = [], np.ones((1500, 1500))
    for n in (50,) if quick else (200, 500, 1_000, 2_000):
        G = np.exp(-np.abs(np.subtract.outer(np.arange(n), np.arange(n)) / n)) + 0.1 * np.eye(n)
        E, pairs = np.random.default_rng(0).random((6, n)), np.empty(n * (n + 1) // 2)

        def factors(G: np.ndarray = G) -> None:
            matrix = G.copy()
            lapack.factorise(matrix)
            lapack.invert(matrix)
            lapack.multiply_by_transpose(matrix)

        def exponentials(E: np.ndarray = E, pairs: np.ndarray = pairs) -> None:
            for e in E:
                np.multiply(pairs, e[0], out=pairs)
            np.exp(np.negative(np.sqrt(np.abs(pairs, out=pairs), out=pairs), out=pairs), out=pairs)

        calls = {"product": lambda: B @ B, **exact_problem(n, 6)[0], "factors": factors, "pairs": exponentials}
        repeats = max(1, 2_000_000 // n**2)
        times: dict[str, list[float]] = {name: [] for name in calls}
        with threadpool_limits(1), threads_for(1):
            for _ in range(2 if quick else 9):
                for name, call in calls.items():
                    count = 1 if name == "product" else repeats
                    start = time.process_time()
                    for _ in range(count):
                        call()
                    times[name].append((time.process_time() - start) / count)
        found = {name: statistics.median(each[1:]) for name, each in times.items()}
        cubes = n**3 * found["product"] / (2 * 1500**3)
        least = found["factors"] + found["pairs"]
        numbers = [f"{1e3 * each:.2f}" for each in (found["now"], cubes, found["factors"], found["pairs"])]
        rows.append([f"{n:,}", *numbers, f"{found['now'] / cubes:.1f}", f"{found['now'] / least:.1f}"])
    columns = ["n", "ms", "n³ operations", "factor and inverse", "pairs", "ms / n³", "ms / (factor, inverse and pairs)"]
    notes = (
        "Matérn 3/2 with 6 lengthscales. n³ at the rate of a product of 1,500 × 1,500; pairs: 6 products, a root and "
        "an exponential for each, by NumPy. CPU time, medians of rounds in which all take turns, one thread."
    )
    return table("Value, gradient and information: how far from the floor", columns, rows, notes)


def field(quick: bool) -> tuple[str, np.ndarray, np.ndarray]:
    path = Path(os.environ.get("CAGP_DATA", "")) / "heaton_simulated.csv.gz"
    if quick or not path.is_file():
        return "a simulated field", *simulated(600, 2)
    rows = np.genfromtxt(path, delimiter=",", skip_header=1)
    rows = rows[np.isfinite(rows[:, 2])]
    return "Heaton's simulated field", rows[:, :2], rows[:, 2]


def gpboost_optimum(X: np.ndarray, y: np.ndarray, k: int) -> cagp.Prior | None:
    """The prior that GPBoost ends with; None where it is not installed."""
    try:
        import gpboost
    except ImportError:
        return None
    with contextlib.redirect_stdout(sys.stderr):
        model = gpboost.GPModel(
            gp_coords=X, cov_function="exponential", gp_approx="vecchia", num_neighbors=k, likelihood="gaussian"
        )
        model.fit(y=y - y.mean())  # with a covariate of ones its search ended far from any optimum
    noise, variance, scale = np.ravel(np.asarray(model.get_cov_pars()))[:3].tolist()
    return cagp.Prior(cagp.Matern12(scale, variance), mean=cagp.Constant(), noise_variance=noise)


def optima(quick: bool) -> Table:
    name, X, y = field(quick)
    k = 8 if quick else 30
    spread = float(y.var())
    start = cagp.Prior(
        cagp.Matern12(float(X.std(axis=0).mean()) / 2, spread), mean=cagp.Constant(), noise_variance=0.1 * spread
    )

    def ours(terms: int | str | None) -> cagp.Prior:
        options = {"likelihood": "nearest-neighbours", "n_neighbours": k, "n_restarts": 0, "standard_errors": False}
        return fit(start, X, y, terms=terms, **options).prior  # type: ignore[arg-type]

    makers: dict[str, Callable[[], cagp.Prior | None]] = {
        "all terms": lambda: ours("all"),
        "6,000 terms": lambda: ours(None),
        "GPBoost": lambda: gpboost_optimum(X, y, k),
    }
    found: dict[str, tuple[float, cagp.Prior]] = {}
    for each, make in makers.items():
        begin = time.perf_counter()
        prior = make()
        if prior is not None:
            found[each] = time.perf_counter() - begin, prior
    values = {
        each: log_likelihood(prior, X, y, likelihood="nearest-neighbours", n_neighbours=k)
        for each, (_, prior) in found.items()
    }
    rows = []
    for each, (seconds, prior) in found.items():
        ratio = f"{found['GPBoost'][0] / seconds:.1f}" if "GPBoost" in found else "–"
        kernel = prior.kernel
        assert isinstance(kernel, cagp.Matern12)
        numbers = [f"{kernel.lengthscale:.3g}", f"{kernel.variance:.3g}", f"{prior.noise_variance:.3g}"]
        rows.append([each, f"{seconds:.1f}", ratio, f"{values[each] - values['all terms']:+.2f}", *numbers])
    columns = ["from", "s", "GPBoost / this", "log p less that of all terms", "lengthscale", "variance", "noise"]
    notes = "Whole fits from a rough start, search for neighbours included. log p is that of all terms, by cagp."
    return table(f"The optimum of {name}: {len(y):,} observations, Matérn 1/2, k = {k}", columns, rows, notes)


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--released", type=Path, help="the folder src of an older release")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    found = [floors(arguments.quick), evaluations(arguments.quick, arguments.released), optima(arguments.quick)]
    write(arguments.out, "likelihood", "The likelihood", found, arguments.quick)


if __name__ == "__main__":
    main()
