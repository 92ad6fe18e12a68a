"""The command line: one file a command. Exit codes are in ``shared``."""

from __future__ import annotations

import sys
from typing import Annotated

try:
    import rich  # noqa: F401  (asked for here, so that nothing is missing in the middle of a run)
    import typer
except ImportError as error:  # pragma: no cover
    raise SystemExit(f'cagp: the command line needs {error.name}; pip install "cagp[cli]" brings it') from None

from ..support.version import __version__
from .average_command import average
from .check_command import check
from .fit_command import fit
from .info_command import info, solvers
from .other_commands import FromElsewhere, reproduce
from .predict_command import predict
from .simulate_command import simulate
from .update_command import update

app = typer.Typer(
    name="cagp", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None
)


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


for command in (fit, update, predict, average, simulate, check, info, solvers):
    app.command()(command)
app.command(cls=FromElsewhere)(reproduce)


def main() -> None:
    """The entry point of the command ``cagp``."""
    sys.exit(app())


__all__ = ["app", "main"]
