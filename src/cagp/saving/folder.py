"""The files of a model folder: written whole or not at all, and checked before anything in them is used.

The data file is named after its content: the new one comes, ``model.json`` is replaced in one step, the old one goes.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import torch

from ..errors import InputError, SavedModelError
from ..gram import STORAGES
from ..solvers import Solver
from ..support.advice import optional
from ..support.atomic_files import fill_folder, one_writer, remove, whole_file
from ..support.convert import float_type, solving_type
from ..support.validation import choice, points, targets
from ..support.version import __version__
from .about import About
from .objects import decode, decode_prior, encode, encode_prior
from .saved import Parts, Saved, decoded

FORMAT = "cagp model"
# 6 with one quantity of several, or a recalibration that may be learned anew, 5 with a trend that a regressor has
# learned, 4 with outliers that have a noise of their own, 3 with a pattern of the noise, 2 with parts such as a
# recalibration
FORMAT_VERSION = 6

DESCRIPTION = "model.json"
IN_SHARDS = "shards.json"  # is there instead where the observations are in shards
QUANTITIES, SEVERAL = "quantities.json", "cagp quantities"  # of several models, see ``several.py``

_DATA_NAME = re.compile(r"data-[0-9a-f]{16}\.safetensors")
_PART = re.compile(rf"{_DATA_NAME.pattern}|parts-[0-9a-f]{{32}}")
# what a kill may leave in a folder that was empty before
_LEFT = re.compile(rf"{_PART.pattern}|\.partial-[0-9a-f]{{32}}[^/]*")
_LARGEST_DESCRIPTION = 16 * 2**20
_LARGEST_HEADER = 2**20
_ENTRIES = {"format", "format_version", "cagp_version", "created", "data", "prior", "solver", "settings", "about"}
_LAYERED = _ENTRIES | {"layers"}
_ENTRIES_OF = {
    1: (_ENTRIES,),
    2: (_LAYERED,),
    3: (_ENTRIES, _LAYERED),
    4: (_ENTRIES, _LAYERED),
    5: (_ENTRIES, _LAYERED),
    6: (_LAYERED,),
}


def is_model_folder(folder: str | Path) -> bool:
    """Whether the folder claims to hold a model, of whatever kind; who reads it finds out whether it does."""
    if any((Path(folder) / name).is_file() for name in (QUANTITIES, IN_SHARDS)):
        return True
    try:
        with open(Path(folder) / DESCRIPTION, "rb") as file:
            return f'"format": "{FORMAT}"'.encode() in file.read(1000)
    except OSError:
        return False


def require_writable(folder: str | Path, overwrite: bool) -> Path:
    """``folder`` as a path where a model may be written: new, empty, or a model to be replaced."""
    place = Path(folder)
    whole = several_above(place)
    if whole is not None and not _PART.fullmatch(place.relative_to(whole).parts[0]):
        raise InputError(
            f"{whole} holds a model of several quantities, and no other goes in there; choose another name"
        )
    if not place.exists() and not place.is_symlink():
        return place
    if not place.is_dir():
        raise InputError(f"{place} is not a folder; choose another name for the model")
    if is_model_folder(place):
        if not overwrite:
            raise InputError(f"{place} already holds a model; overwrite=True replaces it, or choose another name")
    elif any(not _LEFT.fullmatch(each.name) for each in place.iterdir()):
        raise InputError(f"{place} is a folder with other things in it, not a model; choose a new name")
    return place


def write(saved: Saved, folder: str | Path, *, overwrite: bool = False) -> Path:
    """Write a model folder. What cannot be saved is refused before anything is written."""
    optional("safetensors.numpy", "saving and loading models", "cli")
    place = require_writable(folder, overwrite)
    arrays, description = _content(saved)
    return fill_folder(place, lambda at: _fill(at, arrays, description, overwrite))


def _content(saved: Saved) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays of a model and its description, without when it was written."""
    arrays = {"X": np.ascontiguousarray(saved.X, dtype=np.float64), "y": np.ascontiguousarray(saved.y)}
    priors = saved.prior, *saved.parts.others
    patterned = any(prior.noise_pattern is not None for prior in priors)
    outlying, learned = saved.prior.noise_factors is not None, any(prior.mean.learned for prior in priors)
    parts = saved.parts.encoded(saved.picked or saved.solver, saved.prior, arrays)
    later = any("single" in part or part["layer"] == "quantity" for part in parts)
    return arrays, {
        "format": FORMAT,
        "format_version": 6 if later else 5 if learned else 4 if outlying else 3 if patterned else 2 if parts else 1,
        "about": saved.about.to_json(),
        "prior": encode_prior(saved.prior, "", "noise_variance", arrays),
        "solver": {"asked": encode(saved.solver, "solver", arrays), "picked": encode(saved.picked, "picked", arrays)},
        "settings": {"storage": saved.storage, "dtype": saved.dtype, "solve_dtype": saved.solve_dtype},
        **({"layers": parts} if parts else {}),
    }


