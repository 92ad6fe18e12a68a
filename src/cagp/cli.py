"""The command line: ``cagp reproduce NAME…``."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

try:
    import rich  # noqa: F401  (asked for here, so that nothing is missing in the middle of a study)
    import typer
except ImportError as error:  # pragma: no cover
    raise SystemExit(f'cagp: the command line needs {error.name}; pip install "cagp[studies]" brings it') from None

from . import __version__
from .errors import InputError

if TYPE_CHECKING:
    from .studies import Forecast, Record

app = typer.Typer(
    name="cagp", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None
)

# written out, so that --help does not have to load the studies
_NAMES_HELP = (
    "Studies to run: synthetic, smoothness, sbc, sbc-iterations, time, uci, era5-hyperparameters, era5-means, "
    "era5-timings, era5-calibration, era5-convergence, era5-full-hyperparameters, era5-full, acceleration, hybrid; "
    "or all."
)

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the whole traceback of an error.")]


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"cagp {__version__}")
        raise typer.Exit


@app.callback()
def _cagp(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Gaussian process regression with honest error bars at any compute budget."""


@app.command()
def reproduce(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help=_NAMES_HELP)],
    scale: Annotated[str, typer.Option(help="'quick' for a look, 'paper' for the paper's sizes.")] = "quick",
    out: Annotated[Path, typer.Option(file_okay=False, help="Folder for tables, figures, report.html.")] = Path("out"),
    seed: Annotated[int, typer.Option(min=0, help="Seed of all random numbers.")] = 0,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes in parallel; by default one per core.")] = None,
    solvers: Annotated[
        str, typer.Option(help="More solvers for the study uci, by name, separated by commas: 'subset,stationary'.")
    ] = "",
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Run the paper's experiments and write tables, figures and one report.

    Finished pieces of work are kept in the folder: an interrupted study continues where it stopped, and a study that
    is finished is not computed again.
    """
    with _told(debug):
        import joblib

        from .report import write_report
        from .studies import SCALES, STUDIES, run_study
        from .validation import choice

        choice(scale, "scale", SCALES)
        chosen = dict.fromkeys(name for each in names for name in (STUDIES if each == "all" else [each]))
        more = tuple(each.strip() for each in solvers.split(",") if each.strip())
        for name in chosen:
            choice(name, "NAME", [*STUDIES, "all"])
            if more:
                STUDIES[name].with_solvers(STUDIES[name].scales[scale], more)  # refused before anything is done
        out.mkdir(parents=True, exist_ok=True)
        for name in chosen:
            record = run_study(
                STUDIES[name],
                out,
                scale=scale,
                seed=seed,
                jobs=jobs or joblib.cpu_count(),
                solvers=more,
                show=False if quiet else None,
                announce=None if quiet else _print_forecast,
            )
            if not quiet:
                _print_summary(record)
        report = write_report(out, order=list(STUDIES))
        if not quiet:
            typer.echo(f"Report: {report}")


def _print_forecast(name: str, forecast: Forecast) -> None:
    """What a study will take, before it starts."""
    from .memory import human
    from .report import duration

    typer.echo(
        f"{name}: about {duration(forecast.seconds)} and {human(forecast.memory)} of memory, "
        "extrapolated from a short measurement on this machine"
    )


def _print_summary(record: Record) -> None:
    """What a study found, as tables on the terminal."""
    from rich.console import Console
    from rich.table import Table

    from .report import duration

    console = Console()
    spent = duration(record.seconds)
    console.print(f"\n{record.title} ({record.pieces} pieces, {spent} of computing)", style="bold", highlight=False)
    for comparison in record.comparisons:
        console.print(comparison.caption, highlight=False)
        table = Table()
        for column in comparison.columns:
            table.add_column(column, overflow="fold")
        for row in comparison.rows:
            table.add_row(*row)
        console.print(table)


@contextmanager
def _told(debug: bool) -> Iterator[None]:
    """Errors as one message on standard error, and an exit code: 2 for wrong use, 1 for failure, 130 for Ctrl-C."""
    try:
        yield
    except (typer.Exit, typer.Abort):
        raise
    except KeyboardInterrupt:
        typer.echo("Interrupted. What was finished is kept: the same command continues where it stopped.", err=True)
        raise typer.Exit(130) from None
    except Exception as error:
        if debug:
            traceback.print_exc()
        else:
            expected = isinstance(error, (InputError, OSError, MemoryError, ImportError))
            kind = "" if expected else f"{type(error).__name__}: "
            lines = [f"Error: {kind}{error}", *getattr(error, "__notes__", [])]
            typer.echo("\n".join(lines if expected else [*lines, "--debug shows where this happened."]), err=True)
        raise typer.Exit(2 if isinstance(error, InputError) else 1) from None


def main() -> None:
    """The entry point of the command ``cagp``."""
    sys.exit(app())
