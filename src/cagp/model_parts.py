"""What a model is made of: components with their weights, margins, a transform and a story."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np
import torch

from .errors import InputError
from .posterior import Posterior, stacked
from .predicting.beyond import ends_of
from .predicting.conditioned import Conditioned
from .predicting.distributions import reach_of
from .predicting.recipe import Recipe
from .predicting.status import Status, joint_status
from .predicting.trend import EstimatedTrend
from .prediction import Guarantee, Prediction, guarantee_of
from .recalibration import Margins, PlacedMargins
from .solvers import Prepared
from .story import Story, Tried
from .support.convert import Output
from .support.coordinate_systems import require_known_system
from .support.encodings import Encoding
from .support.frames import features_of
from .support.threads import threads_for
from .support.validation import ArrayLike, points, targets
from .transforms import Transform

_VALUE = 30  # operations in a value of a kernel


class ModelParts:
    """Components with weights, margins, a transform and a story; ``Model`` says what they are and what they can do."""

    def __init__(
        self,
        components: Sequence[Conditioned],
        weights: ArrayLike = (1.0,),
        *,
        margins: Margins | None = None,
        transform: Transform | None = None,
        limited: bool = False,
        story: Story | None = None,
        result: Any = None,
        column_names: list[str] | None = None,
        encodings: tuple[Encoding, ...] = (),
        crs: str | None = None,
        target_name: str | None = None,
        about: Any = None,
        quantity: int | None = None,
    ) -> None:
        share = np.asarray(weights, dtype=np.float64)
        if share.shape != (len(components),) or not len(components):
            raise InputError(f"weights must be one for each of {len(components)} components, got shape {share.shape}")
        if not (share > 0).all() or not np.isclose(share.sum(), 1.0):
            raise InputError(f"weights must be positive, with the sum 1, got {share}")
        if quantity is not None:
            own = np.flatnonzero(components[0].recipe.X[:, -1] == quantity)
            components = [each.judged_by(own) for each in components]
        order = np.argsort(-share, kind="stable")
        self.components = tuple(components[i] for i in order)
        self.weights = share[order]
        self.margins, self.transform, self.limited = margins, transform, limited
        self.record, self.result, self.crs, self.target_name = story, result, crs, target_name
        self.column_names, self.encodings = column_names, encodings  # of the features, where they have names
        self.about = about
        heaviest = self.components[0]
        self.prior, self.solver, self.device = heaviest.prior, heaviest.solver, heaviest.device
        self.gram, self.X, self.quantity = heaviest.gram, heaviest.X, quantity
        if quantity is not None:
            self.X = self.X[own, :-1]

    def replace(self, **parts: Any) -> Self:
        """The same model with other ``parts``: ``model.replace(margins=None)`` has the error bars of its priors.

        They are ``components``, ``weights``, ``margins``, ``transform``, ``limited``, ``story`` and ``result``; and
        ``quantity``, of which a model of points (x, i) is then: it takes places x, and its data are those of i.
        """
        if self.quantity is not None and parts.get("quantity", self.quantity) is None:  # about all of them
            parts["components"] = [each.judged_by(None) for each in parts.get("components", self.components)]
        names: tuple[str, ...] = ("components", "weights", "margins", "transform", "limited", "result", "quantity")
        names += ("column_names", "encodings", "crs", "target_name", "about")
        own = {name: getattr(self, name) for name in names}
        return type(self)(**{**own, "story": self.record, **parts})

    def __repr__(self) -> str:
        first, d = self.components[0], len(self.components[0].recipe.y)
        picked = f" → {first.picked!r}" if first.picked else ""
        what = [repr(first.prior), f"{d:,} observations", f"solver={first.solver!r}{picked}"]
        if len(self.components) > 1:
            what[0] = f"mixture of {len(self.components)} priors, the heaviest {what[0]}"
        what += [each.in_words for each in (self.margins, self.transform) if each is not None]
        return f"Model({', '.join(what)})"

    def __str__(self) -> str:
        return self.story or repr(self)

    @property
    def recipe(self) -> Recipe:
        """What it takes to make the heaviest component again."""
        return self.components[0].recipe

    @property
    def prepared(self) -> Prepared:
        """The solver of the heaviest component, which has seen the training points."""
        return self.components[0].prepared

    @property
    def size(self) -> int:
        """How many observations predict."""
        return len(self.recipe.y)

    @property
    def y(self) -> torch.Tensor:
        """The observations (d,), in float64, on their own scale; the model's own, not to be changed."""
        y = self.components[0].y if self.quantity is None else self.components[0].y[self.recipe.judging]
        return y if self.transform is None else self.transform.inverse(y)

    @property
    def trend(self) -> EstimatedTrend | None:
        """The estimated coefficients of an unknown mean, with their covariance; None where the mean is known.

        Of the heaviest component, on the scale that was modelled, by its solver or from some of the training points.
        """
        return self.components[0].trend

    @property
    def reach(self) -> tuple[float, float] | None:
        """How far the means of a transform look on the scale that was modelled; None for all the way.

        The tails of what was learned or chosen are an assumption, which a transform multiplies.
        """
        if self.transform is None or not self.limited or (self.margins is None and self.record is None):
            return None
        return reach_of(self.components[0], self.transform)

    @cached_property
    def ends(self) -> tuple[torch.Tensor, torch.Tensor] | None:
        """How far rows may lie along each column, (p,) and (p,), before that is told; None for all the way."""
        return ends_of(self)

    @property
    def story(self) -> str:
        """What was tried, chosen and found, in words; empty where the model was made by hand."""
        return "" if self.record is None else str(self.record)

    @property
    def candidates(self) -> tuple[Tried, ...]:
        """What ``cagp.fit`` has tried, with left-out scores."""
        return () if self.record is None else self.record.candidates

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended the search: this is the best so far, and its error bars were not judged."""
        return self.record is not None and self.record.interrupted

    @property
    def guarantee(self) -> Guarantee:
        """When the error bars of its predictions hold."""
        if self.margins is not None:
            return self.margins.guarantee
        learned = any(each.prior.mean.learned for each in self.components)
        return guarantee_of(self.solver, len(self.components), len(self.prior.outliers), learned)

    @property
    def of_fields(self) -> Self:
        """The same with the margins that are about whole fields, and so about averages."""
        margins = None if self.margins is None else self.margins.of_fields
        return self if margins is self.margins else self.replace(margins=margins)

    def new_noise(self, X: torch.Tensor) -> torch.Tensor | None:
        """The noise variance of new observations at X (T, p) by each component, (m, 1) or (m, T); None if unknown."""
        each = [component.prior.new_noise(X) for component in self.components]
        if any(noise is None for noise in each):
            return None
        if not any(np.ndim(noise) for noise in each):
            return torch.tensor([float(noise) for noise in each], dtype=torch.float64, device=X.device)[:, None]
        columns = [torch.as_tensor(noise, dtype=torch.float64, device=X.device).reshape(-1) for noise in each]
        widest = max(len(column) for column in columns)
        return torch.stack([column.expand(widest) for column in columns])

    def places(self, X_test: ArrayLike, name: str = "X_test") -> torch.Tensor:
        """X_test (T, p), checked, on the device of the model."""
        require_known_system(X_test, name, self.crs, self.column_names)
        given = features_of(X_test, name, self.column_names, self.encodings)
        return points(given, name, self.device, columns=self.X.shape[1])

    def test_points(self, X_test: ArrayLike, name: str = "X_test") -> tuple[torch.Tensor, Output]:
        """X_test (T, p), as the components take it; and how results go out: as X_test came in."""
        test = self.places(X_test, name)
        if self.quantity is not None:
            test = torch.cat([test, test.new_full((len(test), 1), self.quantity)], dim=1)
        return test, Output.like(X_test)

    def _modelled(self, y: torch.Tensor, name: str = "y") -> torch.Tensor:
        """Observations y (n,) on the scale that was modelled."""
        return y if self.transform is None else self.transform.of(y, name)

    def _calibration(self, given: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """Observations that the model has not seen: X (n, p) and what was modelled of y (n,)."""
        try:
            X, y = given
        except (TypeError, ValueError):
            raise InputError(f"calibration must be a pair (X, y), got {type(given).__name__}") from None
        test = self.places(X, "calibration[0]")
        return test, self._modelled(targets(y, len(test), self.device, "calibration[1]"), "calibration[1]")

    def _threads(self, points: int = 0) -> threads_for:
        """As many threads as covariances of all data, and of so many further ``points``, are worth for one part."""
        size = len(self.recipe.y)
        return threads_for(self.solver.worth_threads * max(size**3, _VALUE * points * size))

    def _predicted(self, found: Sequence[Posterior], test: torch.Tensor, convert: Output) -> Prediction:
        """What the posteriors of all components say together."""
        if len(found) == 1 and self.margins is None and self.transform is None:
            return found[0]
        return self._prediction(*stacked(found), joint_status([each.status for each in found]), test, convert, found)

    def _prediction(
        self,
        means: torch.Tensor,
        variances: torch.Tensor,
        status: Status,
        test: torch.Tensor,
        convert: Output,
        components: Sequence[Posterior] = (),
        distance: torch.Tensor | None = None,
    ) -> Prediction:
        return Prediction(
            means,
            variances,
            self.weights,
            new_noise=self.new_noise(test),
            status=status,
            guarantee=self.guarantee,
            convert=convert,
            margins=None if self._placed is None else self._placed.at(test, distance),
            transform=self.transform,
            reach=self.reach,
            components=components,
        )

    @cached_property
    def _placed(self) -> PlacedMargins | None:
        return None if self.margins is None else self.margins.around(self.components[0])
