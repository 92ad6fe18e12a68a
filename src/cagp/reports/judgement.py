"""The section that both reports have: what held-out data say about the error bars, and what to do about it."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..means import Constant
from ..model import Model
from ..recalibration.diagnosis import Diagnosis
from ..solvers import NearestNeighbours, Solver
from ..support.convert import array
from ..support.numbers import coverage_percent, datum, number, shortened, with_unit
from . import by_place
from .by_place import LEVELS, MAPPED, WORDS, divisions
from .held_out import BeforeAndAfter, HeldOut
from .inputs import ReportInputs, working
from .maps import map_of
from .names import Names, hyperparameters
from .page import Folder, PageTable

_COLUMNS = 10  # more columns make a table that nobody can read
_ROWS = 10


def judgement(found: Diagnosis, **rest: Any) -> dict[str, Any]:
    """What the template of a judgement needs: what was found, and ``how``, ``advice``, ``tables`` and ``pictures``."""
    state = "unknown" if found.state == "right" and found.too_few else found.state
    return {"state": state, "sentence": " ".join([found.whole_sentence, *found.notes]), "parts": []} | rest


def judgement_on_data(found: BeforeAndAfter, given: ReportInputs, place: Folder) -> dict[str, Any]:
    """How a model does on held-out data."""
    held_out, model, names = found.judged, given.heaviest, given.names
    caption = f"{held_out.short.capitalize()}: the grey bands hold what chance does to error bars that are right, 95% "
    caption += f"of the time, everywhere at once, to {number(held_out.worth, 2)} independent values."
    content = by_place.calibration(held_out, names)
    coverage = coverage_table(held_out.diagnosis, f"Coverage, {held_out.short}.", "coverage")
    return judgement(
        held_out.diagnosis,
        how=held_out.how,
        advice=remedies_for_data(found, model, transformed=given.model.transform is not None),
        tables=[coverage, _scores_table(held_out, names), _points_table(held_out, names, _most_relevant(model, names))],
        pictures=[place.picture("calibration", content, caption)] if content else [],
        parts=[*_where(found, model, names, place), _changed(found, names, place)],
    )


def _where(found: BeforeAndAfter, model: Model, names: Names, place: Folder) -> list[dict[str, Any]]:
    """Coverage by roughness, by distance from the data and on a map, where there are enough observations."""
    divided = divisions(found.before, model.components[0], names)
    if not divided:
        return []
    caption = (
        f"The rms of {found.before.relative_is}, and how many observations lie in their 50, 80 and 95% intervals "
        "(dashed: what is promised; grey: what chance does, 95% of the time), from the least rough and nearest to the "
        "roughest and furthest."
    )
    drawn = [place.picture("by-place", by_place.quarters(found, divided), caption)]
    ground = map_of(model.prior.kernel, model.X.shape[1])
    if ground is not None and (content := by_place.coverage_map(found, ground, names)):
        caption = (
            f"How many of the observations lie in their {100 * MAPPED:g}% intervals, place by place: white is as "
            "promised, blue is more (the error bars are too wide there), red is less (too narrow), grey are places "
            "with too few observations. Chance alone makes cells of independent observations differ by about six "
            "percent points, gaps by more."
        )
        drawn.append(place.picture("coverage-map", content, caption))
    tables = [each.table(found) for each in divided]
    return [{"title": "Where they hold, and where not", "text": WORDS, "pictures": drawn, "tables": tables}]


def _changed(found: BeforeAndAfter, names: Names, place: Folder) -> dict[str, Any]:
    part: dict[str, Any] = {"title": "What a recalibration changes", "text": found.how, "pictures": [], "tables": []}
    if found.after is None:
        return part
    if found.recalibrated:
        text = f"The model is recalibrated. Without that, {found.before.diagnosis.sentence}."
    elif found.before.diagnosis.state == "right":
        text = f"Nothing needs to be mended. With a recalibration, {found.after.diagnosis.sentence}."
    else:
        text = trial(found, "A recalibration was tried, and it")
    caption = f"{found.before.short.capitalize()}, before and after the recalibration."
    return part | {
        "text": f"{text} {found.how}",
        "pictures": [place.picture("recalibration", by_place.changes(found), caption)],
        "tables": [_changes_table(found.before, found.after, names.target_unit)],
    }


def coverage_table(diagnosis: Diagnosis, caption: str, name: str) -> PageTable:
    """Promised and found coverage, with what chance allows at all levels together."""
    rows = []
    for c in diagnosis.coverage:
        found, lower, upper = map(coverage_percent, (c.found, c.lower, c.upper))
        within = "yes" if c.inside else ("no, too few" if c.found < c.level else "no, too many")
        rows.append((f"{100 * c.level:g}%", found, f"{lower} to {upper}", within))
    return PageTable(caption, ("interval", "holds", "by chance, if right", "within chance"), rows, name)


def _scores_table(held_out: HeldOut, names: Names) -> PageTable:
    scores, unit, z = held_out.scores, names.target_unit, held_out.z
    spread = float(np.std(held_out.truth))
    rows = [
        ("points", f"{len(held_out):,}", ""),
        ("RMSE", with_unit(number(scores.rmse), unit), "typical size of an error"),
        ("spread of the observations", with_unit(number(spread), unit), "the RMSE of predicting their average"),
        ("CRPS", with_unit(number(scores.crps), unit), "proper score, in the same unit; smaller is better"),
        ("NLL (log score)", number(scores.nll), "proper score; smaller is better"),
        ("width of the 95% interval", with_unit(number(scores.sharpness), unit), "average"),
        ("mean of z", number(float(z.mean()), 2), "0 if right"),
    ]
    if len(z) > 1:
        rows.append(("spread of z", number(float(z.std(ddof=1))), "1 if right; above: too narrow, below: too wide"))
    return PageTable(f"Scores, {held_out.short}. {_z_is(held_out)}", ("score", "value", "meaning"), rows, "scores")


def _z_is(held_out: HeldOut) -> str:
    """What z is on this page, in a sentence."""
    if held_out.prediction.is_normal:
        return "z is the error over the predicted standard deviation, error / std."
    return (
        "z is the normal score of the predicted probability of at most what was observed: 2 where that is 97.7%. For a "
        "normal prediction it is error / std."
    )


def _points_table(held_out: HeldOut, names: Names, columns: list[int]) -> PageTable:
    """The held-out observations one by one, those with the largest |z| first: their row, these columns, and z."""
    unit = names.target_unit
    order = np.argsort(-np.abs(held_out.z), kind="stable")
    order = order[np.sort(np.unique(held_out.rows[order], return_index=True)[1])][:_ROWS]  # who stands in twice, once
    ends = np.stack([array(held_out.prediction.mean), *map(array, held_out.prediction.interval(0.95))])
    rows = []
    for i in order:
        mean, lower, upper = (datum(float(v)) if np.isfinite(v) else number(float(v)) for v in ends[:, i])
        place = (datum(float(held_out.X[i, c])) for c in columns)
        observed, predicted = with_unit(datum(float(held_out.truth[i])), unit), with_unit(f"{lower} to {upper}", unit)
        rows.append((str(held_out.rows[i]), *place, observed, f"{mean} ({predicted})", number(float(held_out.z[i]), 2)))
    which = "observations with the largest |z|" if len(order) < len(np.unique(held_out.rows)) else "observations"
    caption = f"The {which}. Row: counted from 0 (after the header of a file) in the {held_out.rows_of}, without rows "
    caption += "that were left out for missing values."
    if len(columns) < held_out.X.shape[1]:
        caption += f" Of {held_out.X.shape[1]} columns, the {len(columns)} that matter most to the kernel are shown."
    narrow = shortened(names.features or (), 20)
    heads = ("row", *(narrow[c] for c in columns), "observed", "predicted, 95%", "z")
    return PageTable(caption, heads, rows, "points", headed=False)


def _most_relevant(model: Model, names: Names) -> list[int]:
    """The columns that a table has room for: those that spread most, in lengthscales where they have some."""
    spread = array(model.X.std(dim=0, correction=0))
    if len(spread) <= _COLUMNS:
        return list(range(len(spread)))
    own = np.zeros(len(spread))
    for each in hyperparameters(model.prior, names):
        if each.kind == "lengthscale" and each.column is not None:
            own[each.column] = max(own[each.column], spread[each.column] / each.value)
    return sorted(np.argsort(-(own if own.any() else spread), kind="stable")[:_COLUMNS].tolist())


def _changes_table(before: HeldOut, after: HeldOut, unit: str) -> PageTable:
    both = (before.scores, after.scores)
    compared = (
        ("RMSE", "rmse", unit, "the predictions are the same"),
        ("CRPS", "crps", unit, "smaller is better"),
        ("interval score, 95%", "interval_score", unit, "smaller is better"),
        ("NLL (log score)", "nll", "", "smaller is better"),
        ("width of the 95% interval", "sharpness", unit, "average"),
    )
    rows: list[tuple[str, ...]] = []
    for title, name, own, meaning in compared:
        rows.append((title, *(with_unit(number(getattr(each, name)), own) for each in both), meaning))
    spreads = (number(float(np.sqrt(np.square(each.relative).mean()))) for each in (before, after))
    rows.append((f"rms of {before.relative_is}", *spreads, "1 if right"))
    for level in LEVELS:
        shares = (coverage_percent(each.coverage(level)) for each in both)
        rows.append((f"{100 * level:g}% intervals hold", *shares, ""))
    caption, heads = "Before and after the recalibration.", ("score", "before", "after", "meaning")
    return PageTable(caption, heads, rows, "recalibration")


def remedies_for_data(found: BeforeAndAfter, model: Model, transformed: bool = False) -> list[str]:
    """What to do where a ``model``, the heaviest prior, does not fit the data or may not, most likely remedy first."""
    diagnosis = found.judged.diagnosis
    if diagnosis.state == "right":
        return []
    said = []
    mean = model.prior.mean
    has = (*((_AGAIN,) if model.record is not None else ()), *((_MEAN,) if mean.unknown or mean.learned else ()))
    if diagnosis.suspicious:
        said.append(
            "Check with more rows: of models that are right, about one in twenty looks like this by chance. If more "
            "rows confirm it, what follows is the most likely remedy."
        )
    if "too wide" in diagnosis.failures and not model.solver.calibrated:
        said.append(_uncalibrated(model.solver))
    if diagnosis.failures == ("outliers",):
        return [*said, *_REMEDIES["outliers"]]
    if not found.recalibrated:
        said.append(f"Recalibrate: `cagp fit … --recalibrate`, in Python model.recalibrated(). {trial(found)}")
    for failure in (*diagnosis.failures, *diagnosis.signs):
        said += [each for each in _REMEDIES[failure] if not each.startswith(has)]
        if failure in ("heavy tails", "wrong shape") and not transformed and model.record is None:
            said.append(_TRANSFORM)
    if found.after is None and "too narrow" in diagnosis.failures:
        factor = number(diagnosis.spread, 2)
        said.append(f"Until then, multiply the standard deviations by {factor}, which is about right on average.")
    return said + _other_models(model)


def trial(found: BeforeAndAfter, opening: str = "Tried here, and it") -> str:
    """What became of the recalibration of a model without one, in a sentence or two that begin so."""
    if found.after is None:
        return found.how
    diagnosis = found.after.diagnosis
    hold = "50, 80 and 95% intervals then hold {}, {} and {}".format(*map(diagnosis.hold, (0.5, 0.8, 0.95)))
    change = 100 * (found.after.scores.crps / found.before.scores.crps - 1)
    smaller = f"is {abs(change):.0f}% {'smaller' if change < 0 else 'larger'}"
    score = f"the CRPS {smaller if round(change) else 'stays the same'}"
    if diagnosis.right:
        return f"{opening} mends the error bars: {hold}, and {score}."
    other = "a trend or another kernel" if "biased" in diagnosis.failures else "another kernel or a trend"
    return (
        f"{opening} does not mend all of it: {hold}, and {score}; still, {diagnosis.sentence}. What is left "
        f"asks for {other}, which were not tried here."
    )


def _other_models(model: Model) -> list[str]:
    """What would change the predictions too, which no recalibration does."""
    said = ["Another kernel can make the predictions better as well as their error bars. Not tried here."]
    mean = model.prior.mean
    if model.record is None and (isinstance(mean, Constant) or not (mean.unknown or mean.learned)):
        said.append("So can a trend: `cagp fit … --mean linear`, in Python Polynomial(1). Not tried here.")
    if model.record is not None:
        several = "Other kernels and trends were compared when this model was chosen: its story says which."
        one = "Only one kernel and trend was tried when this model was chosen: more seconds, or no kernel, try others."
        said = [several if len(model.record.candidates) > 1 else one]
    solver = working(model)
    if isinstance(solver, NearestNeighbours) and not solver.description(len(model.y)).exact:
        said.append(
            f"More neighbours than {solver.k} make the solver more exact; that helps predictions, and hardly error "
            "bars that are wrong on the data. Not tried here."
        )
    return said


_TRANSFORM = (
    "A transformed target (its logarithm, for counts its square root) often has errors of a more normal shape: "
    "`cagp fit … --transform auto`, in Python cagp.fit(X, y). Not tried here."
)

_AGAIN = "Fit the hyperparameters again"  # which cagp.fit has done, with kernels of all kinds
_MEAN = "Give the prior a mean with unknown coefficients"

_REMEDIES = {
    "too narrow": [
        f"{_AGAIN} with the noise free (not fix_noise), on more data, or with more restarts: too "
        "small a noise_variance or too long a lengthscale makes error bars too narrow. A rougher kernel (Matern32 or "
        "Matern12 instead of RBF) or one lengthscale per column may fit. Not tried here.",
        "Look for structure that the kernel does not have: a missing input, a trend, noise that changes from place to "
        "place (noise_variance may be one number per observation).",
    ],
    "too wide": [
        f"{_AGAIN}: a noise_variance that is too large or a lengthscale that is too short makes "
        "error bars too wide. Not tried here.",
        "If the solver has not converged, part of the width is computational: the report of the fit says how much, "
        "and more iterations remove it.",
    ],
    "biased": [
        f"{_MEAN}: Constant(), or Polynomial for a trend. Not tried here.",
        "Check that the held-out data come from the same place, time and instrument as the training data.",
    ],
    "outliers": ["Look at the observations with the largest |z|: outliers, typing errors, a second regime."],
    "heavy tails": [
        "Look at the observations with the largest |z|: outliers, typing errors, a second regime.",
        "If they are genuine, give each observation its own noise variance. Not tried here.",
    ],
    "wrong shape": ["Compare the histogram of z with the normal curve: two humps are two regimes, a slope skewness."],
}


def remedies_for_method(diagnosis: Diagnosis, solver: Solver) -> list[str]:
    """What to do where the method is not calibrated under its own prior, or may not be."""
    if diagnosis.state == "right":
        return []
    if not solver.calibrated:
        return [_uncalibrated(solver)]
    known = f"{type(solver).__name__} should be calibrated by construction."
    if diagnosis.suspicious:
        chance = "Check again with another seed: of methods that are right, about one in twenty looks like this by "
        return [f"{chance}chance. {known}"]
    own = "If it is your own solver, its weights depend on y or it misreports its variances; if it is one of cagp's, "
    return [f"{known} {own}this is a bug worth reporting."]


def _uncalibrated(solver: Solver) -> str:
    return (
        f"{type(solver).__name__} takes its directions from y, so its error bars are not calibrated, usually too wide. "
        "CalibratedCG or GaussSeidel cost about the same and are."
    )
