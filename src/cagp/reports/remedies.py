"""What to do about error bars that are wrong: which remedy fits, whether it was tried here, and what it gave."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..recalibration.diagnosis import Diagnosis
from ..solvers import NearestNeighbours, Solver
from ..support.numbers import coverage_percent, number
from .refits import working
from .unseen import Unseen

if TYPE_CHECKING:
    from ..model import Model

COMMANDS = "`cagp fit … --recalibrate`, in Python model.recalibrated()"


def remedies_for_data(unseen: Unseen, model: Model) -> list[str]:
    """What to do where the model does not fit the data, or may not, most likely remedy first; ``model`` is plain."""
    diagnosis = unseen.judged.diagnosis
    if diagnosis.state == "right":
        return []
    said = []
    if diagnosis.suspicious:
        said.append(
            "Check with more rows: of models that are right, about one in twenty looks like this by chance. If more "
            "rows confirm it, what follows is the most likely remedy."
        )
    if "too wide" in diagnosis.failures and not model.solver.calibrated:
        said.append(_uncalibrated(model.solver))
    if not unseen.layered:
        said.append(f"Recalibrate: {COMMANDS}. {trial(unseen)}")
    for failure in (*diagnosis.failures, *diagnosis.signs):
        said += _REMEDIES[failure]
    if unseen.recalibrated is None and "too narrow" in diagnosis.failures:
        said.append(
            f"Until then, multiply the standard deviations by {number(diagnosis.spread, 2)} to get error bars that "
            "are about right on average."
        )
    return said + _other_models(model)


def trial(unseen: Unseen, opening: str = "Tried here, and it") -> str:
    """What became of the recalibration of a plain model, in a sentence or two that begin so."""
    found = unseen.recalibrated
    if found is None:
        return unseen.how
    held = {c.level: coverage_percent(c.found) for c in found.diagnosis.coverage}
    hold = f"50, 80 and 95% intervals then hold {held[0.5]}, {held[0.8]} and {held[0.95]}"
    before, after = unseen.plain.scores.crps, found.scores.crps
    change = f"the CRPS is {100 * abs(after / before - 1):.0f}% {'smaller' if after < before else 'larger'}"
    if round(100 * abs(after / before - 1)) == 0:
        change = "the CRPS stays the same"
    if found.diagnosis.right:
        return f"{opening} mends the error bars: {hold}, and {change}."
    other = "a trend or another kernel" if "biased" in found.diagnosis.failures else "another kernel or a trend"
    return (
        f"{opening} does not mend all of it: {hold}, and {change}; still, {found.diagnosis.sentence}. What is left "
        f"asks for {other}, which were not tried here."
    )


def _other_models(model: Model) -> list[str]:
    """What would change the predictions too, which no recalibration does."""
    said = [
        "Another kernel can make the predictions better as well as their error bars. Not tried here; a model that "
        "cagp.fit chose has been compared with others, and its story says with which."
    ]
    if model.basis is None:
        said.append(
            "So can a trend with unknown coefficients: `cagp fit … --mean linear`, in Python Polynomial(1). Not tried "
            "here."
        )
    solver = working(model)
    if isinstance(solver, NearestNeighbours) and not solver.is_exact(len(model.y)):
        said.append(
            f"More neighbours than {solver.k} make the solver more exact; that helps predictions, and hardly error "
            "bars that are wrong on the data. Not tried here."
        )
    return said


_REMEDIES = {
    "too narrow": [
        "Fit the hyperparameters again with the noise free (not fix_noise), on more data, or with more restarts: too "
        "small a noise_variance or too long a lengthscale makes error bars too narrow. A rougher kernel (Matern32 or "
        "Matern12 instead of RBF) or one lengthscale per column may fit. Not tried here.",
        "Look for structure that the kernel does not have: a missing input, a trend, noise that changes from place to "
        "place (noise_variance may be one number per observation).",
    ],
    "too wide": [
        "Fit the hyperparameters again: a noise_variance that is too large or a lengthscale that is too short makes "
        "error bars too wide. Not tried here.",
        "If the solver has not converged, part of the width is computational: the report of the fit says how much, "
        "and more iterations remove it.",
    ],
    "biased": [
        "Give the prior a mean with unknown coefficients: Constant(), or Polynomial for a trend. Not tried here.",
        "Check that the held-out data come from the same place, time and instrument as the training data.",
    ],
    "heavy tails": [
        "Look at the observations with the largest |z|: outliers, typing errors, a second regime.",
        "If they are genuine, predict a transformed target (its logarithm, for counts its square root), or give each "
        "observation its own noise variance. Not tried here.",
    ],
    "wrong shape": [
        "Compare the histogram of z with the normal curve: two humps are two regimes, a slope is a skewed target.",
        "A transformed target (its logarithm or square root) often has errors of a more normal shape. Not tried here.",
    ],
}


def remedies_for_method(diagnosis: Diagnosis, solver: Solver) -> list[str]:
    """What to do where the method is not calibrated under its own prior, or may not be."""
    if diagnosis.right and not diagnosis.suspicious:
        return []
    if not solver.calibrated:
        return [_uncalibrated(solver)]
    if diagnosis.suspicious:
        return [
            "Check again with another seed: of methods that are right, about one in twenty looks like this by chance. "
            f"{type(solver).__name__} should be calibrated by construction."
        ]
    return [
        f"{type(solver).__name__} should be calibrated by construction. If it is your own solver, its weights depend "
        "on y or it misreports its variances; if it is one of cagp's, this is a bug worth reporting.",
    ]


def _uncalibrated(solver: Solver) -> str:
    return (
        f"{type(solver).__name__} takes its directions from y, so its error bars are not calibrated, usually too wide. "
        "CalibratedCG or GaussSeidel cost about the same and are."
    )