def fingerprint_of(saved: Saved) -> str:
    """The hash of all that decides what a model predicts, whether it was saved or not: not of names and the story."""
    arrays, description = _content(saved)
    layers = [each for each in description.get("layers", ()) if each["layer"] != "story"]
    digest = hashlib.sha256(own_hash({**description, "about": None, "layers": layers}).encode())
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype} {array.shape}".encode() + array.tobytes())
    return digest.hexdigest()


def _fill(place: Path, arrays: dict[str, np.ndarray], description: dict[str, Any], overwrite: bool) -> None:
    """The two files, the description last: without it a folder is not a model."""
    with one_writer(place) as alone:
        require_writable(place, overwrite)  # again: another process may have been here since
        before = _described(place)
        temporary = place / f".partial-{uuid4().hex}.safetensors"
        try:
            _write_arrays(temporary, arrays)
            digest, size = _sha256(temporary), temporary.stat().st_size
            name = f"data-{digest[:16]}.safetensors"
            os.replace(temporary, place / name)
        finally:
            temporary.unlink(missing_ok=True)
        data = {"file": name, "bytes": size, "sha256": digest, "arrays": _shapes_of(arrays)}
        write_description(place / DESCRIPTION, {**description, "data": data})
        _settle(place, DESCRIPTION, name, before, alone)


def write_description(path: Path, content: dict[str, Any]) -> None:
    """Write what a folder holds as JSON, with who wrote it and when, and a hash of all of it."""
    created = datetime.now(UTC).isoformat(timespec="seconds")
    content = {**content, "cagp_version": __version__, "created": created}
    text = json.dumps({**content, "sha256": own_hash(content)}, indent=1, ensure_ascii=False, allow_nan=False)
    with whole_file(path) as file:
        file.write_text(text + "\n", encoding="utf-8")


