"""Several quantities at the same places: a model for each, which may be one model of all of them, seen from each.

A model of all is a ``Model`` of points (x, i), whose last column is the number i = 0, 1, … of the quantity; with
``quantity=i`` it takes places x and is about one of them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch

from .errors import DataWarning, InputError
from .kernels import Coregionalised
from .left_out import LeftOut
from .model import Model
from .posterior import stacked as stacked_posteriors
from .predicting.beyond import tell_rows_beyond
from .predicting.unexplained import told_of_unexplained
from .prediction import Guarantee, Prediction
from .story import Story
from .support.advice import warn_caller
from .support.progress import progress as progress_bar
from .support.validation import ArrayLike, choice, count, quantities

if TYPE_CHECKING:  # a short cut into a room above, as that of a model
    from pathlib import Path

    from .saving import About

_PLACES = 200  # whose covariances are worked on together
_LEFT_OUT = 2000  # observations of each quantity that are left out where nothing else is said


def is_several(y: ArrayLike) -> bool:
    """Whether observations are of several quantities: (n, q) with q > 1."""
    try:
        shape = np.shape(y)
    except ValueError:  # ragged, which is refused where it is read
        return False
    return len(shape) == 2 and shape[1] > 1


def stacked(X: np.ndarray, Y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Points (x, i) and their observations, one below the other, from places X (n, p) and Y (n, q), NaN where none is.

    The quantities of a place are next to each other.
    """
    rows, quantity = np.nonzero(~np.isnan(Y))
    return np.column_stack([X[rows], quantity]), Y[rows, quantity]


def on_scales(Y: np.ndarray, models: Sequence[Model]) -> np.ndarray:
    """Observations Y (n, q), NaN where there is none, on the scales that the models of the quantities have."""
    found = Y.copy()
    for own, model in zip(found.T, models, strict=True):
        if model.transform is not None:
            known = ~np.isnan(own)
            own[known] = model.transform.of(torch.from_numpy(own[known])).numpy()
    return found


class UnknownHereError(InputError, AttributeError):
    """What a ``Model`` has, and this kind of model has not. The message says which one to ask instead."""


