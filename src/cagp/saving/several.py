"""The door to model folders of any kind; and folders of several quantities.

These hold ``quantities.json`` and, in a folder that it names, a model folder for each quantity, 0, 1, …; ``read`` finds
them by the names of the quantities. Where one model of all is seen from each, they share its data. ``quantities.json``
is written last: without it a folder holds nothing.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, cast

import torch

from ..errors import InputError, SavedModelError
from ..model import Model
from ..quantities import QuantitiesModel
from ..solvers import Solver
from ..story import Story
from ..support.atomic_files import fill_folder, one_writer
from .about import About
from .folder import (
    QUANTITIES,
    SEVERAL,
    description_in,
    new_parts,
    read,
    require_parts,
    require_writable,
    write,
    write_description,
)
from .saved import Saved

_VERSION = 1
_ENTRIES = {"format", "format_version", "cagp_version", "created", "names", "story", "parts"}


def holds_quantities(folder: str | Path) -> bool:
    """Whether the folder claims to hold a model of several quantities."""
    return (Path(folder) / QUANTITIES).is_file()


def write_quantities(
    model: QuantitiesModel, folder: str | Path, about: About | None = None, *, overwrite: bool = False
) -> Path:
    """Write a model of several quantities, whole or not at all; ``about`` is that of the places."""
    place, about = require_writable(folder, overwrite), about or About()
    content = {
        "format": SEVERAL,
        "format_version": _VERSION,
        "names": list(model.names),
        "story": None if model.record is None else model.record.to_json(),
    }

    def fill(at: Path) -> None:
        with new_parts(at, QUANTITIES, overwrite) as parts:
            for i, (name, each) in enumerate(zip(model.names, model.models, strict=True)):
                write(Saved.of(each, dataclasses.replace(about, target=name)), parts / str(i))
            write_description(at / QUANTITIES, {**content, "parts": parts.name})

    return fill_folder(place, fill)


def read_quantities(folder: str | Path, **how: Any) -> tuple[QuantitiesModel, Saved]:
    """What ``write_quantities`` wrote, checked, and the first of it; ``how`` is as in ``Saved.condition``."""
    place = Path(folder)
    try:
        names, story, saved = _read(place)
    except SavedModelError:
        with one_writer(place):  # another process may have replaced the model meanwhile; now none does
            names, story, saved = _read(place)
    models = [saved[0].condition(**how)]
    for each in saved[1:]:  # of one model of all, all others are other views
        models.append(each.condition(**how) if each.parts.quantity is None else each.parts.around(models[0]))
        models[-1].target_name, models[-1].about = each.about.target, each.about
    return QuantitiesModel(names, models, story=story), saved[0]


def _read(place: Path) -> tuple[list[str], Story | None, list[Saved]]:
    """The names of the quantities, the story, and the model of each."""
    try:
        content = description_in(place, QUANTITIES, SEVERAL, {_VERSION: (_ENTRIES,)})
        names = [str(each) for each in content["names"]]
        story = None if content["story"] is None else Story.from_json(content["story"])
        parts = place / require_parts(content["parts"])
        if not names or len(set(names)) < len(names):
            raise SavedModelError(f"its quantities are called {content['names']!r}; each has a name of its own")
    except (InputError, SavedModelError, KeyError, TypeError, OSError) as error:
        raise SavedModelError(f"{place} cannot be loaded: {error}") from error
    saved = [read(parts / str(i)) for i in range(len(names))]
    if len({each.parts.quantity is None for each in saved}) > 1:
        raise SavedModelError(
            f"{place} cannot be loaded: some of its quantities have one model of all, others have not"
        )
    return names, story, saved


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
