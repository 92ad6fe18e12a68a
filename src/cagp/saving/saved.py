"""A model as it lies on disk: all that it takes to condition again, nothing computed yet.

What it has beside one prior and its data is a list of entries ``{"layer": "recalibration", …}``, in the order of
``_DECODERS``, with arrays called ``layers[0].…``.
"""

from __future__ import annotations

import dataclasses
from collections import UserDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from ..errors import InputError, InputTypeError, SavedModelError
from ..model import Model
from ..prediction import Guarantee, guarantee_of
from ..prior import Prior
from ..recalibration import Conformal, Margins, Recalibration, learned_in_seconds
from ..recalibration.margins import saved_array
from ..solvers import NearestNeighbours, Solver, as_solver
from ..story import Story
from ..support.coordinate_systems import coordinate_units, require_same_system
from ..support.validation import ArrayLike, count
from ..transforms import KINDS, Transform
from .about import About
from .objects import decode_prior, encode_prior, require_entries


@dataclass(frozen=True, eq=False)
class Parts:
    """The priors of ``others`` than the first component, the ``weights`` (m,) of all, and what ``Model`` has else."""

    others: tuple[Prior, ...] = ()
    weights: tuple[float, ...] = (1.0,)
    margins: Margins | None = None
    transform: Transform | None = None
    limited: bool = False
    story: Story | None = None
    quantity: int | None = None

    @classmethod
    def of(cls, model: Model) -> Parts:
        """Those of a model."""
        others = tuple(component.prior for component in model.components[1:])
        parts = model.margins, model.transform, model.limited, model.record, model.quantity
        return cls(others, tuple(model.weights.tolist()), *parts)

    def around(self, first: Model) -> Model:
        """The whole model, given the one of its first component alone; all are conditioned in the same way."""
        components = [first.components[0], *(first.components[0].with_prior(prior) for prior in self.others)]
        parts: Any = {name: getattr(self, name) for name in ("margins", "transform", "limited", "story", "quantity")}
        return first.replace(components=components, weights=self.weights, **parts)

    def guarantee(self, solver: Solver, prior: Prior) -> Guarantee:
        """When the error bars of the model hold, whose first ``prior`` this is."""
        if self.margins is not None:
            return self.margins.guarantee
        learned = any(each.mean.learned for each in (prior, *self.others))
        return guarantee_of(solver, 1 + len(self.others), len(prior.outliers), learned)

    @property
    def in_words(self) -> str:
        """What the error bars are made of."""
        words = [f"a mixture of {len(self.weights)} models"] if self.others else []
        words += [] if self.margins is None else [self.margins.in_words]
        words += [] if self.transform is None else [f"a transformed scale, {self.transform.in_words}"]
        return "; then ".join([*words, *([] if self.story is None else [self.story.in_words])])

    def encoded(self, solver: Solver, prior: Prior, arrays: dict[str, np.ndarray]) -> list[dict[str, Any]]:
        """As JSON; ``arrays`` is given theirs."""
        # versions up to 0.2 have read when error bars hold from here
        held = {"held": dataclasses.asdict(self.guarantee(solver, prior))}
        found: list[tuple[str, dict[str, Any], dict[str, np.ndarray]]] = []
        if self.others:
            own: dict[str, np.ndarray] = {"weights": np.array(self.weights)}
            priors = enumerate(self.others)
            content = [encode_prior(each, f"priors[{i}].", f"noise_variance[{i}]", own) for i, each in priors]
            found.append(("mixture", {"priors": content}, own))
        inner = self.margins.recalibration if isinstance(self.margins, Conformal) else None
        for margins in (inner, self.margins):
            if margins is not None:
                own = {}
                found.append((margins.name, margins.to_json(own), own))
        if self.transform is not None:
            content = {"kind": self.transform.name} | dataclasses.asdict(self.transform)  # type: ignore[call-overload]
            limited = {"limited": True} if self.limited else {}
            found.append(("transform", {"transform": content, **held, **limited}, {}))
        if self.story is not None:
            found.append(("story", self.story.to_json() | held, {}))
        if self.quantity is not None:
            found.append(("quantity", {"number": self.quantity}, {}))
        for i, (_, _, own) in enumerate(found):
            arrays |= {f"layers[{i}].{name}": np.ascontiguousarray(array) for name, array in own.items()}
        return [{"layer": name} | content for name, content, _ in found]


