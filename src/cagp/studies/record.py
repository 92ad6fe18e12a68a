"""What a finished study leaves behind for the report: one JSON file beside its tables and figures."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import InputError
from .base import Comparison
from .files import write_atomically

FILE_NAME = "study.json"
_LAYOUT = 1


@dataclass(frozen=True)
class Record:
    """One finished study. ``figures`` maps the name of a figure (its files are name.png and name.pdf) to its caption.

    ``seconds`` is the computing time of all pieces together, ``environments`` the distinct versions and machines
    they were computed with: more than one where a study was continued elsewhere. ``solvers`` are those that were
    asked for beside the study's own.
    """

    name: str
    title: str
    shows: str
    scale: str
    seed: int
    configuration: Mapping[str, Any]
    pieces: int
    seconds: float
    environments: Sequence[Mapping[str, str]]
    tables: Sequence[str]
    figures: Mapping[str, str]
    comparisons: Sequence[Comparison]
    remarks: Sequence[str]
    solvers: Sequence[str] = ()

    def save(self, folder: Path) -> None:
        """Write the record to ``folder``."""
        content = {"layout": _LAYOUT, **dataclasses.asdict(self)}
        write_atomically(folder / FILE_NAME, json.dumps(content, indent=1, ensure_ascii=False).encode())

    @classmethod
    def load(cls, folder: Path) -> Record:
        """Read the record of a study from its ``folder``."""
        path = folder / FILE_NAME
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            if content.pop("layout") != _LAYOUT:
                raise ValueError("it was written by another version of cagp")
            comparisons = [Comparison(**each) for each in content.pop("comparisons")]
            return cls(**content, comparisons=comparisons)
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"{path} cannot be read ({error}); run `cagp reproduce {folder.name}` again, or delete the folder"
            ) from error


def load_all(out: Path) -> list[Record]:
    """The records of all studies in the folder ``out``, by name."""
    return [Record.load(path.parent) for path in sorted(out.glob(f"*/{FILE_NAME}"))]
