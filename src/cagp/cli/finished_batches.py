"""Finished batches of a prediction or a simulation on disk, so that the same command continues where it was stopped.

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

_NAME = re.compile(r"rows-\d+-\d+\.npz|fields-\d+-\d+\.npy")


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


class FinishedFields(Pieces):
    """The fields of one simulation at T points, some in each piece, beside its output file."""

    def __init__(self, out: Path, key: str, size: int) -> None:
        super().__init__(out, key)
        self._size = size

    def save_fields(self, start: int, fields: np.ndarray) -> None:
        """Keep the fields numbered from ``start`` on, (n, T)."""
        content = io.BytesIO()
        np.save(content, fields)
        with suppress(FileNotFoundError), whole_file(self._fields(start, start + len(fields))) as temporary:
            temporary.write_bytes(content.getbuffer())

    def load_fields(self, start: int, stop: int) -> np.ndarray | None:
        """The fields start … stop − 1 if they were finished before; None also where the file is damaged."""
        try:
            fields = np.load(self._fields(start, stop), allow_pickle=False)
        except Exception:  # whatever is wrong with it, the fields are drawn again
            return None
        right = fields.shape == (stop - start, self._size) and fields.dtype == np.float64
        return fields if right and np.isfinite(fields).all() else None

    def _fields(self, start: int, stop: int) -> Path:
        return self._own / f"fields-{start}-{stop}.npy"