@dataclass(frozen=True, eq=False, repr=False)
class Saved:
    """Data X (d, p) and y (d,), float64; the prior with its mean filled in; solver and settings.

    ``picked`` is the solver that ``Auto`` had chosen, ``parts`` are what the model has beside its first component.
    ``created``, ``cagp_version`` and ``fingerprint``, its hash, are of the folder that it was read from.
    """

    prior: Prior
    X: np.ndarray
    y: np.ndarray
    solver: Solver
    storage: str = "auto"
    dtype: str = "float64"
    solve_dtype: str = "float64"
    picked: Solver | None = None
    about: About = field(default_factory=About)
    parts: Parts = field(default_factory=Parts)
    created: str = ""
    cagp_version: str = ""
    fingerprint: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.about, About):
            raise InputTypeError(f"about must be a cagp.saving.About, got {self.about!r}")
        names, columns = self.about.features, self.places.shape[1]
        if names is not None and len(names) != columns:
            raise InputError(f"about.features has {len(names)} names, the points have {columns} columns")

    @classmethod
    def of(cls, model: Model, about: About | None = None) -> Saved:
        """What there is to save of a model; names of a data frame's columns are kept."""
        if about is None and model.about is not None:  # what a fit and left-out errors said was of the model before
            notes = {name: said for name, said in model.about.notes.items() if name != "left-out observations"}
            about = dataclasses.replace(model.about, fit=None, notes=notes)
        about, names = about or About(), model.column_names
        if about.features is None and names is not None and len(set(names)) == len(names):
            about = dataclasses.replace(about, features=tuple(names))
        if not about.encodings:
            known = {*(about.features or ())}
            own = tuple(each for each in model.encodings if set(each.features) <= known)
            about = dataclasses.replace(about, encodings=own)
        if about.crs is None and model.crs is not None:
            units = coordinate_units(model.crs) | dict(about.units)
            about = dataclasses.replace(about, crs=model.crs, units=units)
        if about.target is None and model.target_name not in (about.features or ()):
            about = dataclasses.replace(about, target=model.target_name)
        require_same_system(about.crs, model.crs, "about")
        first, recipe = model.components[0], model.components[0].recipe
        types = {"dtype": str(recipe.dtype).removeprefix("torch."), "solve_dtype": recipe.arithmetic}
        rest: Any = {"picked": first.prepared.picked, "about": about, "parts": Parts.of(model)}
        return cls(first.prior, recipe.X, recipe.y, first.solver, recipe.storage, **types, **rest)

    @property
    def places(self) -> np.ndarray:
        """The points of the observations (n, p): ``X``, or of a model of several quantities those of its own one."""
        own = self.parts.quantity
        return self.X if own is None else self.X[self.X[:, -1] == own, :-1]

    @property
    def observations(self) -> np.ndarray:
        """The observations (n,) on their own scale: ``y`` is what a transform made of them, where there is one."""
        transform, own = self.parts.transform, self.parts.quantity
        y = self.y if own is None else self.y[self.X[:, -1] == own]
        return y if transform is None else transform.inverse(torch.from_numpy(y)).numpy()

    @property
    def guarantee(self) -> Guarantee:
        """When the error bars of the model hold."""
        return self.parts.guarantee(self.picked or self.solver, self.prior)

    def condition(
        self,
        solver: Solver | str | None = None,
        *,
        memory_budget: float | None = None,
        solve_dtype: Any = None,
        device: str | torch.device | None = None,
    ) -> Model:
        """The model, with the solver it was saved with (what ``Auto`` had picked, too) or with another one."""
        if solve_dtype is None and self.solve_dtype == "tf32" and torch.device(device or "cpu").type == "cpu":
            raise InputError(
                'this model solves in tf32, which only GPUs do; load it with device="cuda", or on a CPU with '
                'cagp.load(folder, solve_dtype="float32"), whose save() makes a model for the command line'
            )
        chosen = (self.picked or self.solver) if solver is None else as_solver(solver)
        how: Any = {"storage": self.storage, "dtype": self.dtype, "memory_budget": memory_budget, "device": device}
        how["solve_dtype"] = self.solve_dtype if solve_dtype is None else solve_dtype
        model = self.prior.condition(self.X, self.y, chosen, **how)
        if self.about.features is not None:
            model.column_names = list(self.about.features)
            model.encodings = tuple(
                each for each in self.about.encodings if set(each.features) <= {*model.column_names}
            )
        model.crs, model.target_name, model.about = self.about.crs, self.about.target, self.about
        return self.parts.around(model)

    def with_more(self, X: ArrayLike, y: ArrayLike, *, noise_variance: Any = None) -> Saved:
        """The same with further observations y (m,) at X (m, p), as ``Model.extended``.

        Nothing is solved for it, but where a recalibration is learned anew.
        """
        solver, size, margins = self.picked or self.solver, len(self.y) + len(X), self.parts.margins
        if learned_in_seconds(margins, solver, len(self.parts.weights), size):
            grown = self.condition(solve_dtype=self.dtype).extended(X, y, noise_variance=noise_variance)
        else:
            kept = None if margins is None else margins.after(len(X))
            quick = self.condition(NearestNeighbours(1), solve_dtype=self.dtype).replace(margins=None)
            grown = quick.extended(X, y, noise_variance=noise_variance).replace(margins=kept)
        found = Saved.of(grown, self.about)
        return dataclasses.replace(found, solver=self.solver, picked=self.picked, solve_dtype=self.solve_dtype)

    def __repr__(self) -> str:
        return f"Saved({self.prior!r}, X {self.X.shape}, solver={self.solver!r})"


