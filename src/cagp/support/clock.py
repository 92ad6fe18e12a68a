"""The clock of budgets: it stands still while code is compiled, which happens once on a machine."""

from __future__ import annotations

import sys
import time


def now() -> float:
    """Seconds from some moment on, without those that this process has spent on compiling."""
    return time.perf_counter() - compiling()


def compiling() -> float:
    """Seconds that this process has spent on compiling code of cagp so far; none where nothing is compiled."""
    compiling = sys.modules.get(f"{__package__}.compiling")  # needs numba, and is imported by who has it
    return compiling.SAYING.seconds if compiling is not None else 0.0
