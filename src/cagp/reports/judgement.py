"""The section that both reports have: what held-out data say about the error bars, and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..solvers import Solver
from . import pictures
from .diagnosis import Diagnosis
from .held_out import HeldOut
from .kernel_words import hyperparameters
from .names import Names
from .numbers import coverage_percent, datum, number, with_unit
from .page import Folder, Table
from .refits import array

if TYPE_CHECKING:
    from ..model import Model

_COLUMNS = 10
"""More columns make a table that nobody can read."""

_ROWS = 10


def judged(model: Model, held_out: HeldOut, names: Names, place: Folder) -> dict[str, Any]:
    """What a template needs to show how a model does on held-out data."""
    found = held_out.diagnosis
    content = pictures.calibration(held_out, names)
    caption = (
        f"{held_out.short.capitalize()}: the grey bands hold what chance does to error bars that are right, 95% of the "
        "time, everywhere at once, if the errors are independent."
    )
    return {
        "state": found.state,
        "sentence": " ".join([announced(found), *found.notes]),
        "how": held_out.how,
        "picture": content and place.picture("calibration", content, caption),
        "tables": [
            coverage_table(found, f"Coverage, {held_out.short}.", "coverage"),
            _scores_table(held_out, names),
            _points_table(held_out, names, _most_relevant(model, names)),
        ],
        "advice": remedies_for_data(found, model),
    }


def announced(found: Diagnosis, *, start: bool = True) -> str:
    """What was found as a whole sentence, with a capital where one starts."""
    sentence = f"suspicious: {found.sentence}." if found.suspicious else f"{found.sentence}."
    return f"{sentence[:1].upper()}{sentence[1:]}" if start else sentence


# --- tables -----------------------------------------------------------------------------------------------------------


def coverage_table(diagnosis: Diagnosis, caption: str, name: str) -> Table:
    """Promised and found coverage, with what chance allows at all levels together."""
    rows = [
        (
            f"{100 * c.level:g}%",
            coverage_percent(c.found),
            f"{coverage_percent(c.lower)} to {coverage_percent(c.upper)}",
            "yes" if c.inside else ("no, too few" if c.found < c.level else "no, too many"),
        )
        for c in diagnosis.coverage
    ]
    return Table(caption, ("interval", "holds", "by chance, if right", "within chance"), rows, name)


def _scores_table(held_out: HeldOut, names: Names) -> Table:
    """Accuracy, proper scores and z-values, in words."""
    scores, unit = held_out.scores, names.target_unit
    spread = float(np.std(held_out.truth))
    rows = [
        ("points", f"{len(held_out):,}", ""),
        ("RMSE", with_unit(number(scores.rmse), unit), "typical size of an error"),
        ("spread of the observations", with_unit(number(spread), unit), "the RMSE of predicting their average"),
        ("CRPS", with_unit(number(scores.crps), unit), "proper score, in the unit of the target; smaller is better"),
        ("NLL (log score)", number(scores.nll), "proper score; smaller is better"),
        ("width of the 95% interval", with_unit(number(scores.sharpness), unit), "average"),
        ("mean of z", number(float(scores.z.mean()), 2), "0 if right; z = error / predicted standard deviation"),
    ]
    if len(held_out) > 1:
        rows.append(
            ("spread of z", number(float(scores.z.std(ddof=1))), "1 if right; above: too narrow, below: too wide")
        )
    return Table(f"Scores, {held_out.short}.", ("score", "value", "meaning"), rows, "scores")


def _points_table(held_out: HeldOut, names: Names, columns: Sequence[int]) -> Table:
    """The held-out observations one by one, those with the largest |z| first: their row, these columns, and z."""
    scores, unit = held_out.scores, names.target_unit
    order = np.argsort(-np.abs(scores.z), kind="stable")[:_ROWS]
    rows = [
        (
            str(held_out.rows[i]),
            *(datum(float(held_out.X[i, c])) for c in columns),
            with_unit(datum(float(held_out.truth[i])), unit),
            f"{number(float(held_out.mean[i]), 4)} ± {with_unit(number(1.96 * float(held_out.std[i]), 2), unit)}",
            number(float(scores.z[i]), 2),
        )
        for i in order
    ]
    which = "observations with the largest |z|" if len(order) < len(held_out) else "observations"
    caption = f"The {which}. Row: the position in the {held_out.rows_of}, the first is 0 (after the header of a file)."
    if len(columns) < held_out.X.shape[1]:
        caption += f" Of {held_out.X.shape[1]} columns, the {len(columns)} that matter most to the kernel are shown."
    narrow = names.narrow()
    heads = ("row", *(narrow[c] for c in columns), "observed", "predicted, 95%", "z")
    return Table(caption, heads, rows, "points", headed=False)


def _most_relevant(model: Model, names: Names) -> list[int]:
    """All columns where a table has room for them, else the most relevant, in their own order.

    A column is relevant by its spread in units of its own lengthscale, or by its spread alone where no column has one.
    """
    spread = array(model.X.std(dim=0, correction=0))
    if len(spread) <= _COLUMNS:
        return list(range(len(spread)))
    own = np.zeros(len(spread))
    for parameter in hyperparameters(model.prior, names):
        if parameter.kind == "lengthscale" and parameter.column is not None:
            own[parameter.column] = max(own[parameter.column], spread[parameter.column] / parameter.value)
    relevance = own if own.any() else spread
    return sorted(np.argsort(-relevance, kind="stable")[:_COLUMNS].tolist())


# --- remedies ---------------------------------------------------------------------------------------------------------


def remedies_for_data(diagnosis: Diagnosis, model: Model) -> list[str]:
    """What to do where the model does not fit the data, or may not, most likely remedy first."""
    said = []
    if diagnosis.suspicious:
        said.append(
            "Check with more rows: of models that are right, about one in twenty looks like this by chance. If more "
            "rows confirm it, what follows is the most likely remedy."
        )
    for failure in (*diagnosis.failures, *diagnosis.signs):
        said += _REMEDIES[failure]
    if "too narrow" in diagnosis.failures:
        said.append(
            f"Until then, multiply the standard deviations by {number(diagnosis.spread, 2)} to get error bars that "
            "are about right on average."
        )
    if "too wide" in diagnosis.failures and not model.solver.calibrated:
        said.insert(0, _uncalibrated(model.solver))
    return said


_REMEDIES = {
    "too narrow": [
        "Fit the hyperparameters again with the noise free (not fix_noise), on more data, or with more restarts: too "
        "small a noise_variance or too long a lengthscale makes error bars too narrow.",
        "Try a rougher kernel (Matern32 or Matern12 instead of RBF) or one lengthscale per column.",
        "Look for structure that the kernel does not have: a missing input, a trend, noise that changes from place to "
        "place (noise_variance may be one number per observation).",
    ],
    "too wide": [
        "Fit the hyperparameters again: a noise_variance that is too large or a lengthscale that is too short makes "
        "error bars too wide.",
        "If the solver has not converged, part of the width is computational: the report of the fit says how much, "
        "and more iterations remove it.",
    ],
    "biased": [
        "Give the prior a mean with unknown coefficients: Constant(), or Polynomial for a trend.",
        "Check that the held-out data come from the same place, time and instrument as the training data.",
    ],
    "heavy tails": [
        "Look at the observations with the largest |z|: outliers, typing errors, a second regime.",
        "If they are genuine, predict a transformed target (its logarithm, for counts its square root), or give each "
        "observation its own noise variance.",
        "Intervals of moderate level are then more trustworthy than those of 99%.",
    ],
    "wrong shape": [
        "Compare the histogram of z with the normal curve: two humps are two regimes, a slope is a skewed target.",
        "A transformed target (its logarithm or square root) often has errors of a more normal shape.",
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