def decoded(content: Any, arrays: Mapping[str, np.ndarray], size: int) -> Parts:
    """What ``encoded`` wrote, for a model of ``size`` observations."""
    if not isinstance(content, list) or not content:
        raise SavedModelError("the layers must be a list with at least one entry")
    found: dict[str, Any] = {}
    used, order = set[str](), list(_DECODERS)
    for i, each in enumerate(content):
        name = each.get("layer") if isinstance(each, dict) else None
        if name not in _DECODERS:
            raise SavedModelError(f"layers[{i}] is the unknown layer {name!r}; known are {', '.join(_DECODERS)}")
        if found and order.index(name) <= order.index(list(found)[-1]):
            raise SavedModelError(f"layers[{i}], a {name}, cannot stand behind a {list(found)[-1]}")
        own = _Used(arrays, f"layers[{i}].")
        rest = {key: value for key, value in each.items() if key != "layer"}
        found[name] = _DECODERS[name](rest, own, size)
        used |= {f"layers[{i}].{array}" for array in own.used}
    if unknown := {name for name in arrays if name.startswith("layers[")} - used:
        raise SavedModelError(f"the data file has the array {min(unknown)}, which belongs to no layer")
    others, weights = found.get("mixture", ((), (1.0,)))
    margins = found.get("recalibration")
    if "conformal" in found:
        margins = dataclasses.replace(found["conformal"], recalibration=margins)
    transform, limited = found.get("transform", (None, False))
    return Parts(others, weights, margins, transform, limited, found.get("story"), found.get("quantity"))


class _Used(UserDict[str, np.ndarray]):
    """The arrays behind a prefix, without it; remembers which were asked for."""

    def __init__(self, arrays: Mapping[str, np.ndarray], prefix: str) -> None:
        super().__init__({key.removeprefix(prefix): each for key, each in arrays.items() if key.startswith(prefix)})
        self.used: set[str] = set()

    def __getitem__(self, name: str) -> np.ndarray:
        self.used.add(name)
        return super().__getitem__(name)


def _mixture(content: Any, arrays: Mapping[str, np.ndarray], size: int) -> tuple[tuple[Prior, ...], tuple[float, ...]]:
    require_entries(content, ["priors"], "a mixture")
    numbered = enumerate(content["priors"])
    priors = [decode_prior(each, f"priors[{i}].", f"noise_variance[{i}]", arrays) for i, each in numbered]
    noises = [noise for each in priors for noise in (each.noise_variance, each.noise_factors) if np.ndim(noise)]
    sizes = set(map(len, noises))
    if not sizes <= {size}:
        raise InputError(f"a mixture has {max(sizes - {size})} noise variances for {size} observations")
    weights = saved_array(arrays, "weights", "float64")
    right = weights.shape == (1 + len(priors),) and (weights > 0).all() and np.isclose(weights.sum(), 1.0)
    if not right or (np.diff(weights) > 0).any():
        raise InputError(f"weights must be one for each of {1 + len(priors)} models, positive, falling, with the sum 1")
    return tuple(priors), tuple(weights.tolist())


def _transform(content: Any) -> tuple[Transform, bool]:
    require_entries({"limited": False, **content}, ["transform", "held", "limited"], "a transform")
    own = dict(content["transform"])
    kind = own.pop("kind", None)
    if kind not in KINDS:
        raise InputError(f"the transform {kind!r} is unknown; known are {', '.join(KINDS)}")
    wanted = {each.name for each in dataclasses.fields(KINDS[kind])}  # type: ignore[arg-type]
    if set(own) != wanted:
        raise InputError(f"the transform {kind} must have exactly the parameters {', '.join(sorted(wanted))}")
    return KINDS[kind](**own), content.get("limited") is True


def _quantity(content: Any) -> int:
    require_entries(content, ["number"], "a quantity")
    return count(content["number"], "the number of the quantity")


_DECODERS: dict[str, Callable[[Any, Mapping[str, np.ndarray], int], Any]] = {
    "mixture": _mixture,
    "recalibration": Recalibration.from_json,
    "conformal": Conformal.from_json,
    "transform": lambda content, arrays, size: _transform(content),
    "story": lambda content, arrays, size: Story.from_json(content),
    "quantity": lambda content, arrays, size: _quantity(content),
}
"""What reads each layer, in their order."""
