"""``cagp reproduce NAME…``: the paper's experiments, as a command of cagp (entry point group ``cagp.commands``)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import joblib
import typer

from cagp.cli.flags import Debug, Quiet
from cagp.cli.shared import KEPT, errors_reported
from cagp.support.memory import human
from cagp.support.validation import choice

from . import SCALES, STUDIES, Forecast, Record, run_study
from .report import duration, write_report


def reproduce(
    names: Annotated[
        list[str], typer.Argument(metavar="NAME...", help=f"Studies to run: {', '.join(STUDIES)}; or all.")
    ],
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
    with errors_reported(debug, KEPT):
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
    typer.echo(
        f"{name}: about {duration(forecast.seconds)} and {human(forecast.memory)} of memory, "
        "extrapolated from a short measurement on this machine"
    )


def _print_summary(record: Record) -> None:
    """What a study found, as tables on the terminal."""
    from rich.console import Console
    from rich.table import Table

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
