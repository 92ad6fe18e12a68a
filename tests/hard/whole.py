"""Problems for whole programs: the front door ``cagp.fit``, and the command line on tables that people might have."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from typer.testing import CliRunner, Result

import cagp
from cagp import errors
from cagp.cli import app
from cagp.support import clock
from cagp.tables import read_columns, read_table
from hard.asking import check_map
from hard.kinds import Problem, check_transformed
from hard.laws import check_prediction, numbers
from hard.ugly import kernel, pick, scale

NAMES = ("x", "größe", "東", "a b", "y,z", '"q"', "x" * 60, "1", " lead", "mean", "=1+1", "é\u0301", "Δ°", "nan")
CELLS = ("", "NA", "nan", "inf", "-", "1e999", "1e-400", "0x10", "1_000", "1,5", "true", "2024-01-01", "é", "'", "1 2")

LATE = 3.0  # seconds for what is begun and for the best so far: one candidate is always fitted and judged


def processor_seconds() -> float:
    """Of this process, without compiling, which no budget counts."""
    return time.process_time() - clock.compiling()


def front(seed: int, folder: Path) -> str:
    """``cagp.fit`` with random options on a small problem."""
    hurried = seed % 2 == 0  # of observations enough for the budget to bind, and seldom refused
    problem = Problem(np.random.default_rng([5, seed]), *((5000, 0.9) if hurried else (24,)))
    rng = problem.rng
    options: dict[str, Any] = {"progress": False}
    if not hurried:
        options["fit_options"] = {"max_iterations": int(rng.integers(1, 12))}
    choices: dict[str, tuple[Any, ...]] = {
        "kernel": ("matern32", ["matern12", "rbf"], "short and long", "periodic", ""),
        "mean": ("zero", "constant", "linear", "quadratic", cagp.Zero(), "none"),
        "likelihood": ("exact", "nearest-neighbours", "other"),
        "mixture": (False,),
        "uncertainty": (False, False, True, "sure"),
        "recalibrate": (False, True, "never"),
        "transform": (None, None, "log", "box-cox", "yeo-johnson", "sinh-arcsinh", "logit", "cube"),
        "ard": (True, False),
        "solver": ("nearest-neighbours", cagp.CalibratedCG(5), cagp.GaussSeidel(3), "fastest"),
        "noise_variance": (0.01 * min(problem.y_unit, 1e150) ** 2, 0.0, np.full(len(problem.y), 0.1)),
        "like": (problem.X_test,),
        "globe": ((0, 1), ("a", "b")),
        "times": ([0], [9]),
    }
    if rng.random() < (0.1 if hurried else 0.7):  # one kernel is a sixth of the time
        options["kernel"] = pick(rng, ("matern32", "rbf", "matern12"))
    for name, values in choices.items():
        if rng.random() < (0.04 if hurried else 0.12):
            options[name] = pick(rng, values)
    if rng.random() < 0.1:
        options["kernel"] = kernel(rng, problem.p, problem.x_unit, max(min(problem.y_unit, 1e150) ** 2, 1e-300))
    if hurried:
        options["seconds"] = float(10 ** rng.uniform())
    X, y, began = problem.maybe_spoilt(problem.X), problem.maybe_spoilt(problem.y), processor_seconds()
    with patch.object(clock, "now", processor_seconds if hurried else clock.now):  # whatever else runs here
        model = cagp.fit(X, y, **options)
    late = processor_seconds() - began - options.get("seconds", np.inf)
    assert late < LATE, f"{late:.1f} s more than seconds={options['seconds']:.1f}"
    prediction: Any = model.predict(problem.X_test)
    transform = model.transform
    if transform is None:
        check_prediction(prediction, draws=False)
        if np.ndim(model.prior.noise_variance) == 0:
            check_prediction(prediction.observed(), draws=False)
    else:
        check_transformed(prediction, transform, model.replace(transform=None).predict(problem.X_test))
    assert model.story.strip()
    assert str(model.guarantee)
    assert sum(each.weight for each in model.candidates) <= 1 + 1e-6
    if rng.random() < 0.3:
        model.save(folder / "m")
        loaded = cagp.load(folder / "m")
        before, after = (np.asarray(each.predict(problem.X_test).mean) for each in (model, loaded))
        # to a millionth of what y varies by: far from zero coordinates have few digits
        near = 1e-6 * float(np.nanmax(np.abs(before), initial=0.0))
        assert np.allclose(before, after, rtol=1e-6, atol=near, equal_nan=True), (
            "a loaded model predicts something else"
        )
    return "fitted"


def call(*arguments: object) -> Result:
    """A command; exit codes are the documented ones, errors one message without a traceback."""
    done = CliRunner().invoke(app, [str(each) for each in arguments])
    assert done.exception is None or isinstance(done.exception, SystemExit), repr(done.exception)
    assert done.exit_code in (0, 1, 2), done.exit_code
    if done.exit_code:
        assert "Traceback" not in done.stderr
        assert len(done.stderr) > 20, f"no words: {done.stderr!r}"
        kind = re.search(r"^Error: (\w+): .*\n--debug shows", done.stderr, re.MULTILINE | re.DOTALL)
        assert kind is None or hasattr(errors, kind[1]), done.stderr
    return done


def table(rng: np.random.Generator, columns: dict[str, np.ndarray], path: Path) -> None:
    """A CSV file of these columns, with what files have: other separators, encodings, line ends, odd cells."""
    sep, end = pick(rng, (",", ",", ",", ";", "\t")), pick(rng, ("\n", "\n", "\r\n"))
    rows = [[repr(float(value)) for value in row] for row in zip(*columns.values(), strict=True)]
    while rows and rng.random() < 0.1:
        rows[int(rng.integers(len(rows)))][int(rng.integers(len(columns)))] = str(pick(rng, CELLS))
    header = [f'"{name.replace(chr(34), chr(34) * 2)}"' if set(name) & {",", '"', ";"} else name for name in columns]
    text = end.join(sep.join(row) for row in [header, *rows]) + pick(rng, ("", end, end * 3))
    if rng.random() < 0.05:
        text = text[: int(rng.integers(len(text) + 1))]
    content = text.encode(pick(rng, ("utf-8", "utf-8", "utf-8", "utf-8-sig", "utf-16")))
    if rng.random() < 0.03 and content:
        at = int(rng.integers(len(content)))
        content = content[:at] + bytes([int(rng.integers(256))]) + content[at + 1 :]
    path.write_bytes(content)


def command(seed: int, folder: Path) -> str:
    """``cagp fit --no-fit``, then predict, average, simulate, info, on a random table with random options."""
    problem = Problem(np.random.default_rng([6, seed]), 15)
    rng = problem.rng
    names = [str(name) for name in rng.permutation(NAMES)[: problem.p]]
    table(rng, {**dict(zip(names, problem.X.T, strict=True)), "target": problem.y}, folder / "train.csv")
    table(rng, dict(zip(names, problem.X_test.T, strict=True)), folder / "new.csv")
    model = folder / "model"
    variance = min(problem.y_unit, 1e150) ** 2 or 1e-9
    noise = scale(rng) if rng.random() < 0.1 else variance * 0.1
    options = ["--lengthscale", problem.x_unit, "--variance", variance, "--noise-variance", noise]
    for more in (
        ("--drop-missing",),
        ("--impute", "median"),
        ("--recalibrate",),
        ("--mean", pick(rng, ("zero", "linear", "cubic"))),
        ("--solver", pick(rng, ("gauss-seidel", "nearest-neighbours", "CalibratedCG(5)", "__import__('os')", "x y"))),
        ("--exclude", pick(rng, (names[0], "nobody"))),
        ("--kernel", pick(rng, ("rbf", "Matern32(0.5) + RBF(2.0)", "Matern32(-1)", "(((", "periodic"))),
        ("--globe", ",".join(names[:2])),
    ):
        if rng.random() < 0.06:
            options += more
    if "--recalibrate" not in options:
        options.append("--no-recalibrate")
    done = call("fit", folder / "train.csv", "--target", "target", "--out", model, "--no-fit", "--no-report", *options)
    assert (done.exit_code == 0) == model.exists(), "a model that was not reported, or the other way round"
    if done.exit_code:
        return f"fit refused, code {done.exit_code}"
    out, codes = folder / f"out{pick(rng, ('.csv', '.parquet', '.csv.gz'))}", []
    more = ["--drop-missing"] if rng.random() < 0.3 else []
    observed = ["--observed"] if rng.random() < 0.3 else []
    level = str(pick(rng, ("0", repr(problem.y_unit), f"-1e-3,{problem.y_unit!r}", "nan", "high", "1e999", "0,0")))
    exceed = ["--exceed", level] if rng.random() < 0.3 else []
    verbs: list[tuple[Any, ...]] = [
        ("predict", *observed, *exceed),
        ("average", *observed, *exceed),
        ("simulate", *observed, "--n", 2),
        ("design", "--n", int(rng.integers(1, len(problem.X_test) + 2))),
    ]
    for verb, *rest in verbs:
        done = call(verb, model, folder / "new.csv", "--out", out, *rest, *more)
        written(done, out, verb)
        codes.append(done.exit_code)
        if out.exists():
            if verb in ("predict", "average"):
                known = read_columns(out).names
                lower, upper = (next(name for name in known if name.startswith(end)) for end in ("lower_", "upper_"))
                above = [name for name in known if name.startswith("exceeds_")]
                assert not exceed or above, "no column says how probable it is"
                shown = read_table(out, ["mean", "std", lower, upper, *above]).columns
                values = {name: numbers(each, name) for name, each in shown.items()}
                assert (values["std"] >= 0).all()
                assert (values[lower] <= values[upper]).all()
                assert all(((values[name] >= 0) & (values[name] <= 1)).all() for name in above), "no probability"
            if verb == "design":
                falling = numbers(read_table(out, ["average_variance"]).columns["average_variance"], "variance")
                assert (np.diff(falling) <= 1e-9 * falling[0]).all(), "an observation makes things worse"
            out.unlink()
    if rng.random() < 0.5:
        codes.append(mapped(problem, model, folder, [*observed, *exceed]))
    assert call("info", model).exit_code == 0
    return "all" if not any(codes) else f"codes {codes}"


def written(done: Result, out: Path, what: str) -> None:
    """An output is there if that was reported, and then nothing beside it."""
    assert (done.exit_code == 0) == out.exists(), f"{what}: an output that was not reported, or none that was"
    left = [each.name for each in out.parent.iterdir() if each.name.startswith(".partial") or ".parts" in each.name]
    assert done.exit_code or not left, left


def mapped(problem: Problem, model: Path, folder: Path, options: list[str]) -> int:
    """``cagp predict --grid``, and its exit code."""
    rng = problem.rng
    spread = float(np.ptp(problem.X, axis=0).max()) or problem.x_unit
    side = repr(spread / float(10.0 ** rng.uniform(-1, 1.5)))
    if rng.random() < 0.2:
        side = str(pick(rng, (f"{side}m", "0", "-1", "nan", "wide", "1e-300", "1e300", "", folder / "new.csv")))
    out = folder / f"map{pick(rng, ('.tif', '.tif', '.nc', '.zarr', '.png'))}"
    done = call("predict", model, "--grid", side, "--out", out, *options, *pick(rng, ([], [], ["--share"])))
    written(done, out, "map")
    if out.exists():
        check_map(out)
    return done.exit_code
