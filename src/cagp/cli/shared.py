"""What all commands share: options, how errors and advice are told, and the exit codes.

| code | meaning |
|---|---|
| 0 | done |
| 1 | failure: a file that cannot be written, not enough memory, arithmetic |
| 2 | wrong use: an option, a table or a model folder that cannot be used |
| 3 | ``cagp check`` only: the error bars are not calibrated |
| 130 | interrupted by Ctrl-C; ``fit``, ``predict`` and ``simulate`` have kept what they had, and say so |
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import InputError
from ..support.spelling import printable

if TYPE_CHECKING:
    from ..fit_report import Names
    from ..saving import About

NOT_CALIBRATED = 3
INTERRUPTED = 130
KEPT = "Interrupted. What was finished is kept: the same command continues where it stopped."

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the whole traceback of an error.")]
Folder = Annotated[Path, typer.Argument(metavar="MODEL", help="Model folder that `cagp fit` wrote.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of all random numbers.")]
DropMissing = Annotated[
    bool, typer.Option("--drop-missing", help="Leave out rows with missing values, and say how many.")
]

IN_OPTIONS = {
    "not converged": "start from better values (--lengthscale, --variance, --noise-variance), or hold some (--fix)",
    "at a bound": "start elsewhere, or hold it on purpose (--fix)",
    "flat": "--fix holds a value that you know",
    "iterations done": (
        "More (--iterations) can make the error bars narrower; with --stop-share 0.05 each row stops when at most 5% "
        "of its variance is computational"
    ),
    "limit reached": "more --iterations get further",
}
"""The remedies of ``support.advice`` that the command line has."""


@contextmanager
def errors_reported(debug: bool, interrupted: str = "Interrupted. Nothing was written.") -> Iterator[None]:
    """Errors as one message on standard error, and an exit code."""
    try:
        yield
    except (typer.Exit, typer.Abort):
        raise
    except KeyboardInterrupt:
        typer.echo(interrupted, err=True)
        raise typer.Exit(INTERRUPTED) from None
    except Exception as error:
        if debug:
            traceback.print_exc()
        else:
            expected = isinstance(error, (InputError, OSError, MemoryError, ImportError))
            kind = "" if expected else f"{type(error).__name__}: "
            lines = [f"Error: {kind}{_said(error)}", *getattr(error, "__notes__", [])]
            lines = lines if expected else [*lines, "--debug shows where this happened."]
            typer.echo(printable("\n".join(lines)), err=True)
        raise typer.Exit(2 if isinstance(error, InputError) else 1) from None


def _said(error: Exception) -> str:
    """What an error says; of a file that cannot be used its name and why, without numbers that nobody knows."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error)


class Printer:
    """Prints what a command has to say on the way, unless it is ``quiet``."""

    def __init__(self, quiet: bool) -> None:
        self.quiet = quiet
        self.progress = False if quiet else None

    def __call__(self, text: str) -> None:
        if not self.quiet:
            typer.echo(printable(text))

    def table(
        self, columns: Sequence[str], rows: Sequence[Sequence[str]], title: str | None = None, whole: int = 0
    ) -> None:
        """Rows of text under their headings; the first ``whole`` columns are not broken into lines."""
        if self.quiet:
            return
        from rich import box
        from rich.console import Console
        from rich.markup import escape
        from rich.table import Table

        table = Table(
            title=None if title is None else escape(title),
            title_justify="left",
            box=box.SIMPLE,
            show_header=any(columns),
        )
        for i, column in enumerate(columns):
            table.add_column(column, overflow="fold", no_wrap=i < whole)
        for row in rows:
            table.add_row(*(escape(printable(cell)) for cell in row))
        Console().print(table)


def labels(about: About) -> Names:
    """Names and units for the labels of a report."""
    from ..fit_report import Names

    features = about.features or ()
    return Names(
        features or None,
        about.target,
        [about.units.get(name, "") for name in features] or None,
        about.units.get(about.target or "", ""),
    )
