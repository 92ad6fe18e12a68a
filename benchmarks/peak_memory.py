"""Peak memory of a piece of work, measured in a process of its own (Linux)."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from typing import Any


def high_water() -> int:
    """The largest resident size of this process so far. Not getrusage: that one inherits the parent's."""
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


def _child(connection: Any, setup: Callable[[], Any], work: Callable[[Any], None]) -> None:
    state = setup()
    before = high_water()
    work(state)
    connection.send(high_water() - before)


def peak_bytes(setup: Callable[[], Any], work: Callable[[Any], None]) -> int:
    """How far ``work(setup())`` raises the peak memory of a fresh process over what ``setup`` needed."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(sender, setup, work))
    process.start()
    peak: int = receiver.recv()
    process.join()
    return peak
