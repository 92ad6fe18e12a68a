"""What all commands share: how errors and advice are told, what options must be, and the exit codes.

| code | meaning |
|---|---|
| 0 | done |
| 1 | failure: a file that cannot be written, not enough memory, arithmetic |
| 2 | wrong use: an option, a table or a model folder that cannot be used |
| 3 | ``cagp check`` only: the error bars are not calibrated |
| 130 | interrupted by Ctrl-C; ``fit``, ``predict`` and ``simulate`` have kept what they had, and say so |
| 143 | the same after SIGTERM, by which ``timeout`` and schedulers end a job |
"""

from __future__ import annotations

import dataclasses
import inspect
import logging
import traceback
import unicodedata
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ..errors import InputError
from ..support.progress import LOGGER

if TYPE_CHECKING:
    import numpy as np

    from ..fit_report import Names
    from ..model import Model
    from ..prior import Prior
    from ..saving import About
    from ..solvers import Solver

NOT_CALIBRATED = 3
INTERRUPTED = 130
TERMINATED = 143
KEPT = "Interrupted. What was finished is kept: the same command continues where it stopped."

IN_OPTIONS = {
    "not converged": "start from better values (--lengthscale, --variance, --noise-variance), or hold some (--fix)",
    "at a bound": "start elsewhere, or hold it on purpose (--fix)",
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
    except (typer.Exit, typer.Abort, BrokenPipeError):  # who reads the output has seen enough
        raise
    except KeyboardInterrupt:
        typer.echo(interrupted, err=True)
        raise typer.Exit(INTERRUPTED) from None
    except Exception as error:
        if debug:
            typer.echo(traceback.format_exc(), err=True, nl=False)
        else:
            expected = isinstance(error, (InputError, OSError, MemoryError, ImportError))
            kind = "" if expected else f"{type(error).__name__}: "
            said = str(error)
            if isinstance(error, OSError) and error.filename is not None and error.strerror:
                said = f"{error.filename}: {error.strerror}"  # without numbers that nobody knows
            lines = [f"Error: {kind}{said}", *getattr(error, "__notes__", [])]
            lines = lines if expected else [*lines, "--debug shows where this happened."]
            typer.echo(printable("\n".join(lines)), err=True)
        raise typer.Exit(2 if isinstance(error, InputError) else 1) from None


def warned(said: str) -> None:
    """What needs a look, where there is something to be said, on standard error."""
    if said:
        typer.echo(printable(f"Warning: {said}"), err=True)


def tell_unjudged(models: Sequence[Model]) -> None:
    """Say of ``models`` that are the best of a search that was interrupted what nobody has looked at."""
    if any(model.interrupted and model.margins is None for model in models):
        warned(
            "The search for this model was interrupted, so its error bars are those of its prior, and not judged; "
            "`cagp check` judges them."
        )


def ended_early(fitted: Any, kept: str) -> None:
    """End the command where Ctrl-C has ended the search for a model that is written, saying what is ``kept``."""
    if fitted.interrupted:
        typer.echo(f"Interrupted: {kept}", err=True)
        raise typer.Exit(INTERRUPTED)


def printable(text: str) -> str:
    """Without control characters, which a terminal would obey; lines stay lines."""
    return "".join(each for each in text if each in "\n\t" or unicodedata.category(each) != "Cc")


class _ToStandardError(logging.Handler):
    """Steps of long work, with the time of day, where there is no terminal to draw a bar on."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S"))

    def emit(self, record: logging.LogRecord) -> None:
        typer.echo(printable(self.format(record)), err=True)


LOGGED = _ToStandardError()


class Printer:
    """Prints what a command has to say on the way, unless it is ``quiet``."""

    def __init__(self, quiet: bool) -> None:
        self.quiet = quiet
        self.progress = False if quiet else None
        if quiet:
            LOGGER.removeHandler(LOGGED)
            LOGGER.addHandler(logging.NullHandler())  # or logging would print warnings by itself

    def __call__(self, text: str) -> None:
        if not self.quiet:
            typer.echo(printable(text))

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]], title: str = "", whole: int = 0) -> None:
        """Rows of text under their headings; the first ``whole`` columns are not broken into lines."""
        if self.quiet:
            return
        from rich import box
        from rich.console import Console
        from rich.markup import escape
        from rich.table import Table

        table = Table(title=escape(title), title_justify="left", box=box.SIMPLE, show_header=any(columns))
        for i, column in enumerate(columns):
            table.add_column(column, overflow="fold", no_wrap=i < whole)
        for row in rows:
            table.add_row(*(escape(printable(cell)) for cell in row))
        Console().print(table)


def hyperparameter_rows(
    prior: Prior,
    X: np.ndarray,
    about: About,
    values: Mapping[str, float] | None = None,
    errors: Mapping[str, float] | None = None,
    quantities: Sequence[str] = (),
) -> list[tuple[str, str, str]]:
    """Each hyperparameter by its name, what it is of, and its value with its standard error and its unit.

    Those of a ``prior``, or by other ``values``, by name, which may have coefficients of the mean as well.
    ``quantities`` are the names of all of a model that is about one of several.
    """
    from ..hyperparameters.named import coefficients_of, named
    from ..support.numbers import shortened, with_error

    columns = shortened(about.features or [f"column {i}" for i in range(X.shape[1])], 24)
    units = [about.units.get(name, "") for name in about.features or ()]
    known = {each.name: each for each in named(prior, columns, units, "", X, quantities)}
    terms = coefficients_of(prior.mean, columns)
    rows: dict[str, tuple[list[str], str]] = {}
    for name, value in (values or {each.name: each.value for each in known.values()}).items():
        error = (errors or {}).get(name)
        if name not in known:
            rows[name] = [terms.get(name, "")], with_error(value, error)
            continue
        each = dataclasses.replace(known[name], value=value)
        several = name.endswith("]") and each.is_beyond  # those of one kernel go together
        called = f"{name.rpartition('[')[0]}[…]" if several else name
        rows.setdefault(called, ([], each.shown(error)))[0].append(each.of)
    return [(name, ", ".join(of), value) for name, (of, value) in rows.items()]


def labels(about: About) -> Names:
    """Names and units for the labels of a report."""
    from ..fit_report import Names

    features, target = about.features or (), about.target
    units = [about.units.get(name, "") for name in (*features, target or "")]
    return Names(features or None, target, units[:-1] or None, units[-1])


def renamed(old: str, before: Any, new: str, value: Any) -> Any:
    """The value of an option whose old name still works, with a line on standard error that tells the new one."""
    if before is None:
        return value
    if value is not None:
        raise InputError(f"{old} is the old name of {new}; give {new} alone")
    typer.echo(f"{old} is called {new} now, as everywhere else; the old name goes with the next release.", err=True)
    return before


def require_place(out: Path, overwrite: bool) -> None:
    """Refuse a place where no model may be written."""
    from ..saving import is_model_folder, require_writable

    if not overwrite and is_model_folder(out):
        raise InputError(f"{out} already holds a model; --overwrite replaces it, or choose another name")
    require_writable(out, overwrite)


def require_new(out: Path, overwrite: bool) -> None:
    """Refuse to write over a table that is there, unless that was asked for."""
    if out.exists() and not overwrite:
        raise InputError(f"{out} is there already; --overwrite replaces it")


def share_in(interval: float) -> float:
    """``--interval`` as a share of 1."""
    if not 1 < interval < 100:
        raise InputError(f"--interval is in per cent, between 1 and 100, got {interval:g}; for 95% write 95")
    return interval / 100


def with_iterations(solver: Solver, iterations: int | None) -> Solver:
    """The solver with so many iterations; refuses one that has none."""
    if iterations is None:
        return solver
    effort = solver.description(1).effort
    if effort != "iterations":
        remedy = f"write --solver '{type(solver).__name__}({effort}=300)'" if effort else ""
        raise InputError(f"--iterations has no meaning for {solver!r}; {remedy or 'name a solver that has them'}")
    return dataclasses.replace(solver, iterations=iterations)  # type: ignore[type-var]


def asked_beside(
    command: Callable[..., Any],
    given: Mapping[str, Any],
    known: Collection[str],
    what: str,
    remedy: str = "leave it out",
    instead: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The options ``given`` to a command that have another value than by default, but for data, folders and messages;
    refuses those that are not ``known`` for ``what`` is asked about, with what to do ``instead`` of some.
    """
    usual = inspect.signature(command).parameters
    always = {"data", "target", "out", "folder", "quiet", "debug"}
    asked = {name: value for name, value in given.items() if name not in always and value != usual[name].default}
    if unknown := sorted(set(asked) - set(known)):
        flag = "no-std" if unknown[0] == "std" else unknown[0].removesuffix("_page").replace("_", "-")
        raise InputError(f"--{flag} is not known for {what}; {(instead or {}).get(unknown[0], remedy)}")
    return asked
