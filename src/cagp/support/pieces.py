"""Pieces of a long computation that are finished, kept beside its output until all of it is.

They lie in OUT.parts/<key>/, where the same computation continues. The key is a hash of all that decides the numbers.
"""

from __future__ import annotations

import io
import re
from contextlib import suppress
from pathlib import Path

import numpy as np

from .atomic_files import whole_file

# Of files with batches; the last two are names of former versions.
_NAME = re.compile(r"(batch|rows|fields)-\d+-\d+\.np[yz]")


class Pieces:
    """The pieces of one prediction or simulation, each some arrays, beside its output file."""

    def __init__(self, out: Path, key: str) -> None:
        self.folder = out.with_name(out.name + ".parts")
        self._own = self.folder / key[:16]

    def _path(self, start: int, stop: int) -> Path:
        return self._own / f"batch-{start}-{stop}.npz"

    @property
    def started(self) -> bool:
        """Whether there is anything to continue from."""
        return self._own.is_dir()

    def save(self, start: int, stop: int, **arrays: np.ndarray) -> None:
        """Keep what belongs to the rows, or fields, start … stop − 1."""
        content = io.BytesIO()
        np.savez(content, **arrays)  # type: ignore[arg-type]
        # another process that finishes the same output may remove the folder at any moment
        with suppress(FileNotFoundError), whole_file(self._path(start, stop)) as temporary:
            temporary.write_bytes(content.getbuffer())

    def keep(self) -> None:
        """Remember that this was begun, even where no piece of it is finished."""
        self._own.mkdir(parents=True, exist_ok=True)

    def load(self, start: int, stop: int) -> dict[str, np.ndarray] | None:
        """The arrays of start … stop − 1 if they were finished before; None also where a checksum is wrong."""
        try:
            content = io.BytesIO(self._path(start, stop).read_bytes())  # np.load leaves a damaged file open
            with np.load(content, allow_pickle=False) as kept:
                return dict(kept)
        except Exception:  # whatever is wrong with it, this piece is computed again
            return None

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
