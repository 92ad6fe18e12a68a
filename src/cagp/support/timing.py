"""How long a piece of work takes on a device."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch


def least_seconds(call: Callable[[], object], device: torch.device, repeats: int) -> float:
    """The least time of so many calls, after one that does not count.

    The first call pays for what is made once (memory, compiled code), and others who use the machine can only make a
    call longer. A GPU goes on after a call has returned: its end is waited for.
    """

    def timed() -> float:
        start = time.perf_counter()
        call()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return time.perf_counter() - start

    timed()
    return min(timed() for _ in range(repeats))
