"""Python threads that share out independent pieces of work, each with single-threaded torch.

Many small factorisations run one after another inside torch, on one core; handed to several threads they use all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

Piece = TypeVar("Piece")
Result = TypeVar("Result")


def on_one_thread(call: Callable[[], Result], device: torch.device) -> Result:
    """What ``call`` returns, with single-threaded torch on a CPU: for so little work that threads only wait."""
    threads = torch.get_num_threads()
    if threads == 1 or device.type != "cpu":
        return call()
    try:
        with ThreadPoolExecutor(1, "cagp", torch.set_num_threads, (1,)) as pool:
            return pool.submit(call).result()
    finally:
        torch.set_num_threads(threads)


def share_out(work: Callable[[Piece], object], pieces: Iterable[Piece], device: torch.device) -> None:
    """Call ``work`` on every piece, on as many threads as torch has; an error in one is raised here.

    One after another where the work is on a GPU, which is one queue anyhow.
    """
    todo, threads = list(pieces), torch.get_num_threads()
    n = min(threads, len(todo)) if device.type == "cpu" else 1
    if n <= 1:
        for piece in todo:
            work(piece)
        return
    try:
        with ThreadPoolExecutor(n, "cagp", torch.set_num_threads, (1,)) as pool:
            done = [pool.submit(work, piece) for piece in todo]
            try:
                for future in done:
                    future.result()
            finally:
                for future in done:
                    future.cancel()
    finally:
        # the number is each thread's own, but the last one set is what new threads start with: keep the caller's,
        # once no thread is left that has yet to begin
        torch.set_num_threads(threads)
