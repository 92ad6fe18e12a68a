"""Finished pieces of work on disk, so that an interrupted study continues where it stopped.

A piece is kept under the fingerprint of everything that decides its numbers: the study and its revision, the version
of cagp, the configuration and the seed. Change one of them and nothing kept from before is used.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from .base import AnyStudy, Tables
from .files import write_atomically


def fingerprint(study: AnyStudy, config: Any, seed: int) -> str:
    """A hash, 64 hexadecimal digits, of all that decides the numbers of a study."""
    from .. import __version__

    decisive = {
        "study": study.work or study.name,
        "revision": study.revision,
        "cagp": __version__,
        "configuration": type(config).__name__,
        "values": dataclasses.asdict(config),
        "seed": seed,
    }
    return hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Finished:
    """A finished piece: its tables, the seconds it took, and the versions and machine it was computed with."""

    tables: Tables
    seconds: float
    environment: dict[str, str]


class PieceStore:
    """The finished pieces of one study with one configuration and seed, in ``folder``/<start of the fingerprint>."""

    def __init__(self, folder: Path, key: str) -> None:
        self._key = key
        self.folder = folder / key[:16]

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.json"

    def save(self, name: str, piece: Finished) -> None:
        """Keep a piece."""
        content = {
            "fingerprint": self._key,
            "seconds": piece.seconds,
            "environment": piece.environment,
            "tables": {table: frame.to_dict(orient="list") for table, frame in piece.tables.items()},
        }
        write_atomically(self._path(name), json.dumps(content).encode())

    def load(self, name: str) -> Finished | None:
        """A piece kept before, or None: also where the file is damaged or belongs to another configuration."""
        try:
            content = json.loads(self._path(name).read_text())
            if content["fingerprint"] != self._key:
                return None
            tables = {table: pd.DataFrame(columns) for table, columns in content["tables"].items()}
            return Finished(tables, content["seconds"], content["environment"])
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None
