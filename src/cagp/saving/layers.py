"""The layers around a saved model, such as a recalibration: as plain JSON values and arrays, and back.

A layer is written as ``{"layer": "recalibration", …}``, innermost first; its arrays are called ``layers[0].…``. Only
the layers listed here can come back, and what they have learned checks itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import SavedModelError
from ..mixtures import FittedModel, MixtureModel
from ..model import Model
from ..recalibration import ConformalModel, LayeredModel, Learned, RecalibratedModel
from ..recalibration.layer import Predicting
from ..transforms import TransformedModel

_KNOWN: tuple[type[LayeredModel], ...] = (
    MixtureModel,
    RecalibratedModel,
    ConformalModel,
    TransformedModel,
    FittedModel,
)
LAYERS = {each.learns.name: each for each in _KNOWN}


def layers_of(model: Predicting) -> tuple[Learned, ...]:
    """What the layers around a model have learned, innermost first."""
    return (*layers_of(model.inner), model.learned) if isinstance(model, LayeredModel) else ()


def with_layers(model: Model, layers: Sequence[Learned]) -> Model | LayeredModel:
    """The model with the layers around it, innermost first."""
    whole: Model | LayeredModel = model
    for learned in layers:
        whole = LAYERS[learned.name](whole, learned)
    return whole


def encode_layers(layers: Sequence[Learned], arrays: dict[str, np.ndarray]) -> list[dict[str, Any]]:
    """The layers as JSON; ``arrays`` is given theirs."""
    written = []
    for i, learned in enumerate(layers):
        own: dict[str, np.ndarray] = {}
        written.append({"layer": learned.name} | learned.to_json(own))
        arrays |= {_prefix(i) + name: np.ascontiguousarray(array) for name, array in own.items()}
    return written


def decode_layers(content: Any, arrays: dict[str, np.ndarray], size: int) -> tuple[Learned, ...]:
    """The layers that ``encode_layers`` wrote, for a model of ``size`` observations."""
    if not isinstance(content, list) or not content:
        raise SavedModelError("the layers must be a list with at least one entry")
    layers: list[Learned] = []
    known: set[str] = set()
    for i, each in enumerate(content):
        name = each.get("layer") if isinstance(each, dict) else None
        if not isinstance(name, str) or name not in LAYERS:
            raise SavedModelError(f"layers[{i}] is the unknown layer {name!r}; known are {', '.join(LAYERS)}")
        own = {key.removeprefix(_prefix(i)): array for key, array in arrays.items() if key.startswith(_prefix(i))}
        rest = {key: value for key, value in each.items() if key != "layer"}
        layers.append(LAYERS[name].learns.from_json(rest, own, size))
        written: dict[str, np.ndarray] = {}
        layers[-1].to_json(written)
        known |= {_prefix(i) + key for key in written}
    unknown = {name for name in arrays if is_of_layer(name)} - known
    if unknown:
        raise SavedModelError(f"the data file has the array {min(unknown)}, which belongs to no layer")
    return tuple(layers)


def is_of_layer(name: str) -> bool:
    """Whether an array of that name belongs to a layer."""
    return name.startswith("layers[")


def _prefix(i: int) -> str:
    return f"layers[{i}]."
