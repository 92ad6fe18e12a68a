"""Progress where somebody is looking: a bar by rich, plain percentages without it; elsewhere long work is logged.

The logger is "cagp": it has steps of long work at level INFO, and the candidates of a fit at DEBUG.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

Advance = Callable[[float], None]

LOGGER = logging.getLogger("cagp")
_EVERY = 10.0  # seconds between two lines of a log


def progress(description: str, total: float, show: bool | None = None) -> AbstractContextManager[Advance]:
    """Gives ``advance(steps)``. ``show=None`` shows progress where standard error is a terminal, and else logs it."""
    if show is None and not sys.stderr.isatty() and LOGGER.isEnabledFor(logging.INFO):
        return _logged(description, total)
    if not (sys.stderr.isatty() if show is None else show):
        return nullcontext(lambda steps: None)
    try:
        import rich.progress  # noqa: F401
    except ImportError:
        return _plain(description, total)
    return _bar(description, total)


@contextmanager
def _bar(description: str, total: float) -> Iterator[Advance]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(description, total=total)
        yield lambda steps: bar.advance(task, steps)


def say(text: str) -> None:
    """Tell on a terminal what makes somebody wait, and log it elsewhere."""
    if sys.stderr.isatty():
        print(text, file=sys.stderr, flush=True)
    else:
        LOGGER.info("%s", text)


@contextmanager
def _logged(description: str, total: float) -> Iterator[Advance]:
    """A line every ten seconds, and one at the end of what took so long."""
    started = said = time.perf_counter()
    done = 0.0

    def advance(steps: float) -> None:
        nonlocal done, said
        done += steps
        if (now := time.perf_counter()) - said >= _EVERY:
            said = now
            share = 100 * min(1.0, done / total) if total else 100
            LOGGER.info("%s: %.0f%% after %.0f s", description, share, now - started)

    yield advance
    if said > started:
        LOGGER.info("%s: ended after %.0f s", description, time.perf_counter() - started)


@contextmanager
def _plain(description: str, total: float) -> Iterator[Advance]:
    """Every tenth: on a terminal a line that is overwritten, and gone at the end; elsewhere a line each."""
    before, after = ("\r", "") if sys.stderr.isatty() else ("", "\n")
    done, said = 0.0, -1

    def advance(steps: float) -> None:
        nonlocal done, said
        done += steps
        tenths = min(10, int(10 * done / total)) if total else 10
        if tenths > said:
            said = tenths
            print(f"{before}{description}: {10 * tenths}%", end=after, file=sys.stderr, flush=True)

    try:
        yield advance
    finally:
        if before and said >= 0:
            print(f"\r{' ' * len(f'{description}: 100%')}\r", end="", file=sys.stderr, flush=True)
