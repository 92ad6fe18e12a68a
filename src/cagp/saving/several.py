"""The door to model folders of any kind; and folders of several quantities.

These hold ``quantities.json``, and folders of models of one quantity each, or of one model of all. The file is written
last: without it a folder holds nothing.
"""

from __future__ import annotations

import dataclasses
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import torch

from ..errors import InputError, SavedModelError
from ..model import Model
from ..quantities import QuantitiesModel, Scale
from ..solvers import Solver
from ..story import Story
from ..support.atomic_files import fill_folder, one_writer, write_atomically
from ..support.version import __version__
from .about import About
from .folder import QUANTITIES, new_parts, own_hash, read, require_parts, require_writable, write
from .objects import require_entries
from .saved import Saved, transform_from_json, transform_to_json

_FORMAT, _VERSION = "cagp quantities", 1
_MADE = ("format", "format_version", "cagp_version", "created")
_ENTRIES = (*_MADE, "names", "together", "scales", "story", "parts", "sha256")
_LARGEST = 16 * 2**20


def holds_quantities(folder: str | Path) -> bool:
    """Whether the folder claims to hold a model of several quantities."""
    return (Path(folder) / QUANTITIES).is_file()


def write_quantities(
    model: QuantitiesModel, folder: str | Path, about: About | None = None, *, overwrite: bool = False
) -> Path:
    """Write a model of several quantities, whole or not at all; ``about`` is that of the places."""
    place, about = require_writable(folder, overwrite), about or About()
    names = list(model.names)
    scales = [
        {"transform": None if each.transform is None else transform_to_json(each.transform), "reach": each.reach}
        for each in model.scales
    ]
    content = {
        "format": _FORMAT,
        "format_version": _VERSION,
        "cagp_version": __version__,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "names": names,
        "together": model.together,
        "scales": scales,
        "story": None if model.record is None else model.record.to_json(),
    }

    def fill(at: Path) -> None:
        with new_parts(at, QUANTITIES, overwrite) as parts:
            if model.joint is not None:
                own = dataclasses.replace(about, features=about.features and (*about.features, "quantity"), target=None)
                write(Saved.of(model.joint, own), parts / "0")
            for i, (name, each) in enumerate(zip(names, model.models, strict=bool(model.models))):
                write(Saved.of(each, dataclasses.replace(about, target=name)), parts / str(i))
            named = {**content, "parts": parts.name}
            text = json.dumps({**named, "sha256": own_hash(named)}, indent=1, ensure_ascii=False, allow_nan=False)
            write_atomically(at / QUANTITIES, f"{text}\n".encode())

    return fill_folder(place, fill)


def read_quantities(folder: str | Path, **how: Any) -> tuple[QuantitiesModel, About]:
    """What ``write_quantities`` wrote, checked, and what it says of the first; ``how`` is as in ``Saved.condition``."""
    place = Path(folder)
    try:
        names, together, scales, story, saved = _read(place)
    except SavedModelError:
        with one_writer(place):  # another process may have replaced the model meanwhile; now none does
            names, together, scales, story, saved = _read(place)
    models = [each.condition(**how) for each in saved]
    about = saved[0].about
    if together:
        features = None if about.features is None else about.features[:-1]
        return QuantitiesModel(names, joint=models[0], scales=scales, story=story), dataclasses.replace(
            about, features=features
        )
    return QuantitiesModel(names, models=models, scales=scales, story=story), about


def _read(place: Path) -> tuple[list[str], bool, list[Scale], Story | None, list[Saved]]:
    """The names of the quantities, whether one model is of all of them, their scales, the story, and the models."""
    path = place / QUANTITIES
    try:
        if path.stat().st_size > _LARGEST:
            raise InputError(f"{QUANTITIES} has {path.stat().st_size} bytes; cagp writes a few thousand")
        content = json.loads(path.read_text(encoding="utf-8"))
        require_entries(content, _ENTRIES, QUANTITIES)
        if content.pop("sha256") != own_hash(content) or content["format"] != _FORMAT:
            raise InputError(f"{QUANTITIES} does not have the hash written with it; it was changed or damaged")
        if content["format_version"] != _VERSION:
            version = f"format version {content['format_version']}, written by cagp {content['cagp_version']}"
            raise InputError(f"it has {version}; this cagp reads version {_VERSION}: use a newer cagp")
        names = [str(each) for each in content["names"]]
        scales = [
            Scale(each["transform"] and transform_from_json(each["transform"]), each["reach"] and tuple(each["reach"]))
            for each in content["scales"]
        ]
        story = None if content["story"] is None else Story.from_json(content["story"])
    except (InputError, KeyError, TypeError, ValueError, OSError, RecursionError) as error:
        raise SavedModelError(f"{place} cannot be loaded: {error}") from error
    parts, together = place / require_parts(content["parts"]), bool(content["together"])
    return names, together, scales, story, [read(parts / str(i)) for i in range(1 if together else len(names))]


def load(
    folder: str | Path,
    *,
    solver: Solver | str | None = None,
    memory_budget: float | None = None,
    solve_dtype: Any = None,
    device: str | torch.device | None = None,
) -> Model:
    """The ``Model`` that ``save`` wrote to ``folder``, on the CPU or on ``device``; a recalibrated one as it was.

    ``solver`` and ``solve_dtype`` replace its own: a model that solves in "tf32", which only GPUs do, needs "float32"
    on a CPU. Its predictions are, to rounding, those of the model that was saved (on the same kind of machine, with as
    many threads and as much memory). A model made with ``solver="auto"`` keeps the solver that was picked. Of several
    quantities it is a ``QuantitiesModel``.
    """
    given: dict[str, Any] = {"solver": solver, "memory_budget": memory_budget}
    given |= {"solve_dtype": solve_dtype, "device": device}
    if holds_quantities(folder):
        return cast(Model, read_quantities(folder, **given)[0])  # of several quantities
    return read(folder).condition(**given)
