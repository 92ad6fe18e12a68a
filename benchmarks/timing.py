"""Timing side by side: every contender in turn, several rounds, medians. Machines are noisy; ratios are less so."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping


def medians(contenders: Mapping[str, Callable[[], object]], rounds: int = 3, warm_up: bool = True) -> dict[str, float]:
    """Median seconds of each contender over ``rounds`` interleaved rounds, after one round that is not counted."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for round_ in range(rounds + warm_up):
        for name, call in contenders.items():
            start = time.perf_counter()
            call()
            if round_ >= warm_up:
                times[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in times.items()}
