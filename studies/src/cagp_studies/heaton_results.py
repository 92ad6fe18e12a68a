"""The competition's tables: published scores beside ours, what was tried and chosen, and how to read it."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from .heaton_data import CITATION, ENVIRONMENT, REPOSITORY, SATELLITE, SIMULATED, SOURCE
from .study import Comparison, Tables

TITLES = {SIMULATED: "Simulated field", SATELLITE: "Satellite image"}

REST = "choose, judge the error bars"
"""What ``cagp.fit`` does beside fitting candidates."""

_PUBLISHED = "published (1)"
_SCRIPT = "published (1), minutes (2)"
_EARLIER = "measured here earlier on 2 cores (3)"
_BLIND = "blind (4)"

PUBLISHED: dict[str, list[tuple[str, str, str, str, str, str, str, str]]] = {
    SIMULATED: [
        ("SPDE (INLA)", "–", "0.86", "–", "–", "–", "–", _PUBLISHED),
        ("LatticeKrig", "–", "0.87", "–", "–", "–", "–", _PUBLISHED),
        ("Periodic embedding", "–", "0.91", "–", "–", "–", "–", _PUBLISHED),
        ("Gapfill", "–", "1.00", "–", "–", "–", "–", _PUBLISHED),
        ("LAGP", "–", "1.11", "–", "–", "–", "–", _PUBLISHED),
    ],
    SATELLITE: [
        ("SPDE (INLA)", "1.10", "1.53", "0.83", "8.85", "97%", "120", _SCRIPT),
        ("NNGP, conjugate", "1.21", "1.64", "0.85", "7.57", "95%", "2.1", _SCRIPT),
        ("LatticeKrig", "1.22", "1.68", "0.87", "7.55", "96%", "27.9", _SCRIPT),
        ("Periodic embedding", "1.29", "1.79", "0.91", "7.44", "93%", "–", _PUBLISHED),
        ("MRA", "1.33", "1.85", "0.94", "8.00", "92%", "15.6", _SCRIPT),
        ("LAGP", "1.65", "2.08", "1.17", "10.81", "83%", "2.3", _SCRIPT),
        ("GPBoost 1.8, Vecchia", "1.23", "1.70", "0.87", "7.39", "94%", "6.3", _EARLIER),
        ("cagp 0.2.0", "1.166", "1.558", "0.829", "7.09", "91.4%", "1.7", _BLIND),
    ],
}
"""Method, MAE, RMSE, CRPS, interval score, 95% coverage, minutes, source; a dash where we repeat no number."""

SOURCES = (
    f"(1) {CITATION}. A dash: we repeat no number here that we could not check.",
    f"(2) The organisers' script, Code/GetResults/GetResults.R ({REPOSITORY}); on their machine, with different "
    "numbers of cores for different methods, and so no ranking.",
    "(3) The likelihood of all observations maximised in 366 s, predictions in 9 s; not part of the competition.",
    "(4) Scored by others, with the defaults, before anybody who worked on cagp had these data.",
)

TRUTH = ("the truth", "Matern12(lengthscale=1.333, variance=16.41)", "Constant(44.49)", "0.05")
"""What the organisers' script Code/FormatData/FormatData.R draws the simulated field from."""


def comparisons(own: Tables) -> list[Comparison]:
    """The tables of one of the fields."""
    return [scores(own), candidates(own), model(own)]


def thinned_in_words(every: int) -> str:
    """Which part of the field was taken, in words."""
    return "all points" if every == 1 else f"one row and column in {every}"


def scores(own: Tables) -> Comparison:
    """Published scores and ours, the best RMSE first."""
    facts = own["table"].iloc[0]
    whole = facts.every == 1
    cores = f"measured here on {facts.threads} core{'s' if facts.threads > 1 else ''}"
    cores += ", with the file at hand" if facts.data == SATELLITE else ""
    name = "cagp.fit" if whole else f"cagp.fit, QUICK: {thinned_in_words(facts.every)}"
    minutes = f"{(facts.fit_seconds + facts.predict_seconds) / 60:.1f}"
    rows = [*PUBLISHED[facts.data], (name, *_numbers(facts), minutes, cores)]
    if "oracle" in own:
        known = _numbers(own["oracle"].iloc[0])
        rows.append(("kriging with the true parameters", *known, "–", "measured here; out of reach for a competitor"))
    rows.sort(key=lambda row: float(row[2]))
    caption = f"{TITLES[facts.data]}: {facts.train:,} observations, scored at {facts.scored:,} places in the gaps"
    if not whole:
        caption = (
            f"NOT THE COMPETITION: {thinned_in_words(facts.every)}, which is another and harder task. The published "
            f"rows are about the whole data and not comparable. {caption}"
        )
    return Comparison(
        caption,
        ["method", "MAE", "RMSE", "CRPS", "95% interval score", "95% intervals hold", "minutes", "source"],
        rows,
    )


