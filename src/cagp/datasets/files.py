"""Find a data file: in CAGP_DATA, in the cache, or at its public source."""

from __future__ import annotations

import hashlib
import os
import zipfile
from dataclasses import dataclass
from pathlib import Path

from ..errors import DataError


@dataclass(frozen=True)
class PublicFile:
    """A file and where it comes from.

    ``name`` is how it is called here, ``sha256`` what it must hash to; None where the publisher's file carries no
    known hash, and the loader checks shape and columns instead. ``url`` is the public address, ``member`` the file to
    take out of it where that is a zip archive (it is then called ``name`` in the cache).
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
    return Path(value).expanduser() if value else Path(_pooch().os_cache("cagp"))


def find(*files: PublicFile) -> tuple[PublicFile, Path]:
    """The first of several forms of the same data that is in CAGP_DATA or, after that, in the cache; else download.

    Only the last form is downloaded. A file that is there but has the wrong hash is an error, not a reason to go on.
    """
    for place in (data_folder, cache_folder):
        folder = place()
        if folder is None:
            continue
        for file in files:
            path = folder / file.name
            if not path.is_file():
                continue
            if file.sha256 and (found := hashlib.sha256(path.read_bytes()).hexdigest()) != file.sha256:
                raise DataError(
                    f"{path} is not the published file: its sha256 is {found}, expected {file.sha256}; "
                    "replace it, or remove it to have it fetched again"
                )
            return file, path
    return files[-1], _download(files)


def _download(files: tuple[PublicFile, ...]) -> Path:
    file, cache, pooch = files[-1], cache_folder(), _pooch()
    name = file.name if file.member is None else f"{file.name}.zip"
    known = None if file.sha256 is None else f"sha256:{file.sha256}"
    try:
        fetched = Path(pooch.retrieve(file.url, known_hash=known, fname=name, path=cache))
        return fetched if file.member is None else _unpacked(fetched, file.member, cache / file.name)
    except (OSError, ValueError, zipfile.BadZipFile) as error:  # no answer, another hash, or a page about a move
        raise DataError(_missing(files, cache, error)) from error


def _unpacked(archive: Path, member: str, target: Path) -> Path:
    """Take one file out of a zip archive, in whatever folder it is there; the archive is not kept."""
    try:
        with zipfile.ZipFile(archive) as pack:
            name = next((name for name in pack.namelist() if name.rsplit("/", 1)[-1] == member), None)
            if name is None:
                raise ValueError(f"the archive has no {member}, only {', '.join(pack.namelist())}")
            content = pack.read(name)
    finally:
        archive.unlink()
    partial = target.with_name(f"{target.name}.partial")
    partial.write_bytes(content)
    return partial.replace(target)


def _missing(files: tuple[PublicFile, ...], cache: Path, error: Exception) -> str:
    names = " or ".join(
        f.name if f.member is None or f.member == f.name else f"{f.name} ({f.member} of the archive)" for f in files
    )
    hashes = ", ".join(f"{f.name} {f.sha256}" for f in files if f.sha256)
    folder = data_folder()
    where = f"{folder} (CAGP_DATA)" if folder else "the folder that you name in the environment variable CAGP_DATA"
    message = (
        f"the data file {files[-1].name} is not here, and {files[-1].url} gave no file ({error}). "
        f"Get {names} by other means and put it in {where} or in the cache {cache}."
    )
    return message + (f" sha256: {hashes}." if hashes else "")


def _pooch():  # type: ignore[no-untyped-def]
    try:
        import pooch
    except ImportError as error:
        raise ImportError("cagp.datasets needs pooch: pip install 'cagp[data]'") from error
    return pooch
