"""Several quantities at the same places: one model of all of them together, or one of each by itself.

A model of all together is a ``Model`` of points (x, i), whose last column is the number i = 0, 1, … of the quantity.
Here they are put into one column and taken apart again.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch

from .errors import InputError
from .kernels import Coregionalised
from .left_out import LeftOut, leave_out, without_places
from .model import Model
from .posterior import Posterior
from .posterior import stacked as stacked_posteriors
from .prediction import Guarantee, Prediction
from .story import Story
from .support.coordinate_systems import require_known_system
from .support.frames import features_of
from .support.progress import progress as progress_bar
from .support.validation import ArrayLike, choice, count, points, quantities
from .transforms import Transform

if TYPE_CHECKING:  # a short cut into a room above, as that of a model
    from pathlib import Path

    from .saving import About

_PLACES = 200  # whose covariances are worked on together

Between = Callable[[], torch.Tensor]  # the covariances (T, q, q) of the errors of f


@dataclass(frozen=True)
class Scale:
    """How a quantity was modelled: by its ``transform``, whose means look as far as ``reach``; None for as it is."""

    transform: Transform | None = None
    reach: tuple[float, float] | None = None

    def of(self, y: torch.Tensor) -> torch.Tensor:
        """Observations y (n,) on the scale that was modelled."""
        return y if self.transform is None else self.transform.of(y)

    def inverse(self, z: torch.Tensor) -> torch.Tensor:
        """The observations (n,) that are z there."""
        return z if self.transform is None else self.transform.inverse(z)


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


class QuantitiesModel:
    """Several quantities at the same places: what ``cagp.fit`` of Y (n, q) gives.

    ``names`` are those of the quantities. Where they are modelled ``together``, ``joint`` is the ``Model`` of points
    (x, i), on the ``scales`` of the quantities, and ``models`` is empty; else ``models`` has one for each, and
    ``joint`` is None. ``story`` tells how ``cagp.fit`` came to it.
    """

    def __init__(
        self,
        names: Sequence[str],
        *,
        joint: Model | None = None,
        models: Sequence[Model] = (),
        scales: Sequence[Scale] = (),
        story: Story | None = None,
    ) -> None:
        self.names, self.joint, self.models, self.record = tuple(names), joint, tuple(models), story
        self.scales = tuple(scales) or (Scale(),) * len(self.names)
        wanted = len(self.names) if joint is None else 0
        if len(self.models) != wanted or len(self.scales) != len(self.names):
            raise InputError("there must be one model of all quantities, or one for each, and a scale for each")

    @property
    def together(self) -> bool:
        """Whether the quantities are modelled together, so that one tells about another."""
        return self.joint is not None

    @property
    def places(self) -> torch.Tensor:
        """Where observations are, shape (n, p): of all quantities, or of the first."""
        return self.models[0].X if self.joint is None else self.joint.X[:, :-1]

    @property
    def story(self) -> str:
        """What was tried, chosen and found, in words; empty where the model was made by hand."""
        return "" if self.record is None else str(self.record)

    @property
    def guarantee(self) -> Guarantee:
        """When the error bars of its predictions hold: of all quantities, or of the first."""
        return (self.joint or self.models[0]).guarantee

    @property
    def correlations(self) -> np.ndarray:
        """How the quantities, on the scales that were modelled, go together at one place, without noise (q, q)."""
        if self.joint is None:
            return np.eye(len(self.names))
        parts = [part.kernel for part in self.joint.prior.kernel.walk() if isinstance(part.kernel, Coregionalised)]
        B = sum(each.B for each in parts)
        deviations = np.sqrt(np.diagonal(B))
        return np.asarray(B / np.outer(deviations, deviations))

    def places_of(self, X: ArrayLike, name: str) -> torch.Tensor:
        """Further places X (n, p), the argument called ``name``, checked."""
        if self.joint is None:
            return self.models[0].test_points(X, name)[0]
        known = self.joint.column_names and self.joint.column_names[:-1]  # the last one is the number of the quantity
        require_known_system(X, name, self.joint.crs, known)
        given = features_of(X, name, known, self.joint.encodings)
        return points(given, name, self.joint.device, columns=self.joint.X.shape[1] - 1)

    def __repr__(self) -> str:
        how = repr(self.joint) if self.joint is not None else "each by itself"
        return f"QuantitiesModel({', '.join(self.names)}: {how})"

    def __str__(self) -> str:
        return self.story or repr(self)

    def predict(self, X_test: ArrayLike, *, progress: bool | None = None) -> QuantitiesPrediction:
        """What is predicted of all quantities at places X_test (T, p). numpy in, numpy out; torch in, torch out."""
        if self.joint is None:
            return QuantitiesPrediction(self.names, [each.predict(X_test, progress=progress) for each in self.models])
        q, test = len(self.names), self.places_of(X_test, "X_test")
        every = torch.cat(
            [test.repeat_interleave(q, dim=0), torch.arange(q).to(test).repeat(len(test))[:, None]], dim=1
        )
        given = every if isinstance(X_test, torch.Tensor) else every.numpy()
        joint, found = self.joint.replace(margins=None), []
        means, variances = stacked_posteriors(joint.predict(given, progress=progress).components)
        for i, scale in enumerate(self.scales):
            own = self.joint.prediction_of(given[i::q], means[:, i::q], variances[:, i::q])
            found.append(own.carried_back(scale.transform, scale.reach))

        def between() -> torch.Tensor:
            step = q * _PLACES
            return torch.cat([_between(joint, given[at : at + step], q) for at in range(0, len(given), step)])

        return QuantitiesPrediction(self.names, found, between)

    def left_out(
        self, *, whole_places: bool = False, n: int | None = None, seed: int = 0, progress: bool | None = None
    ) -> dict[str, LeftOut]:
        """Observations of each quantity predicted from the others, by the name of the quantity; see ``Model.left_out``.

        Each is left out alone, so that it is predicted from the other quantities at its place, too; or, with
        ``whole_places``, together with these, as where nothing is known yet. ``n`` are drawn of each quantity, by
        default all up to 2,000. They are on the scale that was modelled.
        """
        if self.joint is None:
            return {
                name: model.left_out(n=min(n or 2000, len(model.y)), seed=seed, progress=progress)
                for name, model in zip(self.names, self.models, strict=True)
            }
        found = {}
        with progress_bar("left out", len(self.names), progress) as advance:
            for i, name in enumerate(self.names):
                found[name] = self.left_out_of(i, self.some_of(i, n or 2000, seed), whole_places)
                advance(1)
        return found

    def some_of(self, i: int, n: int, seed: int) -> np.ndarray:
        """At most n rows (m,) of the joint model that are observations of quantity i, drawn at random."""
        assert self.joint is not None
        own = np.flatnonzero(self.joint.X[:, -1].cpu().numpy() == i)
        return np.sort(np.random.default_rng(count(seed, "seed")).permutation(own)[: count(n, "n", minimum=1)])

    def left_out_of(self, i: int, rows: np.ndarray, whole_places: bool) -> LeftOut:
        """Rows (m,) of the joint model, observations of quantity i, left out alone or with all else at their places."""
        assert self.joint is not None
        component = self.joint.components[0]
        found = without_places(component, rows) if whole_places else leave_out(self.joint, rows)
        return replace(found, X=found.X[:, :-1])

    def with_more(self, X: ArrayLike, Y: ArrayLike) -> QuantitiesModel:
        """The model of its own observations and further ones Y (m, q) at X (m, p), NaN where there is none.

        What was chosen and learned stays as it was: see ``Model.with_more``.
        """
        new = self.places_of(X, "X").cpu().numpy()
        values = quantities(Y, len(new), self.names)
        story = None if self.record is None else self.record.after(int((~np.isnan(values)).sum()))
        if self.joint is None:
            models = []
            for model, own in zip(self.models, values.T, strict=True):
                known = ~np.isnan(own)
                models.append(model.with_more(new[known], own[known]) if known.any() else model)
            return QuantitiesModel(self.names, models=models, story=story)
        joint = self.joint.with_more(*stacked(new, on_scales(values, self.scales)))
        return QuantitiesModel(self.names, joint=joint, scales=self.scales, story=story)

    def save(self, folder: str | Path, *, about: About | None = None, overwrite: bool = False) -> Path:
        """Save the model as a folder that ``cagp.load`` reads; ``about`` holds names, units and notes of the places."""
        from .saving import write_quantities

        return write_quantities(self, folder, about, overwrite=overwrite)


def on_scales(Y: np.ndarray, scales: Sequence[Scale]) -> np.ndarray:
    """Observations Y (n, q), NaN where there is none, on the scales that are modelled."""
    found = Y.copy()
    for i, scale in enumerate(scales):
        known = ~np.isnan(Y[:, i])
        found[known, i] = scale.of(torch.from_numpy(Y[known, i])).numpy()
    return found


def _between(joint: Model, given: Any, q: int) -> torch.Tensor:
    """The covariances of the errors (T, q, q) of all q quantities at T places; ``given`` are points (x, i)."""
    prediction = joint.predict(given, progress=False)
    means, _ = stacked_posteriors(prediction.components)
    apart = (means - torch.from_numpy(joint.weights).to(means) @ means).unflatten(1, (-1, q))
    total = torch.zeros(len(given) // q, q, q, dtype=torch.float64, device=means.device)
    for weight, part, own in zip(joint.weights.tolist(), prediction.components, apart, strict=True):
        assert isinstance(part, Posterior)
        blocks = [part.error_covariance(here, here) for here in (slice(at, at + q) for at in range(0, len(part), q))]
        total += weight * (torch.stack(blocks) + own[:, :, None] * own[:, None, :])
    return total


class QuantitiesPrediction:
    """What is predicted of q quantities at T places; made by ``QuantitiesModel.predict``.

    ``mean``, ``median``, ``std`` and ``variance`` have shape (T, q); ``prediction["Cd"]`` or ``prediction[0]`` is the
    ``Prediction`` of one quantity. They are about the functions; ``observed()`` is about new observations. Those of
    quantities that are modelled on another scale are on their own.
    """

    def __init__(self, names: Sequence[str], each: Sequence[Prediction], between: Between | None = None) -> None:
        self.names, self.each, self._between = tuple(names), tuple(each), between

    def __repr__(self) -> str:
        return f"QuantitiesPrediction({', '.join(self.names)}: {len(self)} places)"

    def __len__(self) -> int:
        """How many places there are."""
        return len(self.each[0])

    def __getitem__(self, quantity: str | int) -> Prediction:
        if isinstance(quantity, str):
            quantity = self.names.index(choice(quantity, "the quantity", self.names))
        return self.each[quantity]

    def _columns(self, of: Callable[[Prediction], Any]) -> Any:
        """What each quantity says, side by side, shape (T, q, …)."""
        found = [of(each) for each in self.each]
        return torch.stack(found, dim=1) if isinstance(found[0], torch.Tensor) else np.stack(found, axis=1)

    @property
    def mean(self) -> Any:
        """The predicted values, shape (T, q)."""
        return self._columns(lambda each: each.mean)

    @property
    def median(self) -> Any:
        """The medians, shape (T, q)."""
        return self._columns(lambda each: each.median)

    @property
    def std(self) -> Any:
        """The standard deviations of the errors, shape (T, q)."""
        return self._columns(lambda each: each.std)

    @property
    def variance(self) -> Any:
        """Their squares, shape (T, q)."""
        return self._columns(lambda each: each.variance)

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
