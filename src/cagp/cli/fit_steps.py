"""The steps of ``cagp fit``: where it is to predict, the search for a model, and what it found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..choosing import fit
from ..choosing.judging import judged, recalibration_wanted
from ..errors import InputError
from ..kernels import Rotated
from ..mixtures import FittedModel
from ..support.validation import choice
from ..transforms import KINDS
from .shared import IN_OPTIONS, Voice
from .starting import PriorAsked, Training

if TYPE_CHECKING:
    from ..hyperparameters import FitResult
    from ..model import Model
    from ..recalibration import LayeredModel
    from ..solvers import Solver

_LIKELIHOODS = ("auto", "exact", "nearest-neighbours")


@dataclass(frozen=True)
class Search:
    """The options that say how the model is found; ``recalibrate`` is None where the error bars are to be judged."""

    likelihood: str
    subset: int | None
    restarts: int | None
    fix: list[str]
    mixture: bool
    uncertainty: bool | None
    recalibrate: bool | None
    transform: str
    varying: bool | None
    seed: int

    def __post_init__(self) -> None:
        choice(self.likelihood, "--likelihood", _LIKELIHOODS)
        choice(self.transform, "--transform", ("auto", "none", *KINDS))

    def require_no_transform(self) -> None:
        """Refuse a transform of values that are taken as they are."""
        if self.transform not in ("auto", "none"):
            raise InputError(f"--transform {self.transform} is for a fit; leave --no-fit out, or transform the table")

    @property
    def _bars(self) -> bool | str:
        return "auto" if self.recalibrate is None else self.recalibrate

    def check(self, n: int) -> None:
        """Refuse what n observations do not allow, before work is done."""
        if self.subset is not None and self.subset > n:
            raise InputError(f"--subset must be between 2 and the number of rows, {n}; got {self.subset}")
        if self.recalibrate:
            try:
                recalibration_wanted(True, n)
            except InputError as error:
                raise InputError(str(error).replace("recalibrate=True", "--recalibrate")) from None

    def run(
        self, wished: PriorAsked, training: Training, solver: Solver | str, like: np.ndarray | None, voice: Voice
    ) -> FittedModel:
        """The model that ``cagp.fit`` finds."""
        told = wished.for_fit(training)
        options: dict[str, Any] = {"fix": (*told.pop("fix"), *self.fix)}
        if self.subset is not None:
            options["subset"] = self.subset
        if self.restarts is not None:
            options["n_restarts"] = self.restarts
        return fit(
            training.X,
            training.y,
            like=like,
            solver=solver,
            likelihood=self.likelihood,
            mixture=self.mixture,
            uncertainty="auto" if self.uncertainty is None else self.uncertainty,
            recalibrate=self._bars,
            transform=None if self.transform == "none" else self.transform,
            varying="auto" if self.varying is None else self.varying,
            fit_options=options,
            seed=self.seed,
            progress=voice.progress,
            **told,
        )

    def judge(self, model: Model, like: np.ndarray | None, voice: Voice) -> tuple[Model | LayeredModel, str]:
        """A model that was not fitted, with error bars that hold, and what was found, which is said, too."""
        found = judged(model, like, self._bars, self.seed, voice.progress)
        voice(found.found)
        return found.model, found.found


def printed(result: FitResult, columns: list[str], stopped: bool, voice: Voice) -> None:
    """Print the hyperparameters that the search found, and what needs a look."""
    errors = result.standard_errors or {}
    owners: dict[str, str] = {}
    for part in result.prior.kernel.walk(range(len(columns))):
        owners |= {f"{part.path}.lengthscale[{i}]": columns[column] for i, column in enumerate(part.columns)}
        for field in part.kernel.angles:
            owners |= {f"{part.path}.{field}{place}": "degrees" for place in ("", "[0]", "[1]", "[2]")}
        if part.coordinate == Rotated.coordinate_called:
            owners |= {f"{part.path}.lengthscale[{i}]": f"axis {i + 1}" for i in range(3)}
    rows = []
    for name, value in result.values.items():
        error = errors.get(name)
        rows.append((name, owners.get(name, ""), f"{value:.6g}", "" if error is None else f"± {error:.2g}"))
    voice.table(("hyperparameter", "of", "value", "standard error"), rows)
    flat = [advice.subject for advice in result.advice if advice.kind == "flat"]
    for advice in result.advice:
        interrupted = stopped and advice.kind == "not converged"  # that it was is said at the end
        if not interrupted and advice.kind != "flat":
            voice(f"Warning: {advice.worded(IN_OPTIONS)}")
    if flat:
        which = flat[0] if len(flat) == 1 else f"{', '.join(flat[:-1])} and {flat[-1]}"
        voice(
            f"The likelihood is flat in {which}: the data hardly determine {'it' if len(flat) == 1 else 'them'}, and "
            "predictions hardly depend on it. Nothing needs to be done; --fix holds a value that you know."
        )
