"""Other packages side by side with cagp: fit, prediction, memory, and how good the error bars are.

    make peers                                              # sets itself up, measures what is missing, writes the page
    CAGP_DATA=... python benchmarks/peers.py                # the same in an environment with cagp[peers]
    python benchmarks/peers.py --only gpboost --size 100000 # one cell again
    python benchmarks/peers.py --only xarray-spatial --python other/bin/python  # what needs an interpreter of its own

Every package fits its hyperparameters itself, by the means that its documentation shows, and sees no test value; how
it was used, and which of our settings were changed after a look at scores, stands in ``contenders/`` and on the page.
Every cell of the tables is a process of its own with one thread, a limit in seconds of the processor and one in memory;
seconds of the processor hardly depend on what else the machine does, those on the wall are kept beside them. As many
cells as there are cores run at a time: on two about half an hour for all, by the sum of their times. Results are
appended to benchmarks/results/peers.jsonl as they come, and the last line of a cell counts: a run that was interrupted
goes on where it stopped. ``peers_page.py`` writes docs/comparison.md from that file. Linux only: it reads /proc.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from contenders import ALL
from contenders.contender import LEVELS
from contenders.problems import KIND, ROWS, SIZES, field_name, problem

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "peers.jsonl"
THREAD_VARIABLES = ("OMP", "MKL", "OPENBLAS", "NUMBA", "RAYON", "NUMEXPR")
Result = dict[str, Any]
Cell = tuple[str, str]
"""A contender and a problem, by name."""
WALL = 10
"""A cell that has used less of the processor than its limit is ended after so many times the limit on the wall."""


def read(path: Path) -> dict[Cell, Result]:
    """The last result of each cell."""
    if not path.exists():
        return {}
    lines = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip())
    return {(each["contender"], each["problem"]): each for each in lines}


def append(path: Path, result: Result) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(result, ensure_ascii=False) + "\n")


def cells() -> list[Cell]:
    """All cells, small problems first: a contender that has failed on one is not tried on a larger one."""
    return [
        (name, chosen)
        for chosen in sorted(ROWS, key=lambda each: ROWS[each])
        for name, contender in ALL.items()
        if KIND[chosen] in contender.kinds
    ]


def hopeless(name: str, chosen: str, known: dict[Cell, Result], limit: float) -> str:
    """Why a cell need not be tried: the same contender did not manage a problem that has no more rows."""
    for (contender, smaller), result in known.items():
        failed = result["status"] == "over memory" or (result["status"] == "over time" and result["limit"] >= limit)
        if contender == name and failed and smaller != chosen and ROWS[smaller] <= ROWS[chosen]:
            return f"{told(result)} with {ROWS[smaller]:,} rows"
    return ""


def told(result: Result) -> str:
    """The outcome of a cell that was not finished, in words."""
    if result["status"] == "over time":
        return f"over {result['limit']:g} s"
    if result["status"] == "over memory":
        return f"over {result['memory_limit']:g} GiB"
    if result["status"] == "not tried":
        return f"not tried: {result['reason']}"
    if "can't allocate memory" in result.get("reason", ""):
        return "out of memory"
    return str(result["status"])


def measure(name: str, data: Path, folder: Path, arguments: argparse.Namespace) -> Result:
    """Run one cell and watch over it."""
    out = folder / "result.json"
    environment = dict(os.environ) | {f"{each}_NUM_THREADS": "1" for each in THREAD_VARIABLES}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(HERE), environment.get("PYTHONPATH", "")]))
    command = [arguments.python, "-m", "contenders.cell", name, str(data), str(out)]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
        try:
            stopped = _watched(process, out.with_suffix(".ready"), arguments)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    if stopped:
        return {"status": stopped}
    if not out.exists():
        last = (folder / "log").read_text(errors="replace").strip().splitlines()[-1:]
        return {"status": "failed", "reason": f"the process ended with {process.returncode}: {' '.join(last)}"[:300]}
    return dict(json.loads(out.read_text(encoding="utf-8")))


def _watched(process: subprocess.Popen[bytes], ready: Path, arguments: argparse.Namespace) -> str:
    """Wait for the end; "over time" or "over memory" where a limit was passed, which the caller then enforces."""
    clock, used = time.perf_counter(), 0.0
    running = False
    while process.poll() is None:
        if arguments.ending.is_set():
            raise InterruptedError("the run was ended")
        if not running and ready.exists():
            running, clock, used = True, time.perf_counter(), processor_seconds(process.pid)
        over = processor_seconds(process.pid) - used > arguments.limit
        if over or time.perf_counter() - clock > WALL * arguments.limit:
            return "over time"
        if resident(process.pid) > arguments.memory * 2**30:
            return "over memory"
        time.sleep(0.05)
    return ""


def processor_seconds(pid: int) -> float:
    """Of all threads of a process and the children that it waited for; 0 when it has just ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def resident(pid: int) -> int:
    """Bytes in memory of a process; 0 when it has just ended."""
    try:
        with open(f"/proc/{pid}/status") as lines:
            return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:")), 0)
    except OSError:
        return 0


