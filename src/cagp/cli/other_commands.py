"""Commands that other distributions bring: entry points of the group ``cagp.commands``, loaded only when called."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import typer
from typer.core import TyperCommand

from .shared import told

GROUP = "cagp.commands"


def loaded(name: str, found: Iterable[EntryPoint]) -> Any:
    """The command of that name among the entry points ``found``; where there is none, a message and exit code 1."""
    with told(debug=False):
        entry = next((each for each in found if each.name == name), None)
        if entry is None:
            raise ImportError(
                f"cagp {name} needs cagp-studies: pip install cagp-studies, or in a clone of the repository "
                "pip install ./studies"
            )
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
