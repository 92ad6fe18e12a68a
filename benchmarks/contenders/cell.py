"""One contender on one problem, in a process of its own: ``python -m contenders.cell NAME PROBLEM.npz RESULT.json``.

A small problem first loads the libraries and compiles what is compiled; RESULT.ready then tells that the clocks run:
that of the processor, which counts all threads and does not mind what else runs on the machine, and that on the wall.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from . import ALL
from .problems import Problem


def high_water() -> int:
    """The largest resident size of this process so far, in bytes (Linux)."""
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


def clocks() -> np.ndarray:
    """Seconds of the processor, of this process and the children that it waited for, and on the wall (2,)."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return np.array([sum(each.ru_utime + each.ru_stime for each in used), time.perf_counter()])


def measured(name: str, problem: Problem, ready: Path | None = None) -> dict[str, Any]:
    """Seconds, bytes and scores of a contender."""
    contender = ALL[name]
    small = problem.first(contender.warm_up_rows)
    (contender.warm_up or contender.fit)(small.X, small.y)(small.X_test)
    if ready is not None:
        ready.touch()
    start = clocks()
    predict = contender.fit(problem.X, problem.y)
    fitted = clocks()
    predicted = predict(problem.X_test)
    done = clocks()
    (fit, fit_wall), (prediction, predict_wall) = (fitted - start).tolist(), (done - fitted).tolist()
    result: dict[str, Any] = {"fit": fit, "predict": prediction, "fit_wall": fit_wall, "predict_wall": predict_wall}
    result["memory"] = high_water()
    result["scores"] = predicted.scores(problem.y_test, np.ones(len(problem.y_test), bool))
    if problem.in_gap.any():
        result["gaps"] = predicted.scores(problem.y_test, problem.in_gap)
    return result


def version_of(package: str) -> str:
    if package == "cagp":  # it may run from the source tree
        import cagp

        return cagp.__version__
    return version(package)


def main() -> None:
    name, data, out = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    try:
        found = {"status": "done", **measured(name, Problem.load(data), out.with_suffix(".ready"))}
        found["version"] = version_of(ALL[name].package)
    except ModuleNotFoundError as error:
        found = {"status": "not installed", "reason": str(error)}
    except MemoryError as error:
        found = {"status": "over memory", "reason": str(error)}
    except Exception as error:  # whatever a package does is a result of the comparison
        found = {"status": "failed", "reason": f"{type(error).__name__}: {error}"[:300]}
    out.write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main()
