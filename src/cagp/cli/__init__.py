"""The command line: one file a command. Exit codes are in ``shared``."""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points
from types import FrameType
from typing import Annotated, Any

try:
    import rich  # noqa: F401  (asked for here, so that nothing is missing in the middle of a run)
    import typer
    from typer.core import TyperCommand
except ImportError as error:  # pragma: no cover
    raise SystemExit(f'cagp: the command line needs {error.name}; pip install "cagp[cli]" brings it') from None

from ..support.progress import LOGGER
from ..support.version import __version__
from .average_command import average
from .check_command import check
from .design_command import design
from .fit_command import fit
from .info_command import info, solvers
from .predict_command import predict
from .shared import INTERRUPTED, LOGGED, TERMINATED, errors_reported
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


GROUP = "cagp.commands"  # of entry points: commands that other distributions bring, loaded only when called


def loaded(name: str, found: Iterable[EntryPoint]) -> Any:
    """The command of that name among the entry points ``found``; where there is none, a message and exit code 1."""
    with errors_reported(debug=False):
        entry = next((each for each in found if each.name == name), None)
        if entry is None:
            remedy = "pip install cagp-studies, or in a clone of the repository pip install ./studies"
            raise ImportError(f"cagp {name} needs cagp-studies: {remedy}")
        commands = typer.Typer(add_completion=False, rich_markup_mode=None)
        commands.command(name)(entry.load())
        return typer.main.get_command(commands)


class FromElsewhere(TyperCommand):
    """Stands for a command in the help; when called, the loaded command takes its place."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """The context of the loaded command, whose arguments these are."""
        return loaded(str(self.name), entry_points(group=GROUP)).make_context(info_name, args, parent, **extra)


def reproduce() -> None:
    """Run the paper's experiments and write tables, figures and one report."""


for command in (fit, update, predict, average, simulate, design, check, info, solvers):
    app.command()(command)
app.command(cls=FromElsewhere)(reproduce)


def main() -> None:
    """The entry point of the command ``cagp``: SIGTERM, by which timeouts and schedulers end a job, is like Ctrl-C."""
    LOGGER.addHandler(LOGGED)
    LOGGER.setLevel(logging.INFO)
    terminated: list[int] = []

    def like_ctrl_c(number: int, frame: FrameType | None) -> None:
        if not terminated:  # a second one, which `timeout` sends at once, does not insist
            terminated.append(number)
            handler = signal.getsignal(signal.SIGINT)  # a job in the background of a script ignores it
            (handler if callable(handler) else signal.default_int_handler)(number, frame)

    signal.signal(signal.SIGTERM, like_ctrl_c)
    try:
        app()
    except SystemExit as ended:
        sys.exit(TERMINATED if terminated and ended.code == INTERRUPTED else ended.code)