def _write_arrays(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """All arrays as one file, on disk when this returns."""
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    path.touch()
    mode = path.stat().st_mode  # safetensors would make it private, whatever the user's umask
    try:
        save_file(arrays, path)
    except SafetensorError as error:  # a full disk, for example
        known = re.search(r"\(os error (\d+)\)", str(error))
        raise OSError(int(known[1]) if known else errno.EIO, str(error)) from error
    path.chmod(mode)
    with open(path, "rb+") as file:
        os.fsync(file.fileno())


def _sha256(path: Path) -> str:
    """The hash of a file, 64 hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _shapes_of(arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """What model.json says of each array."""
    return {name: {"dtype": str(array.dtype), "shape": list(array.shape)} for name, array in arrays.items()}


@contextmanager
def new_parts(place: Path, description: str, overwrite: bool) -> Iterator[Path]:
    """A folder in the model folder ``place`` for the parts of a model, which its ``description`` is to name last.

    What that takes the place of is removed once the description is there.
    """
    with one_writer(place) as alone:
        require_writable(place, overwrite)
        before, own = _described(place), place / f"parts-{uuid4().hex}"
        try:
            own.mkdir()
            yield own
        except BaseException:
            if own.name not in _described(place):  # by now it may be the model
                remove(own)
            raise
        _settle(place, description, own.name, before, alone)


def require_parts(name: Any) -> str:
    """The name of a folder of parts, if it is one, and leads nowhere else."""
    if not isinstance(name, str) or not re.fullmatch(r"parts-[0-9a-f]{32}", name):
        raise SavedModelError(
            f"the folder with its parts is called {name!r}; cagp writes parts-<32 hexadecimal digits>"
        )
    return name


def _described(place: Path) -> list[str]:
    """The names of what the descriptions in a folder are about."""
    names = []
    for description in (DESCRIPTION, QUANTITIES, IN_SHARDS):
        with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
            content = json.loads((place / description).read_bytes())
            names.append(content["data"]["file"] if description == DESCRIPTION else content["parts"])
    return [name for name in names if isinstance(name, str) and _PART.fullmatch(name)]


def _settle(place: Path, description: str, kept: str, before: Sequence[str], alone: bool) -> None:
    """Leave a model with its ``description`` and what that is about, ``kept``, and nothing of what was ``before``.

    Where nobody else can be at work, parts that kills have left go as well; data may be about to be described.
    """
    for other in {DESCRIPTION, QUANTITIES, IN_SHARDS} - {description}:
        (place / other).unlink(missing_ok=True)
    others = [each.name for each in place.iterdir() if _LEFT.fullmatch(each.name)] if alone else []
    for name in {*before, *(each for each in others if not _DATA_NAME.fullmatch(each))}:
        if name != kept:
            remove(place / name)


def own_hash(content: dict[str, Any]) -> str:
    """The hash of a description: of its content, whatever the layout of the file."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def read(folder: str | Path) -> Saved:
    """What a model folder holds, checked, without conditioning on it; ``model/Cd`` is one of several quantities."""
    optional("safetensors.numpy", "saving and loading models", "cli")
    place = _of_quantity(Path(folder))
    if not place.is_dir():
        raise SavedModelError(f"{place} is not a folder; a model is a folder that `cagp fit` or model.save wrote")
    if (place / IN_SHARDS).exists():
        known = "`cagp predict` and `cagp info` read it, and cagp.load in Python"
        raise SavedModelError(
            f"{place} has a model of data in shards, which this cannot take; {known}. Averages, simulations, checks "
            "and maps need a model in memory: fit one to the observations around the places in question; to add "
            "observations, write them beside the others and fit again"
        )
    if (place / QUANTITIES).is_file():
        known = f"`cagp predict` and `cagp info` read it; {place / 'NAME'} is the model of the quantity NAME"
        raise SavedModelError(f"{place} holds a model of several quantities, which this cannot take; {known}")
    try:
        return _read(place)
    except SavedModelError:
        with one_writer(place):  # another process may have replaced the model meanwhile; now none does
            return _read(place)


def _of_quantity(place: Path) -> Path:
    """The folder of one quantity, where ``place`` is that of several with its name behind it."""
    several = several_above(place)
    if several is None or place.exists():
        return place
    name = place.relative_to(several).as_posix()
    content, names = _quantities_in(several)
    if name not in names:
        raise SavedModelError(f"{several} has no quantity {name!r}; it has {', '.join(map(repr, names))}")
    return several / require_parts(content.get("parts")) / str(names.index(name))


def _quantities_in(several: Path) -> tuple[dict[str, Any], list[str]]:
    """What the folder of several quantities says of them, and their names."""
    try:
        content = json.loads((several / QUANTITIES).read_bytes())
        return content, list(map(str, content["names"]))
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise SavedModelError(f"{several} cannot be loaded: {error}") from error


def quantities_beside(folder: str | Path) -> list[str]:
    """The names of the quantities of which ``folder``, such as ``model/Cd``, is one; none for another model."""
    several = several_above(Path(folder))
    return [] if several is None else _quantities_in(several)[1]


def several_above(place: Path) -> Path | None:
    """The model of several quantities that ``place`` is in, or would be: a name of a quantity may have slashes."""
    for each in place.parents:
        with suppress(OSError), open(each / QUANTITIES, "rb") as file:
            if f'"format": "{SEVERAL}"'.encode() in file.read(1000):
                return each
    return None


def _read(place: Path) -> Saved:
    """What the folder holds now."""
    try:
        content = description_in(place, DESCRIPTION, FORMAT, _ENTRIES_OF)
        described = content["data"]
        name = described["file"]
        if not isinstance(name, str) or not _DATA_NAME.fullmatch(name):
            raise SavedModelError(f"the data file is called {name!r}; cagp writes data-<hash>.safetensors")
        return _saved(content, _read_arrays(_inside(place, name), described))
    except (SavedModelError, OSError) as error:  # a file may go while it is read
        raise SavedModelError(f"{place} cannot be loaded: {error}") from error
    except (InputError, KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise SavedModelError(f"{place} cannot be loaded, {DESCRIPTION} is not what cagp writes: {error}") from error


def _inside(place: Path, name: str) -> Path:
    """The regular file of that name in the folder; links that lead out of it are refused."""
    path = place / name
    if path.is_symlink() and path.resolve().parent != place.resolve():
        raise SavedModelError(f"{name} is a link that leads out of the folder")
    if not path.is_file():
        raise SavedModelError(f"{name} is missing")
    return path


def description_in(place: Path, name: str, kind: str, entries: Mapping[int, Sequence[set[str]]]) -> dict[str, Any]:
    """What ``write_description`` wrote to the file ``name``, checked; ``entries`` are those of each version."""
    path, newest = _inside(place, name), max(entries)
    if path.stat().st_size > _LARGEST_DESCRIPTION:
        raise SavedModelError(f"{name} has {path.stat().st_size} bytes; cagp writes a few thousand")
    try:
        content = json.loads(path.read_bytes().decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise SavedModelError(f"{name} is not readable JSON ({error}); it is damaged or truncated") from error
    if not isinstance(content, dict) or content.get("format") != kind:
        raise SavedModelError(f"{name} does not describe a {kind}")
    version = content.get("format_version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise SavedModelError(f"its format version is {version!r}, which is none")
    if version > newest:
        raise SavedModelError(
            f"it has format version {version}, written by cagp {content.get('cagp_version')}; this cagp reads up to "
            f"{newest}: use a newer cagp"
        )
    if content.pop("sha256", None) != own_hash(content):
        raise SavedModelError(f"{name} does not have the hash written with it; it was changed or damaged")
    if set(content) not in (expected := entries[version]):
        raise SavedModelError(f"{name} has the entries {sorted(content)}, expected were {sorted(expected[-1])}")
    return content


def _read_arrays(path: Path, described: dict[str, Any]) -> dict[str, np.ndarray]:
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
    if _sha256(path) != described["sha256"]:
        raise SavedModelError(f"{path.name} does not have the hash in model.json; it was changed or damaged")
    try:
        arrays: dict[str, np.ndarray] = load_file(path)
    except (SafetensorError, OSError, KeyError, ValueError) as error:
        raise SavedModelError(f"{path.name} is not a safetensors file ({error})") from error
    if _shapes_of(arrays) != described["arrays"]:
        raise SavedModelError(f"{path.name} holds {_shapes_of(arrays)}, model.json announces {described['arrays']}")
    for name, array in arrays.items():
        # of the others an object or a layer knows itself which of them has which type
        wanted = "float64" if name in ("X", "y", "noise_variance") else "float64 or int64"
        if str(array.dtype) not in wanted.split(" or "):
            raise SavedModelError(f"the array {name} in {path.name} has type {array.dtype}, expected was {wanted}")
    return arrays


def _saved(content: dict[str, Any], arrays: dict[str, np.ndarray]) -> Saved:
    X = points(arrays["X"], "X").numpy()
    y = targets(arrays["y"], len(X)).numpy()
    prior = decode_prior(content["prior"], "", "noise_variance", arrays)
    prior.noise(torch.from_numpy(X))
    solver, settings = content["solver"], content["settings"]
    solving_type(settings["solve_dtype"], float_type(settings["dtype"], "dtype"))
    choice(settings["storage"], "storage", STORAGES)
    asked = decode(solver["asked"], "solver", arrays, Solver)
    picked = None if solver["picked"] is None else decode(solver["picked"], "picked", arrays, Solver)
    about = About.from_json(content["about"])
    parts = decoded(content["layers"], arrays, len(X)) if "layers" in content else Parts()
    if parts.quantity is not None and not (X[:, -1] == parts.quantity).any():
        raise SavedModelError(f"it is of the quantity {parts.quantity}, of which there are no observations")
    kept = {name: settings[name] for name in ("storage", "dtype", "solve_dtype")}
    kept |= {name: str(content[name]) for name in ("created", "cagp_version")} | {"fingerprint": own_hash(content)}
    return Saved(prior, X, y, asked, picked=picked, about=about, parts=parts, **kept)
