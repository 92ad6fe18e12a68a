"""The last steps of ``cagp fit``: the search for hyperparameters, and what it found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..prior import Prior
from ..support.interrupt import Interrupt
from ..support.validation import choice
from .shared import IN_OPTIONS, Voice
from .starting import Training, near_by, sample

if TYPE_CHECKING:
    from ..hyperparameters import FitResult

_LIKELIHOODS = ("auto", "exact", "nearest-neighbours")


@dataclass(frozen=True)
class Search:
    """The options that say how the hyperparameters are found."""

    likelihood: str
    subset: int | None
    restarts: int | None
    fix: list[str]
    seed: int

    def __post_init__(self) -> None:
        choice(self.likelihood, "--likelihood", _LIKELIHOODS)

    def run(self, prior: Prior, training: Training, fixed: list[str], voice: Voice) -> tuple[FitResult, bool]:
        """The fit, and whether Ctrl-C ended it early."""
        from .. import hyperparameters

        rows = None
        if self.likelihood != "nearest-neighbours" or self.subset is not None:
            rows = sample(near_by(prior.kernel, training.X), self.subset, self.seed)
        with Interrupt() as interrupt:
            size, n = len(training.y) if rows is None else len(rows), len(training.y)
            kind = "exact" if self.likelihood == "auto" else self.likelihood
            some = f"all {n:,} observations."
            if rows is not None:
                some = (
                    f"{size:,} of the {n:,} observations, half at random, half in patches; --subset takes more, "
                    "--likelihood nearest-neighbours takes all."
                )
            voice(f"Fitting the hyperparameters by the {kind} likelihood of {some}")
            result = hyperparameters.fit(
                prior,
                training.X,
                training.y,
                likelihood=kind,
                subset=rows,
                fix=[*fixed, *self.fix],
                n_restarts=(2 if size <= 500 else 0) if self.restarts is None else self.restarts,
                seed=self.seed,
                progress=voice.progress,
            )
        return result, interrupt.requested


def printed(result: FitResult, columns: list[str], stopped: bool, voice: Voice) -> None:
    """Print what the search found, and what needs a look."""
    errors = result.standard_errors or {}
    owners = {f"kernel.lengthscale[{i}]": column for i, column in enumerate(columns)}
    rows = []
    for name, value in result.values.items():
        error = errors.get(name)
        rows.append((name, owners.get(name, ""), f"{value:.6g}", "" if error is None else f"± {error:.2g}"))
    voice.table(("hyperparameter", "of", "value", "standard error"), rows)
    voice(f"log p = {result.log_likelihood:.6g}. {result.story}")
    for advice in result.advice:
        if not (stopped and advice.kind == "not converged"):  # that it was interrupted is said at the end
            voice(f"Warning: {advice.worded(IN_OPTIONS)}")
