"""Finished batches of a prediction on disk, so that the same command continues where it was stopped.

They lie in OUT.parts/<key>/, where the key is the hash of model, input and settings: change one of them and nothing
kept from before is used.
"""

from __future__ import annotations

import io
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..support.atomic_files import whole_file

_NAME = re.compile(r"rows-\d+-\d+\.npz")


@dataclass(frozen=True)
class Piece:
    """A finished batch: mean and variance of f, and the iterations, each (n,)."""

    mean: np.ndarray
    variance: np.ndarray
    iterations: np.ndarray


class Pieces:
    """The pieces of one prediction, beside its output file."""

    def __init__(self, out: Path, key: str) -> None:
        self.folder = out.with_name(out.name + ".parts")
        self._own = self.folder / key[:16]

    def _path(self, start: int, stop: int) -> Path:
        return self._own / f"rows-{start}-{stop}.npz"

    @property
    def started(self) -> bool:
        """Whether there is anything to continue from."""
        return self._own.is_dir()

    def save(self, start: int, stop: int, piece: Piece) -> None:
        """Keep the rows start … stop − 1."""
        content = io.BytesIO()
        np.savez(content, mean=piece.mean, variance=piece.variance, iterations=piece.iterations)
        # another process that finishes the same output may remove the folder at any moment
        with suppress(FileNotFoundError), whole_file(self._path(start, stop)) as temporary:
            temporary.write_bytes(content.getvalue())

    def keep(self) -> None:
        """Remember that this prediction was begun, even where no piece of it is finished."""
        self._own.mkdir(parents=True, exist_ok=True)

    def load(self, start: int, stop: int) -> Piece | None:
        """The rows start … stop − 1 if they were finished before; None also where the file is damaged."""
        try:
            content = io.BytesIO(self._path(start, stop).read_bytes())
            with np.load(content, allow_pickle=False) as kept:
                piece = Piece(kept["mean"], kept["variance"], kept["iterations"])
        except Exception:  # whatever is wrong with it, the rows are computed again
            return None
        wanted = [("f8", piece.mean), ("f8", piece.variance), ("i8", piece.iterations)]
        right = all(part.shape == (stop - start,) and part.dtype == np.dtype(kind) for kind, part in wanted)
        return piece if right and np.isfinite(piece.mean).all() and (piece.variance > 0).all() else None

    def remove(self) -> None:
        """Remove all pieces beside this output, and nothing else; what another process removes first is no error."""
        keys = [each for each in self.folder.glob("*") if each.is_dir() and not each.is_symlink()]
        for key in keys:
            for file in key.glob("*"):
                if _NAME.fullmatch(file.name) or file.name.startswith(".partial-"):
                    file.unlink(missing_ok=True)
        for folder in (*keys, self.folder):
            with suppress(OSError):  # it is gone, or holds something else
                folder.rmdir()