def _numbers(row: pd.Series) -> tuple[str, ...]:
    """MAE, RMSE, CRPS, interval score and coverage."""
    point = (f"{each:.3f}" for each in (row.mae, row.rmse, row.crps))
    return (*point, f"{row.interval_score:.2f}", f"{row.holds_95:.1%}")


def candidates(own: Tables) -> Comparison:
    """What was tried, the best first."""
    rows = [
        [
            each.name_,
            f"{each.crps:.4f}",
            f"{each.log_score:.3f}",
            f"{each.seconds:.1f}",
            f"{each.weight:.2f}" if each.weight else "–",
        ]
        for each in own["candidates"].rename(columns={"name": "name_"}).sort_values("crps").itertuples()
    ]
    return Comparison(
        f"{TITLES[own['table'].iloc[0].data]}: the candidates of cagp.fit, judged by observations that were left out "
        "together with gaps as wide as those to be predicted; no test value is in these numbers",
        ["kernel and trend", "left-out CRPS", "left-out log score", "seconds", "weight"],
        rows,
    )


_SHOWN = 5


def model(own: Tables) -> Comparison:
    """What predicts: kernels, trends and noise with their fitted values."""
    name, parts = own["table"].iloc[0].data, own["model"]
    rows: list[Sequence[str]] = [
        [f"{each.weight:.2f}", each.kernel, each.trend, str(each.noise)] for each in parts.head(_SHOWN).itertuples()
    ]
    if len(parts) > _SHOWN:
        weight = parts["weight"].iloc[_SHOWN:].sum()
        rows.append([f"{weight:.2f}", f"{len(parts) - _SHOWN} more, see heaton/model.csv", "–", "–"])
    if name == SIMULATED:
        rows.append(TRUTH)
    told = " The last row is what the field was drawn from, which the fit was not told." if name == SIMULATED else ""
    return Comparison(
        f"{TITLES[name]}: what predicts, with the fitted hyperparameters; lengthscales (longitude, latitude) in "
        f"degrees, variances in °C².{told}",
        ["weight", "kernel", "trend", "noise variance"],
        rows,
    )


def remarks(own: Tables) -> list[str]:
    """What is to be said of one field."""
    facts, title = own["table"].iloc[0], TITLES[own["table"].iloc[0].data]
    told = [line for line in own["story"]["told"] if not line.startswith("  ")]
    nobody = facts.gaps - facts.scored
    unknown = f" At {nobody:,} more the truth is not known; they are predicted and not scored." if nobody else ""
    return [
        f"{title}: {facts.train:,} observations were given and {facts.gaps:,} places predicted, {facts.scored:,} of "
        f"them scored.{unknown} 50% intervals hold {facts.holds_50:.1%}, 95% intervals {facts.holds_95:.1%}. Scored as "
        f"the competition did, as normal predictions with the same means and standard deviations: CRPS "
        f"{facts.normal_crps:.3f}, interval score {facts.normal_interval_score:.2f}, 95% intervals hold "
        f"{facts.normal_holds_95:.1%}. The fit took {facts.fit_seconds:.0f} s, the predictions "
        f"{facts.predict_seconds:.0f} s.",
        f"{title}, as cagp.fit told it: {' '.join(told)}",
    ]


def general_remarks(table: pd.DataFrame) -> list[str]:
    """What is to be said of all of it."""
    every = int(table["every"].iloc[0])
    found = []
    if every > 1:
        found.append(
            f"QUICK: {thinned_in_words(every)}. What lies between is lost, so that errors are larger than in the "
            "competition. No number of this run is one of the competition; --scale paper gives those."
        )
    found += [
        "One function fits and predicts, and gets longitude, latitude and temperature where it was seen, and longitude "
        "and latitude in the gaps; another one, which gets the test values, scores. cagp.fit has no options here but "
        "where predictions are wanted.",
        "The interval score is that of the central 95% interval (Gneiting and Raftery 2007), as in the competition. "
        "The competition took every prediction as normal, with the mean and the standard deviation that a method gave "
        "or its interval implied; our row scores the distributions as predicted, and what the competition's formulas "
        "give is said below.",
        "Minutes are those of the fit with all candidates and of the prediction; reading the data and scoring are not "
        "in them. The published ones were measured on other machines, years ago: they are no ranking.",
        *SOURCES,
    ]
    if SATELLITE not in set(table["data"]):
        found.append(
            "The satellite data of the same competition were not found. With AllSatelliteTemps (.RData, .csv or "
            f".parquet; {SOURCE}) in the folder CAGP_DATA, or named in {ENVIRONMENT}, the same command takes them as "
            "well."
        )
    return found
