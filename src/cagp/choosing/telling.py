"""How a fit came about, in words and as a table."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np

from ..hyperparameters.named import Hyperparameter, in_sentences, named, naming
from ..kernels.rotated import directions_in_words
from ..regression import CrossFitted
from ..solvers.exact import EXACT_UP_TO
from ..story import Story, Tried, table_of
from ..support import clock
from ..support.advice import all_worded
from ..support.coordinate_systems import maybe_degrees
from ..support.frames import DAYS
from ..support.interrupt import TIME_IS_UP
from ..support.numbers import shortened
from .candidates import SHORT_AND_LONG, is_short_and_long, kinds_of
from .search import CandidateSearch, FittedCandidate

_NAME = 24  # a longer name of a column is cut in sentences that have many
_SHORT = 0.05  # what took fewer seconds is not told
_COMPILED = 1.0  # nor are fewer seconds of compiling
_LISTED = 10  # so many columns are named
_FEW = 4  # a column with so few different values says nothing of how fast the function changes along it
_IDENTIFIER = re.compile(  # NO is a gas
    r"(?!NO$)(?i:(.*[\W_])?(id|fid|objectid|nr|no|num|number|code|station|stationid)\.?)"
)


def story_of(search: CandidateSearch, seconds: float) -> Story:
    """What was tried and chosen, what was found about hyperparameters and error bars, and the time that it took."""
    weights = {id(each): weight for each, weight in search.chosen}
    tried = tuple(
        Tried(_called(search, each), each.crps, float(each.scores.log_score.mean()), each.seconds, weight)
        for each in search.fits
        for weight in [weights.get(id(each), 0.0)]
    )
    sections = {
        "Data": _data(search),
        "What was tried": _tried(search, tried),
        "What was chosen": _chosen(search),
        "Error bars": _error_bars(search),
        "Time": _time(search, seconds),
    }
    text = "\n\n".join("\n".join([title, *filter(None, lines)]) for title, lines in sections.items())
    return Story(text, tried, search.interrupt.requested)


def _columns(search: CandidateSearch) -> list[str]:
    return search.request.data.names or [f"x{i}" for i in range(search.X.shape[1])]


def _called(search: CandidateSearch, found: FittedCandidate) -> str:
    """The name of a candidate; a sum is called short and long where its fit is."""
    name = found.candidate.name
    if not name.startswith(SHORT_AND_LONG) or is_short_and_long(found.prior.kernel, search.X):
        return name
    return name.replace(SHORT_AND_LONG, " + ".join(kinds_of(found.prior.kernel)), 1)


def _data(search: CandidateSearch) -> Iterable[str]:
    columns, data = shortened(_columns(search), _NAME), search.request.data
    more = f" and {len(columns) - _LISTED} more" if len(columns) > _LISTED else ""
    one = "column" if len(columns) == 1 else "columns"
    several = "1 observation" if len(search.y) == 1 else f"{len(search.y):,} observations"
    yield f"{several} at {len(columns)} {one}: {', '.join(columns[:_LISTED])}{more}."
    if not search.request.on_globe and search.request.options.globe is None and search.request.given is None:
        yield maybe_degrees(_columns(search), "globe=({lat!r}, {lon!r})")
    dated = [name for name, unit in zip(_columns(search), data.units, strict=False) if unit == DAYS]
    if dated:
        yield f"Dates and times in {', '.join(map(repr, dated))} are counted in {DAYS}."
    yield from (each.in_words for each in data.encodings if each.kind != "date")
    for name, column in zip(_columns(search), search.X.T, strict=False):
        if _IDENTIFIER.fullmatch(name.strip()) and len(np.unique(column)) > 2 and (column == np.round(column)).all():
            yield (
                f"{name!r} is taken for a quantity; if its whole numbers only name stations or rows, as its name "
                "suggests, leave the column out."
            )
    yield search.findings.get("copies", "")
    yield search.findings.get("codes", "")


def _tried(search: CandidateSearch, tried: tuple[Tried, ...]) -> Iterable[str]:
    judges = search.judges
    assert judges is not None
    where, many = "left out alone", max(len(each.scores.index) for each in search.fits)
    if judges.stand_in:
        assert search.request.like is not None
        many, wanted = len(np.unique(judges.rows)), len(search.request.like)
        where = f"which stand in {len(judges):,} times for {wanted:,} points to be predicted"
    several = "1 candidate was" if len(tried) == 1 else f"{len(tried)} candidates were"
    yield (
        f"{several} fitted to {len(search.y):,} observations and judged by the CRPS of {many:,} of them, "
        f"{where}. Of CRPS and log score less is better; the weight is the share in predictions."
    )
    yield table_of(tried)
    if search.request.like is None:
        yield "Where predictions are wanted was not said; with like, candidates are judged there."
    yield judges.note
    if search.idle and len(search.y) > EXACT_UP_TO:
        idle = ", ".join(_columns(search)[i] for i in sorted(search.idle))
        yield f"Along {idle} the observations hardly vary: these lengthscales are those of the first candidate."
    yield from search.notes
    if search.transform is None:
        yield search.findings.get("transform", "")


def _chosen(search: CandidateSearch) -> Iterable[str]:
    columns, units = shortened(_columns(search), _NAME), search.request.data.units
    heaviest, found = search.heaviest, search.findings
    prior = heaviest.prior if search.result is None else search.result.prior
    if search.transform is not None:
        yield found.get("transform", "")
        yield "Standard deviations, of the function and of the noise, are on the transformed scale."
    if len(search.chosen) == 1:
        yield f"Chosen: {_called(search, heaviest)}."
    else:
        parts = "; ".join(f"{_called(search, each)} ({weight:.2f})" for each, weight in search.chosen)
        yield f"Chosen: a mixture, under which left-out observations are clearly likelier: {parts}."
        yield f"The hyperparameters of {_called(search, heaviest)}:"
    yield from in_sentences(prior, columns, units, search.X)
    yield from directions_in_words(prior.kernel, columns, search.X)
    if search.result is not None:
        if TIME_IS_UP in search.result.story and not search.interrupt.requested:
            yield "Their fit ended when its time was up; more seconds= take it further."
        flat, numbers = [each for each in search.result.advice if each.kind == "flat"], named(prior, columns, units)
        yield from all_worded(flat, called=naming(numbers))
        yield from _few_values(search, {each.subject for each in flat}, numbers)
    if isinstance(prior.mean, CrossFitted):
        yield f"The trend is {prior.mean.in_words}. The Gaussian process is one of what is left."
    yield found.get("integration", "")
    yield f"Predictions are made with {search.request.solver!r}."


def _few_values(search: CandidateSearch, flat: set[str], numbers: list[Hyperparameter]) -> Iterable[str]:
    """Along which columns a ``flat`` lengthscale could not be learned, as they have few values, in a sentence each."""
    own = [each for each in numbers if each.name in flat and each.kind == "lengthscale"]
    for column in sorted({each.column for each in own if each.column is not None}):
        different, of = np.unique(search.X[:, column]), _columns(search)[column]
        if 2 <= len(different) <= _FEW and not set(different) <= {0.0, 1.0}:  # yes and no are all values there are
            yield f"{of} has only {len(different)} different values: predictions at others depend on its lengthscale."


def _error_bars(search: CandidateSearch) -> Iterable[str]:
    if search.interrupt.requested:
        yield "Interrupted: the best so far was kept, and the error bars were not judged."
    yield search.findings.get("error bars", "")
    yield search.findings.get("constant", "")


def _time(search: CandidateSearch, seconds: float) -> Iterable[str]:
    given = search.request.seconds
    budget = f"{given:.3g}" if given < 100 else f"{given:,.0f}"
    if search.not_tried:
        why, remedy = f"To end within {budget} seconds", "; more seconds= try them"
        why, remedy = ("Interrupted", "") if search.interrupt.requested else (why, remedy)
        yield f"{why}, these were not tried: {', '.join(search.not_tried)}{remedy}."
    besides = [f"{name} {took:.1f} s" for name, took in search.seconds.items() if took >= _SHORT]
    more = f" Besides the candidates: {', '.join(besides)}." if besides else ""
    yield f"All of it took {seconds:.1f} s of a budget of {budget} s.{more}"
    if (compiling := clock.compiling() - search.request.compiled) > _COMPILED:
        yield f"Compiling took {compiling:.0f} s besides, which happens once on a machine."
    if seconds > given:
        why = _why_more(search.fits[0].seconds, search.seconds.get("error bars", 0.0), given)
        yield f"That is more, because {why}."


def _why_more(first: float, judging: float, given: float) -> str:
    """Why a search took more than the seconds ``given``, of which some went to what is always done."""
    if first + judging <= given:
        return "what has begun when its time is up is finished"
    why = f"one candidate is always fitted and judged, which took {first:.1f} s"
    return f"{why}, and the error bars are always judged, which took {judging:.1f} s" if judging >= _SHORT else why
