"""Data files, found in CAGP_DATA, in the cache or at their public source, and what a loader makes of them."""

from __future__ import annotations

import hashlib
import os
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..errors import DataError
from ..support.advice import optional
from ..support.atomic_files import write_atomically

_LARGEST_UNPACKED = 2**28  # the largest of the files, of roads, has 21 million bytes; an archive may claim anything


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Dataset:
    """Points ``X`` (n, p) and observations ``y`` (n,), float64, with what one must know to use them.

    ``names`` and ``units`` are those of the columns of X, ``target`` and ``target_unit`` of y; ``path`` is the file.
    ``complete`` is False where it holds part of the published data; ``note`` says what was done or is missing.
    """

    name: str
    X: np.ndarray
    y: np.ndarray
    names: tuple[str, ...]
    units: tuple[str, ...]
    target: str
    target_unit: str
    citation: str
    licence: str
    path: Path
    complete: bool = True
    note: str = ""

    def __len__(self) -> int:
        return len(self.y)

    def __repr__(self) -> str:
        part = "" if self.complete else ", incomplete"
        return f"{type(self).__name__}({self.name!r}, X {self.X.shape}, target {self.target!r}{part})"


@dataclass(frozen=True)
class PublicFile:
    """A file, called ``name`` here, and its public address ``url``; ``member`` is what to take out of an archive.

    ``sha256`` is what it must hash to; None where that is not known, and the loader checks the numbers in it instead.
    """

    name: str
    url: str
    sha256: str | None = None
    member: str | None = None


def data_folder() -> Path | None:
    """The folder in the environment variable CAGP_DATA, or None."""
    value = os.environ.get("CAGP_DATA")
    return Path(value).expanduser() if value else None


def cache_folder() -> Path:
    """The folder in the environment variable CAGP_CACHE, or the system's cache folder for cagp."""
    value = os.environ.get("CAGP_CACHE")
    return Path(value or optional("platformdirs", "the cache of cagp", "data").user_cache_path("cagp")).expanduser()


def find(*files: PublicFile) -> tuple[PublicFile, Path]:
    """The first of several forms of the same data in CAGP_DATA or, after that, in the cache; else the last, downloaded.

    A file that is there but has the wrong hash is an error, not a reason to go on.
    """
    for place in (data_folder, cache_folder):
        folder = place()
        for file, path in [(each, folder / each.name) for each in files if folder]:
            if path.is_file():
                require_hash(path.read_bytes() if file.sha256 else b"", file.sha256, f"{path} is", "its")
                return file, path
    return files[-1], _download(files)


def require_hash(content: bytes, sha256: str | None, which: str, whose: str) -> None:
    """Refuse what is not the published content; None where no hash of it is known."""
    if sha256 and (found := hashlib.sha256(content).hexdigest()) != sha256:
        remedy = "replace it, or remove it to have it fetched again"
        raise DataError(f"{which} not the published file: {whose} sha256 is {found}, expected {sha256}; {remedy}")


def _download(files: tuple[PublicFile, ...]) -> Path:
    file, cache, pooch = files[-1], cache_folder(), optional("pooch", "cagp.datasets", "data")
    name = file.name if file.member is None else f"{file.name}.zip"
    known = f"sha256:{file.sha256}" if file.sha256 and file.member is None else None
    try:
        fetched = Path(pooch.retrieve(file.url, known_hash=known, fname=name, path=cache))
        return fetched if file.member is None else _unpacked(fetched, file, cache / file.name)
    except (OSError, ValueError, zipfile.BadZipFile) as error:  # no answer, another hash, or a page about a move
        inside = [f"{f.name} ({f.member} of the archive)" if f.member not in (None, f.name) else f.name for f in files]
        hashes = ", ".join(f"{f.name} {f.sha256}" for f in files if f.sha256)
        folder = data_folder()
        where = f"{folder} (CAGP_DATA)" if folder else "the folder that you name in the environment variable CAGP_DATA"
        raise DataError(
            f"the data file {file.name} is not here, and {file.url} gave no file ({error}). "
            f"Get {' or '.join(inside)} by other means and put it in {where} or in the cache {cache}."
            + (f" sha256: {hashes}." if hashes else "")
        ) from error


def _unpacked(archive: Path, file: PublicFile, target: Path) -> Path:
    """Take one file out of a zip archive, in whatever folder it is there; the archive is not kept."""
    member = file.member
    try:
        with zipfile.ZipFile(archive) as pack:
            name = next((name for name in pack.namelist() if name.rsplit("/", 1)[-1] == member), None)
            if name is None:
                raise ValueError(f"the archive has no {member}, only {', '.join(pack.namelist())}")
            with pack.open(name) as inside:
                content = inside.read(_LARGEST_UNPACKED + 1)
    finally:
        archive.unlink()
    if len(content) > _LARGEST_UNPACKED:  # whatever the archive says of it
        raise ValueError(f"{member} unpacks to more than {_LARGEST_UNPACKED:,} bytes, which the published one does not")
    require_hash(content, file.sha256, f"{member} of {file.url} is", "its")
    write_atomically(target, content)
    return target
