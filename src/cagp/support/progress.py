"""Progress where somebody is looking: a bar by rich, plain percentages without it, and silence elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

Advance = Callable[[float], None]


def progress(description: str, total: float, show: bool | None = None) -> AbstractContextManager[Advance]:
    """Gives ``advance(steps)``. ``show=None`` shows progress where standard error is a terminal."""
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
