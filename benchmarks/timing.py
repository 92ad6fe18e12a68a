"""Timing side by side: every contender in turn, several rounds, medians. Machines are noisy; ratios are less so."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping


def medians(contenders: Mapping[str, Callable[[], object]], rounds: int = 3) -> dict[str, float]:
    """Median seconds of each contender over ``rounds`` interleaved rounds, after one warm-up round."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for round_ in range(rounds + 1):
        for name, call in contenders.items():
            start = time.perf_counter()
            call()
            if round_:
                times[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in times.items()}
