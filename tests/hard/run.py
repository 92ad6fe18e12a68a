"""Run many problems of a kind, each from its seed alone: ``run.py KIND FIRST N [SECONDS] [--record]``.

What was found is one line of ``benchmarks/results/hard_use.jsonl`` with ``--record``.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from hard.asking import ASKING
from hard.doors import DOORS
from hard.folders import FOLDERS
from hard.kinds import KINDS
from hard.laws import lawful
from hard.memory import MEMORY
from hard.whole import command, front

PROBLEMS = {**KINDS, **ASKING, **DOORS, **FOLDERS, **MEMORY, "front": front, "command": command}


RECORD = Path(__file__).parents[2] / "benchmarks" / "results" / "hard_use.jsonl"
LONGEST = {"budget": 600}  # seconds of a single problem; all others are small, and have
SMALL = 120


def hung(*_: object) -> None:
    """What a problem gets that does not end."""
    raise TimeoutError("not done in time")


def record(kind: str, first: int, became: Counter[str], failures: list[int]) -> None:
    """Add what was found to the record."""
    from cagp_studies.machine import describe

    machine = describe()
    line = {"kind": kind, "first": first, "n": became.total() + len(failures), "failures": failures, "became": became}
    line |= {"date": time.strftime("%Y-%m-%d"), "machine": machine["processor"], "version": machine["cagp"]}
    with RECORD.open("a", encoding="utf-8") as file:
        print(json.dumps(line), file=file)


def main() -> None:
    """Problems FIRST … FIRST + N − 1, or as many as there is time for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=PROBLEMS)
    parser.add_argument("first", type=int)
    parser.add_argument("n", type=int)
    parser.add_argument("seconds", type=float, nargs="?", default=1e9)
    parser.add_argument("--record", action="store_true")
    asked = parser.parse_args()
    kind, first, n = asked.kind, asked.first, asked.n
    until, failures = time.monotonic() + asked.seconds, list[int]()
    became: Counter[str] = Counter()
    signal.signal(signal.SIGALRM, hung)
    for seed in range(first, first + n):
        if time.monotonic() > until:
            break
        with tempfile.TemporaryDirectory() as folder:
            signal.alarm(LONGEST.get(kind, SMALL))
            try:
                became[lawful(PROBLEMS[kind], seed, Path(folder))] += 1
            except Exception as error:
                failures.append(seed)
                where = traceback.extract_tb(error.__traceback__)[-1]
                said = str(error).strip().split("\n")[0][:300]
                print(
                    f"{kind} {seed}: {type(error).__name__} at {where.filename[-40:]}:{where.lineno}: {said}",
                    flush=True,
                )
                if n == 1:
                    traceback.print_exc()
            finally:
                signal.alarm(0)
    print(f"{kind}: {became.total() + len(failures)} problems, {len(failures)} failed; {dict(became)}")
    if asked.record:
        record(kind, first, became, failures)
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
