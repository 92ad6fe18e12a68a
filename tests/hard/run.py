"""Run many problems of a kind, each from its seed alone: ``python tests/hard/run.py KIND FIRST N [SECONDS]``."""

from __future__ import annotations

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
from hard.memory import memory
from hard.whole import command, front

PROBLEMS = {**KINDS, **ASKING, **DOORS, **FOLDERS, "front": front, "command": command, "memory": memory}


LONGEST = 120  # seconds of a single problem; all are small


def hung(*_: object) -> None:
    """What a problem gets that does not end."""
    raise TimeoutError(f"not done after {LONGEST} seconds")


def main() -> None:
    """Problems FIRST … FIRST + N − 1, or as many as there is time for."""
    kind, first, n = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    until = time.monotonic() + (float(sys.argv[4]) if len(sys.argv) > 4 else 1e9)
    became: Counter[str] = Counter()
    failed = 0
    signal.signal(signal.SIGALRM, hung)
    for seed in range(first, first + n):
        if time.monotonic() > until:
            break
        with tempfile.TemporaryDirectory() as folder:
            signal.alarm(LONGEST)
            try:
                became[lawful(PROBLEMS[kind], seed, Path(folder))] += 1
            except Exception as error:
                failed += 1
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
    print(f"{kind}: {sum(became.values()) + failed} problems, {failed} failed; {dict(became)}")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
