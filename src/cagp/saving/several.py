"""The door to model folders of any kind; and folders of several quantities.

These hold ``quantities.json``, and folders of models of one quantity each, or of one model of all. The file is written
last: without it a folder holds nothing.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import torch

from ..errors import InputError, SavedModelError
from ..model import Model
from ..quantities import QuantitiesModel, Scale
from ..solvers import Solver
from ..story import Story
from ..support.atomic_files import whole_file
from ..support.version import __version__
from .about import About
from .folder import QUANTITIES, own_hash, read, require_writable, write
from .objects import require_entries
from .saved import Saved, transform_from_json, transform_to_json

_FORMAT, _VERSION = "cagp quantities", 1
_ENTRIES = ("format", "format_version", "cagp_version", "created", "names", "together", "scales", "story", "sha256")
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
    place.parent.mkdir(parents=True, exist_ok=True)
    temporary = place.with_name(f".partial-{uuid4().hex}-{place.name}")
    try:
        temporary.mkdir()
        if model.joint is not None:
            own = dataclasses.replace(about, features=about.features and (*about.features, "quantity"), target=None)
            write(Saved.of(model.joint, own), temporary / "0")
        for i, (name, each) in enumerate(zip(names, model.models, strict=bool(model.models))):
            write(Saved.of(each, dataclasses.replace(about, target=name)), temporary / str(i))
        text = json.dumps({**content, "sha256": own_hash(content)}, indent=1, ensure_ascii=False, allow_nan=False)
        with whole_file(temporary / QUANTITIES) as file:
            file.write_text(text + "\n", encoding="utf-8")
        if place.exists():
            old = place.with_name(f".partial-{uuid4().hex}-old-{place.name}")
            os.rename(place, old)
            os.rename(temporary, place)
            shutil.rmtree(old)
        else:
            os.rename(temporary, place)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return place


def read_quantities(folder: str | Path, **how: Any) -> tuple[QuantitiesModel, About]:
    """What ``write_quantities`` wrote, checked, and what it says of the first; ``how`` is as in ``Saved.condition``."""
    place = Path(folder)
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
    saved = [read(place / str(i)) for i in range(1 if content["together"] else len(names))]
    models = [each.condition(**how) for each in saved]
    about = saved[0].about
    if content["together"]:
        features = None if about.features is None else about.features[:-1]
        return QuantitiesModel(names, joint=models[0], scales=scales, story=story), dataclasses.replace(
            about, features=features
        )
    return QuantitiesModel(names, models=models, scales=scales, story=story), about


def load(
    folder: str | Path,
    *,
    solver: Solver | str | None = None,
    memory_budget: float | None = None,
    solve_dtype: Any = None,
    device: str | torch.device | None = None,
) -> Model:
    """The model that ``save`` wrote to ``folder``, on the CPU or on ``device``; a recalibrated one as it was.

    ``solver`` and ``solve_dtype`` replace its own: a model that solves in "tf32", which only GPUs do, needs "float32"
    on a CPU. Its predictions are, to rounding, those of the model that was saved (on the same kind of machine, with as
    many threads and as much memory). A model made with ``solver="auto"`` keeps the solver that was picked. Of several
    quantities it is a ``QuantitiesModel``, of data in shards, which have to be where they were, a ``ShardedModel``.
    """
    from ..shards import is_sharded, read_sharded

    given: dict[str, Any] = {"solver": solver, "memory_budget": memory_budget}
    given |= {"solve_dtype": solve_dtype, "device": device}
    if is_sharded(folder):
        if said := [name for name, value in given.items() if value is not None]:
            raise InputError(f"{said[0]} is not known for a model of data in shards; leave it out, or fit another one")
        return cast(Model, read_sharded(folder))
    if holds_quantities(folder):
        return cast(Model, read_quantities(folder, **given)[0])  # of several quantities
    return read(folder).condition(**given)
