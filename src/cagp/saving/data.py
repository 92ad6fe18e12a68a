"""The arrays of a model: one safetensors file, hashed, with nothing in it that was not announced."""

from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import SavedModelError
from .layers import is_of_layer

_LARGEST_HEADER = 2**20


def require_safetensors() -> None:
    """Say early, and how to help it, that safetensors is missing."""
    try:
        import safetensors.numpy  # noqa: F401
    except ImportError as error:
        raise ImportError('saving and loading models needs safetensors: pip install "cagp[cli]"') from error


def write_arrays(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """All arrays as one file, on disk when this returns."""
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    path.touch()
    mode = path.stat().st_mode  # safetensors would make it private, whatever the user's umask
    try:
        save_file(arrays, path)
    except SafetensorError as error:  # a full disk, for example
        raise OSError(errno.EIO, str(error)) from error
    path.chmod(mode)
    with open(path, "rb+") as file:
        os.fsync(file.fileno())


def sha256(path: Path) -> str:
    """The hash of a file, 64 hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_arrays(path: Path, described: dict[str, Any]) -> dict[str, np.ndarray]:
    """The arrays, if the file is exactly the one that was described; the hash comes before anything is parsed."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    size = path.stat().st_size
    if size != described["bytes"]:
        raise SavedModelError(f"{path.name} has {size} bytes, expected were {described['bytes']}; it is truncated")
    with open(path, "rb") as file:
        header = int.from_bytes(file.read(8), "little")
    if header > min(_LARGEST_HEADER, size):
        raise SavedModelError(f"{path.name} announces a header of {header} bytes; it is damaged")
    if sha256(path) != described["sha256"]:
        raise SavedModelError(f"{path.name} does not have the hash in model.json; it was changed or damaged")
    try:
        arrays: dict[str, np.ndarray] = load_file(path)
    except (SafetensorError, OSError, KeyError, ValueError) as error:
        raise SavedModelError(f"{path.name} is not a safetensors file ({error})") from error
    found = {name: {"dtype": str(array.dtype), "shape": list(array.shape)} for name, array in arrays.items()}
    if found != described["arrays"]:
        raise SavedModelError(f"{path.name} holds {found}, model.json announces {described['arrays']}")
    for name, array in arrays.items():
        wanted = ["float64"] if name in ("X", "y", "noise_variance") else ["int64"]
        if is_of_layer(name):  # which of its arrays has which type, a layer knows itself
            wanted = ["float64", "int64"]
        if str(array.dtype) not in wanted:
            expected = " or ".join(wanted)
            raise SavedModelError(f"the array {name} in {path.name} has type {array.dtype}, expected was {expected}")
    return arrays