class QuantitiesModel:
    """Several quantities at the same places: what ``cagp.fit`` of Y (n, q) gives.

    ``names`` are those of the quantities, and ``models`` has a ``Model`` for each: ``model["Cd"]`` is that of one. They
    are given one by one, or as one ``Model`` of points (x, i) of all quantities, by which one tells about another.
    ``story`` tells how ``cagp.fit`` came to it.
    """

    def __init__(self, names: Sequence[str], models: Model | Sequence[Model], *, story: Story | None = None) -> None:
        self.names, self.record = tuple(names), story
        if isinstance(models, Model):
            columns = models.column_names and models.column_names[:-1]
            named = enumerate(self.names)
            models = [models.replace(quantity=i, target_name=name, column_names=columns) for i, name in named]
        self.models = tuple(models)
        if len(self.models) != len(self.names) or not self.models:
            raise InputError(f"there must be one model for each of {len(self.names)} quantities, or one of all")
        if len({*self.names}) < len(self.names):
            raise InputError(f"each quantity has a name of its own, got {', '.join(map(repr, self.names))}")

    @cached_property
    def joint(self) -> Model | None:
        """The model of points (x, i), on the scales that were modelled; None where each quantity is by itself."""
        if not self.together:
            return None
        plain: Any = dict.fromkeys(("quantity", "margins", "transform", "column_names", "about", "story"))
        return self.models[0].replace(encodings=(), **plain)

    @property
    def together(self) -> bool:
        """Whether the quantities are modelled together, so that one tells about another."""
        return self.models[0].quantity is not None

    @property
    def story(self) -> str:
        """What was tried, chosen and found, in words; empty where the model was made by hand."""
        return "" if self.record is None else str(self.record)

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended the search: these are the best so far, as the story says."""
        return self.record is not None and self.record.interrupted

    @property
    def guarantee(self) -> Guarantee:
        """When the error bars of its predictions hold, of the first quantity."""
        return self.models[0].guarantee

    @property
    def correlations(self) -> np.ndarray:
        """How the quantities, on the scales that were modelled, go together at one place, without noise (q, q)."""
        if not self.together:
            return np.eye(len(self.names))
        kernels = (part.kernel for part in self.models[0].prior.kernel.walk())
        B = sum(each.B for each in kernels if isinstance(each, Coregionalised))
        deviations = np.sqrt(np.diagonal(B))
        return np.asarray(B / np.outer(deviations, deviations))

    @property
    def instead(self) -> str:
        """What has all that a ``Model`` has."""
        return f"ask one of its quantities, model[{self.names[0]!r}]"

    def __getattr__(self, name: str) -> Any:
        """What only the model of one quantity can do is refused with the remedy."""
        some = self.__dict__.get("models", ())
        if name.startswith("_") or not any(name in vars(each) or hasattr(type(each), name) for each in some):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        raise UnknownHereError(f"a model of several quantities has no {name}; {self.instead}.{name}")

    def __getitem__(self, quantity: str | int) -> Model:
        return self.models[_number(quantity, self.names)]

    def __repr__(self) -> str:
        how = "each by itself" if self.joint is None else repr(self.joint)
        return f"QuantitiesModel({', '.join(self.names)}: {how})"

    def __str__(self) -> str:
        return self.story or repr(self)

    def predict(self, X_test: ArrayLike, *, progress: bool | None = None) -> QuantitiesPrediction:
        """What is predicted of all quantities at places X_test (T, p). numpy in, numpy out; torch in, torch out."""
        tell_rows_beyond(self.models, self.models[0].places(X_test))
        if self.joint is None:
            return QuantitiesPrediction(self.names, [each.predict(X_test, progress=progress) for each in self.models])
        joint, q = self.joint, len(self.names)
        every = torch.stack([each.test_points(X_test)[0] for each in self.models], dim=1).flatten(0, 1)
        means, variances = stacked_posteriors(joint.predict(every, progress=progress).components)
        parts = ((model, means[:, i::q], variances[:, i::q]) for i, model in enumerate(self.models))
        found = [model.prediction_of(X_test, *own) for model, *own in parts]

        def between() -> torch.Tensor:
            return torch.cat([_between(joint, some, q) for some in every.split(q * _PLACES)])

        return QuantitiesPrediction(self.names, found, between)

    def left_out(
        self, *, whole_places: bool = False, n: int | None = None, seed: int = 0, progress: bool | None = None
    ) -> dict[str, LeftOut]:
        """Observations of each quantity predicted from the others, by the name of the quantity; see ``Model.left_out``.

        Each is left out alone, so that it is predicted from the other quantities at its place, too; or, with
        ``whole_places``, together with these, as where nothing is known yet. ``n`` are drawn of each quantity, by
        default all up to 2,000. They are on the scale that was modelled.
        """
        most, found = _LEFT_OUT if n is None else count(n, "n", minimum=1), {}
        with progress_bar("left out", len(self.names), progress) as advance:
            for name, model in zip(self.names, self.models, strict=True):
                some: Any = {"n": min(most, len(model.y)), "seed": seed, "progress": False}
                found[name] = model.left_out(whole_places=whole_places, **some)
                advance(1)
        return found

    def with_more(self, X: ArrayLike, Y: ArrayLike) -> QuantitiesModel:
        """The model of its own observations and further ones Y (m, q) at X (m, p), NaN where there is none.

        What was chosen stays as it was, and recalibrations are learned anew where ``Model.with_more`` does so. Where
        nothing was measured it is the same model.
        """
        q = len(self.names)
        new = self.models[0].places(X, "X").cpu().numpy()
        values = quantities(Y, len(new), self.names)
        if np.isnan(values).all():
            return self
        story = None if self.record is None else self.record.after(int((~np.isnan(values)).sum()))
        known = [~np.isnan(values[:, i]) for i in range(q)]
        each = list(zip(self.models, known, values.T, strict=True))
        if self.joint is None:
            models = [model.extended(new[own], y[own]) if own.any() else model for model, own, y in each]
        else:
            learned = [model.margins and model.margins.after(int(own.sum())) for model, own, _ in each]
            whole = self.joint.extended(*stacked(new, on_scales(values, self.models)))
            both = zip(self.models, learned, strict=True)
            models = [model.grown(whole.components, margins, story) for model, margins in both]
        told = (
            told_of_unexplained(model, new[own], y[own], place=partial(_told, name, own))
            for name, (model, own, y) in zip(self.names, each, strict=True)
            if own.any()
        )
        warn_caller(" ".join(filter(None, told)), DataWarning)
        return QuantitiesModel(self.names, models, story=story)

    def save(self, folder: str | Path, *, about: About | None = None, overwrite: bool = False) -> Path:
        """Save the model as a folder that ``cagp.load`` reads; ``about`` holds names, units and notes of the places."""
        from .saving import write_quantities

        return write_quantities(self, folder, about, overwrite=overwrite)


def _told(name: str, known: np.ndarray, i: int) -> str:
    return f"{name} in row {np.flatnonzero(known)[i]} (counted from 0)"


def _number(quantity: str | int, names: Sequence[str]) -> int:
    return names.index(choice(quantity, "the quantity", names)) if isinstance(quantity, str) else quantity


def _between(joint: Model, given: torch.Tensor, q: int) -> torch.Tensor:
    """The covariances of the errors (T, q, q) of all q quantities at T places; ``given`` are points (x, i)."""
    parts: Any = joint.predict(given, progress=False).components
    means, weights = stacked_posteriors(parts)[0], joint.weights.tolist()
    total = torch.zeros(len(given) // q, q, q, dtype=torch.float64, device=given.device)
    apart = (means - means.new_tensor(weights) @ means).unflatten(1, (-1, q))
    for weight, part, own in zip(weights, parts, apart, strict=True):
        blocks = [part.error_covariance(here, here) for here in (slice(at, at + q) for at in range(0, len(given), q))]
        total += weight * (torch.stack(blocks) + own[:, :, None] * own[:, None, :])
    return total


def _beside(name: str, doc: str) -> Any:
    """A property of each quantity, side by side."""
    return property(lambda self: self._columns(attrgetter(name)), doc=doc)


class QuantitiesPrediction:
    """What is predicted of q quantities at T places; made by ``QuantitiesModel.predict``.

    ``mean``, ``median``, ``std`` and ``variance`` have shape (T, q); ``prediction["Cd"]`` or ``prediction[0]`` is the
    ``Prediction`` of one quantity. They are about the functions; ``observed()`` is about new observations. Those of
    quantities that are modelled on another scale are on their own.
    """

    def __init__(
        self, names: Sequence[str], each: Sequence[Prediction], between: Callable[[], torch.Tensor] | None = None
    ) -> None:
        """``between`` has the covariances (T, q, q) of the errors of f; None where quantities are by themselves."""
        self.names, self.each, self._between = tuple(names), tuple(each), between

    def __repr__(self) -> str:
        return f"QuantitiesPrediction({', '.join(self.names)}: {len(self)} places)"

    def __len__(self) -> int:
        """How many places there are."""
        return len(self.each[0])

    def __getitem__(self, quantity: str | int) -> Prediction:
        return self.each[_number(quantity, self.names)]

    def _columns(self, of: Callable[[Prediction], Any]) -> Any:
        """What each quantity says, side by side, shape (T, q, …)."""
        found = [of(each) for each in self.each]
        return torch.stack(found, dim=1) if isinstance(found[0], torch.Tensor) else np.stack(found, axis=1)

    mean = _beside("mean", "The predicted values, shape (T, q).")
    median = _beside("median", "The medians, shape (T, q).")
    std = _beside("std", "The standard deviations of the errors, shape (T, q).")
    variance = _beside("variance", "Their squares, shape (T, q).")

    def interval(self, level: float = 0.95) -> tuple[Any, Any]:
        """The central intervals that hold each quantity with probability ``level``: (lower, upper), each (T, q)."""
        return self._columns(lambda each: each.interval(level)[0]), self._columns(lambda each: each.interval(level)[1])

    def quantile(self, p: ArrayLike) -> Any:
        """The quantiles of probability ``p``: shape (T, q) for one number, (T, q, n) for n of them."""
        return self._columns(lambda each: each.quantile(p))

    def observed(self) -> Self:
        """The prediction of new observations: each quantity has its noise."""
        found = copy.copy(self)
        found.each = tuple(each.observed() for each in self.each)
        return found

    def covariance(self) -> Any:
        """How the errors of the quantities go together at each place, shape (T, q, q).

        On the scale that was modelled: of quantities with a transform it is the covariance of what was modelled. A
        recalibration scales it as it scales standard deviations. Quantities by themselves have none with each other.
        """
        variances, scale = (torch.stack(each, dim=1) for each in zip(*(own.modelled for own in self.each), strict=True))
        found = torch.diag_embed(variances) if self._between is None else self._between()
        found.diagonal(dim1=1, dim2=2).copy_(variances)  # noise, where these are observations
        return self.each[0].out(found * scale[:, :, None] * scale[:, None, :])