def machine(threads: int) -> str:
    from cagp_studies.machine import describe

    found = describe()
    versions = [f"{package} {found[package]}" for package in ("Python", "torch", "numpy", "scipy")]
    return ", ".join([found["processor"], f"{threads} thread{'s' if threads > 1 else ''}", *versions])


def matches(name: str, wanted: list[str]) -> bool:
    """``gpytorch`` means all of gpytorch-exact, gpytorch-cg, …, and ``cagp`` only itself."""
    return name in wanted or any(each not in ALL and name.startswith(f"{each}-") for each in wanted)


def due(known: Result | None, arguments: argparse.Namespace) -> bool:
    """Whether a cell has to be run: it never was, it was asked for by name, or it now has more time."""
    if known is None or arguments.only:
        return True
    more_time = known["limit"] < arguments.limit or known["memory_limit"] < arguments.memory
    return known["status"] in ("not tried", "not installed") or (known["status"] != "done" and more_time)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help=f"contenders to measure again: {', '.join(ALL)}")
    parser.add_argument("--problem", default="", help=f"problems, of {', '.join(ROWS)}")
    parser.add_argument("--size", type=int, action="append", help=f"sizes of the field, of {SIZES}")
    parser.add_argument("--limit", type=float, default=100.0, help="seconds of the processor for a cell")
    parser.add_argument("--memory", type=float, default=8.0, help="GiB of a cell")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="cells at a time")
    parser.add_argument("--python", default=sys.executable, help="the interpreter of the cells; this one by default")
    parser.add_argument("--results", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    arguments.only = [each for each in arguments.only.split(",") if each]
    arguments.problem = [each for each in arguments.problem.split(",") if each]
    arguments.problem += [field_name(n) for n in arguments.size or ()]
    for each in arguments.problem:
        if each not in ROWS:
            parser.error(f"there is no problem {each!r}; choose from {', '.join(ROWS)}")
    for each in arguments.only:
        if not any(matches(name, [each]) for name in ALL):
            parser.error(f"there is no contender {each!r}; choose from {', '.join(ALL)}")
    return arguments


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that cells that are running are ended, too
    arguments = parsed()
    arguments.ending = threading.Event()
    where = machine(1)
    wanted = [
        (name, chosen)
        for name, chosen in cells()
        if (not arguments.only or matches(name, arguments.only))
        and (not arguments.problem or chosen in arguments.problem)
        and due(read(arguments.results).get((name, chosen)), arguments)
    ]
    writing = threading.Lock()
    with tempfile.TemporaryDirectory() as temporary:

        def run(cell: Cell) -> None:
            name, chosen = cell
            data = Path(temporary) / f"{chosen}.npz"
            with writing:
                known = read(arguments.results)
                if not data.exists():
                    problem(chosen).save(data)
            if reason := "" if arguments.only else hopeless(name, chosen, known, arguments.limit):
                result: Result = {"status": "not tried", "reason": reason}
            else:
                folder = Path(temporary) / f"{name}-{chosen}"
                folder.mkdir()
                result = measure(name, data, folder, arguments)
            setting = {"limit": arguments.limit, "memory_limit": arguments.memory, "machine": where}
            setting["date"] = datetime.date.today().isoformat()
            result = {"contender": name, "problem": chosen, **setting, **result}
            with writing:
                append(arguments.results, result)
                print(f"{chosen:15} {name:16} {summary(result)}", flush=True)

        with ThreadPoolExecutor(arguments.jobs) as pool:
            try:
                for each in [pool.submit(run, cell) for cell in wanted]:
                    each.result()
            except BaseException:
                arguments.ending.set()
                pool.shutdown(wait=False, cancel_futures=True)
                raise


def summary(result: Result) -> str:
    if result["status"] != "done":
        return told(result) + (f" ({result['reason']})" if result["status"] == "failed" else "")
    scores = result["scores"]
    times = f"fit {result['fit']:8.2f} s, predict {result['predict']:6.2f} s, {result['memory'] / 2**30:5.2f} GiB"
    held = ", ".join(f"{scores[name]:.3f}" for name in LEVELS)
    return f"{times}, RMSE {scores['rmse']:.4f}, CRPS {scores['crps']:.4f}, {held}"


if __name__ == "__main__":
    main()
