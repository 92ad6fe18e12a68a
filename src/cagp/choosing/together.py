"""Several quantities at once: modelled together where left-out observations say that one tells about another."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from ..errors import InputError, NotPositiveDefiniteError
from ..hyperparameters import FitResult
from ..hyperparameters import fit as fit_hyperparameters
from ..hyperparameters.named import in_sentences
from ..hyperparameters.search_space import NOISE
from ..hyperparameters.starting_prior import NOISE_SHARE, scale_of, starting_kernel
from ..kernels import Coregionalised, Kernel, NoiseByQuantity, Sum
from ..left_out import FEWEST, Geometry, StandIns
from ..means import ByQuantity
from ..model import Model
from ..prior import Prior
from ..quantities import QuantitiesModel, on_scales, stacked
from ..solvers import NearestNeighbours
from ..solvers.exact import EXACT_UP_TO
from ..story import Story, Tried, table_of
from ..support import clock
from ..support.interrupt import Interrupt, ending_at
from ..support.numbers import listed
from ..support.numbers import number as number_of
from .candidates import SHORT_AND_LONG, in_kind
from .judging import judged
from .options import FitRequest, Options, TrainingData, solver_for
from .scoring import JudgingSet, LeftOutScores, clearly_worse
from .search import JUDGES

_SEPARATE = 0.6  # the share of the budget for models of each quantity by itself,
_CANDIDATES = 0.85  # and the share at which those of all together end, since error bars are judged after them
_ALIKE = 0.5  # of the empirical correlations, where the fit of all quantities starts
_HETEROTOPIC = 0.05  # the share of places without a quantity, from which on the others are known where it is wanted
_BETTER, _ERRORS = 0.01, 2.5  # by so much, and so many standard errors, a score is better where it pays
_JUDGED = 1000  # so many observations of each quantity are left out where their neighbours predict them,
_STANDING_IN = 500  # and so many stand in for others, whose members are of all quantities
_NEIGHBOURS_EACH = 50  # of so many times q + 1 neighbours each quantity has enough
_DEGREES = {None: 0, "constant": 0, "linear": 1, "quadratic": 2}
_OF_ONE = {"bounds", "fix_noise", "known_noise", "terms"}  # options of a fit that name what one quantity has
_NEIGHBOURS, _TOLERANCE = 30, 1e-5
_TRIED = (
    "Models of all quantities together were compared with each by itself by left-out observations. The CRPS is in "
    "units of that of each by itself, on average over the quantities; less is better."
)
_NOT_JUDGED = "Interrupted before the error bars were judged: they are those of the prior."
_OWN_STORIES = "Each quantity has a model by itself, which tells its own story: models[0].story and so on."


@dataclass(frozen=True)
class _Candidate:
    """A model of all quantities, how it is called, what the fit found, and its scores for each quantity."""

    name: str
    model: QuantitiesModel
    result: FitResult
    scores: list[LeftOutScores]
    seconds: float


class SeveralQuantities:
    """Observations Y (n, q), called ``names``, at the places of ``data``, and what ``options`` ask for."""

    def __init__(
        self, options: Options, data: TrainingData, Y: np.ndarray, names: Sequence[str], started: float
    ) -> None:
        self.options, self.data, self.Y, self.names, self.started = options, data, Y, names, started
        self.interrupt = Interrupt()  # of all of it
        self.known = ~np.isnan(Y)
        self.each = [
            replace(data, X=data.X[own], y=y[own], target=name)
            for own, y, name in zip(self.known.T, Y.T, names, strict=True)
        ]
        self.requests = [options.checked(own) for own in self.each]
        self.seconds = max(request.seconds for request in self.requests)
        self.why_not = _why_not(self.requests[0])
        if options.together is True and self.why_not:
            raise InputError(f"together=True, but {self.why_not}; leave it out, or leave out together")
        few = [name for name, own in zip(names, self.each, strict=True) if len(own.y) < FEWEST]
        if few and options.together is not True:
            self.why_not = (
                f"of {listed(few)} there are fewer than {FEWEST} observations, too few to tell what others say"
            )

    def model(self, found: Callable[[FitRequest, float], Model]) -> QuantitiesModel:
        """The model of all quantities together where it pays, or of each by itself, as the search ``found`` it.

        Ctrl-C ends all of it: of what had not begun, one candidate is fitted in a hurry.
        """
        with self.interrupt:
            return self._model(found)

    def _model(self, found: Callable[[FitRequest, float], Model]) -> QuantitiesModel:
        separate, tries = list[Model](), self.options.together is not False and not self.why_not
        end = self.started + (_SEPARATE if tries else 1.0) * self.seconds
        for i, own in enumerate(self.each):
            share = max((end - clock.now()) / (len(self.each) - i), 0.05 * self.seconds)
            seconds = share if tries or self.options.seconds is not None else None
            asked = dataclasses.replace(self.options, seconds=seconds)
            separate.append(found(asked.checked(own), clock.now()))
        if tries and not self.interrupt.requested:
            return _Comparison(self, separate).winner()
        why = [f"They were not modelled together: {self.why_not}."] if self.why_not else []
        if short := [name for name, each in zip(self.names, separate, strict=True) if each.interrupted]:
            why.append(f"The search was cut short for {listed(short)}.")
        if tries:
            why.append("Models of all quantities together were not tried.")
        return self.told(separate, [], [*why, _OWN_STORIES])

    def told(
        self,
        models: Sequence[Model],
        tried: Iterable[str],
        chosen: Iterable[str],
        error_bars: Iterable[str] = (),
        table: tuple[Tried, ...] = (),
    ) -> QuantitiesModel:
        """The model of these of each quantity, with its story."""
        counts = [f"{name} at {count:,}" for name, count in zip(self.names, self.known.sum(axis=0), strict=True)]
        took, interrupted = clock.now() - self.started, self.interrupt.requested
        ended = ["Interrupted: the best so far was kept."] if interrupted else []
        sections = {
            "Data": [f"{len(self.names)} quantities at {len(self.Y):,} places: {listed(counts)}."],
            "What was tried": [*tried],
            "What was chosen": [*filter(None, chosen)],
            "Error bars": [*error_bars],
            "Time": [*ended, f"All of it took {took:.1f} s of a budget of {self.seconds:.3g} s."],
        }
        text = "\n\n".join("\n".join([name, *said]) for name, said in sections.items() if said)
        story = Story(text, table, interrupted)
        joint = models[0].quantity is not None
        return QuantitiesModel(
            self.names, [each.replace(story=story) if joint else each for each in models], story=story
        )


def _why_not(request: FitRequest) -> str:
    """What was asked for that is about one quantity, "" where nothing was."""
    asked = request.options
    if request.given is not None:
        return "a whole kernel was given, which is that of one quantity"
    if request.by_hand or request.regression is not None or _OF_ONE & set(asked.fit_options or {}):
        return "noise, a known mean or hyperparameters were given, which are those of one quantity"
    for name in ("uncertainty", "varying", "rotate"):
        if getattr(asked, name) not in (False, "auto"):
            return f"{name}=True is for models of one quantity"
    return ""


class _Comparison:
    """Models of all quantities together against the ``separate`` ones, judged by the same left-out observations."""

    def __init__(self, task: SeveralQuantities, separate: Sequence[Model]) -> None:
        self.task, self.separate, self.options, data = task, separate, task.options, task.data
        self.Z = on_scales(task.Y, separate)
        self.X, self.z = stacked(data.X, self.Z)
        neighbours = NearestNeighbours(_NEIGHBOURS_EACH * (len(separate) + 1))
        self.solver = solver_for(self.options.solver, len(self.z), neighbours)
        self.rows = np.full(self.Z.shape, -1)  # of the observations in the model of all
        self.rows[task.known] = np.arange(len(self.z))
        self.scales = [scale_of(z[~np.isnan(z)]) for z in self.Z.T]
        many = JUDGES if len(self.z) <= EXACT_UP_TO else _JUDGED
        self.others_known = [self._others_known(i) for i in range(len(separate))]
        self.judges = [
            JudgingSet.chosen(model, None if known else own.like, n, self.options.seed, model.transform)
            for model, own, known in zip(separate, task.requests, self.others_known, strict=True)
            for n in [many if known or own.like is None else _STANDING_IN]
        ]
        self.alone = [judges.scores(model) for judges, model in zip(self.judges, separate, strict=True)]

    def winner(self) -> QuantitiesModel:
        """What is taken: the best of the candidates where it pays, or each quantity by itself."""
        task, tried, missing, hopeless = self.task, list[_Candidate](), list[str](), list[str]()
        kinds, end = task.requests[0].kinds, task.started + _CANDIDATES * task.seconds
        late, kinds = False, kinds[:1] + ((SHORT_AND_LONG,) if self.options.kernel is None else kinds[1:])
        kernel, asked_for = self._start(), self.options.together is True
        by_default = self.options.kernel is None and not asked_for
        for kind in kinds:
            if by_default and tried and self._relative(tried[0].scores)[0] >= 1:
                hopeless.append(kind)
                continue
            waits = asked_for and not tried  # what was asked for is there, whatever it takes
            late = not waits and clock.now() + (tried[-1].seconds if tried else 0.0) > end
            if task.interrupt.requested or late:
                missing.append(kind)
                continue
            try:
                tried.append(self._tried(kind, _as_kind(kernel, kind), math.inf if waits else end))
                found = tried[0].result.prior.kernel  # where others start, unless it is a sum
                kernel = found if isinstance(found, Coregionalised) else kernel
            except NotPositiveDefiniteError:
                missing.append(kind)
        cut = task.interrupt.requested
        if not tried:
            none = "was not tried" if cut else "was not tried, for want of time" if late else "could not be fitted"
            return task.told(self.separate, [], [f"A model of all together {none}.", _OWN_STORIES])
        best = min(tried, key=lambda each: self._relative(each.scores)[0])
        taken = self.options.together is True or self._pays(best.scores)
        separate = sum(each.seconds for model in self.separate for each in model.candidates)
        rows = [("each by itself", self.alone, separate, 0.0)]
        rows += [(each.name, each.scores, each.seconds, float(taken and each is best)) for each in tried]
        table = tuple(Tried(name, *self._relative(scores), took, share) for name, scores, took, share in rows)
        want = "because the search was interrupted" if cut else "for want of time"
        untried = [f"Not tried, {want}: {', '.join(missing)}."] if missing else []
        why_not = "because the first kernel predicts no better together than each quantity does by itself"
        untried += [f"Not tried, {why_not}: {', '.join(hopeless)}."] if hopeless else []
        said = [_TRIED, table_of(table), *untried]
        if not taken:
            why = ["To model them together would not pay.", *self._compared(best.scores)]
            return task.told(self.separate, said, [" ".join(why), _OWN_STORIES], table=table)
        asked, each = self.options, best.model.models
        most = JUDGES // len(each)
        right = [
            (model, _NOT_JUDGED)
            if task.interrupt.requested
            else judged(model, None, asked.recalibrate, asked.seed, most=most)
            for model in each
        ]
        error_bars = [f"{name}: {words}" for name, (_, words) in zip(task.names, right, strict=True)]
        if asked.like is not None:
            error_bars.append("All of this is about places next to data: nothing stood in for the points of like here.")
        return task.told([model for model, _ in right], said, self._chosen(best), error_bars, table)

    # --- the candidates -------------------------------------------------------------------------------------------

    def _start(self) -> Kernel:
        """All quantities with a kernel of the spread of the data, half as much alike as their values are."""
        kernel, _ = starting_kernel(self.task.requests[0].groups, 1.0)
        deviations, alike = np.sqrt(self.scales), np.eye(len(self.scales))
        for i, j in zip(*np.tril_indices(len(alike), -1), strict=True):
            both = self.Z[self.task.known[:, i] & self.task.known[:, j]][:, [i, j]]
            if len(both) > 2 and (np.ptp(both, axis=0) > 0).all():
                alike[i, j] = alike[j, i] = _ALIKE * np.corrcoef(both.T)[0, 1]
        return Coregionalised.of(kernel, (1 - NOISE_SHARE) * alike * np.outer(deviations, deviations))

    def _prior(self, kernel: Kernel) -> Prior:
        """The prior with a mean and a noise for each quantity, to be fitted; outliers are as for each by itself."""
        factors = np.ones(self.Z.shape)
        for own, known, model in zip(factors.T, self.task.known.T, self.separate, strict=True):
            if model.prior.noise_factors is not None:
                own[known] = model.prior.noise_factors
        all_factors = factors[self.task.known]
        return Prior(
            kernel,
            mean=ByQuantity(len(self.separate), _DEGREES[self.options.mean]),
            noise_variance=1.0,
            noise_pattern=NoiseByQuantity(tuple(np.sqrt(NOISE_SHARE * np.array(self.scales)).tolist())),
            noise_factors=all_factors if (all_factors != 1).any() else None,
        )

    def _tried(self, kind: str, kernel: Kernel, end: float) -> _Candidate:
        """A candidate fitted and judged."""
        began, options, data = clock.now(), self.options, self.task.data
        how: dict[str, Any] = {"n_neighbours": _NEIGHBOURS, "tolerance": _TOLERANCE, "n_restarts": 0}
        how |= {"likelihood": options.likelihood, "seed": options.seed, "device": data.device}
        how |= {**(options.fit_options or {}), "fix": ["variance", NOISE], "standard_errors": False, "progress": False}
        with ending_at(end):
            result = fit_hyperparameters(self._prior(kernel), self.X, self.z, **how)
        settings = {"device": data.device, **(options.condition_options or {})}
        joint = result.prior.condition(self.X, self.z, self.solver, **settings)
        about = {"column_names": data.names, "encodings": data.encodings, "crs": data.crs, "result": result}
        models = [
            joint.replace(quantity=i, target_name=name, transform=own.transform, limited=own.limited, **about)
            for i, (name, own) in enumerate(zip(self.task.names, self.separate, strict=True))
        ]
        scores = [self._scores(i, model) for i, model in enumerate(models)]
        found = QuantitiesModel(self.task.names, models)
        return _Candidate(f"{kind}, together", found, result, scores, clock.now() - began)

    # --- judging ----------------------------------------------------------------------------------------------------

    def _others_known(self, i: int) -> bool:
        """Whether a quantity is wanted where others were measured: many of the places lack it, or those of ``like``."""
        known, like = self.task.known, self.task.requests[0].like
        lacking = ~known[:, i] & known.any(axis=1)
        if like is None:
            return bool(lacking.mean() >= _HETEROTOPIC)
        there = {row.tobytes() for row in self.task.data.X[lacking]}
        return float(np.mean([row.tobytes() in there for row in like.cpu().numpy()])) > 0.5

    def _scores(self, i: int, model: Model) -> LeftOutScores:
        """Those of what judges a quantity by itself, predicted from all quantities, and numbered as by itself."""
        alone, own = self.judges[i], self.rows[self.task.known[:, i]]  # (observations, q)
        which, geometry, place = alone.which, Geometry(model.components[0]), None
        if isinstance(which, StandIns):  # members are places, with all that was measured there
            at = torch.from_numpy(own).to(which.rows.device)
            members = torch.where((which.members < 0)[:, :, None], -1, at[which.members]).flatten(1)
            moved = replace(which, rows=at[which.rows, i], members=members)
            return replace(alone, which=moved, geometry=geometry).scores(model)
        if not self.others_known[i]:
            number = np.unique(self.X[:, :-1], axis=0, return_inverse=True)[1].reshape(-1)
            place = torch.from_numpy(number).to(model.device)
        found = replace(alone, which=own[which, i], geometry=geometry, place=place).scores(model)
        return replace(found, index=np.searchsorted(own[:, i], found.index))

    def _pays(self, scores: Sequence[LeftOutScores]) -> bool:
        """Whether observations of some quantity are predicted better together, beyond chance, and all not worse."""
        clear = []
        for own, alone in zip(scores, self.alone, strict=True):
            index = np.intersect1d(own.index, alone.index)
            before, after = alone.at(index).crps, own.at(index).crps
            clear.append(after.mean() < (1 - _BETTER) * before.mean() and clearly_worse(before, after, _ERRORS))
        return any(clear) and self._relative(scores)[0] < 1

    def _relative(self, scores: Sequence[LeftOutScores]) -> tuple[float, float]:
        """CRPS in units of those of quantities by themselves, and log scores, on average over the quantities."""
        crps = np.mean([own.crps.mean() / alone.crps.mean() for own, alone in zip(scores, self.alone, strict=True)])
        return float(crps), float(np.mean([own.log_score.mean() for own in scores]))

    # --- in words -----------------------------------------------------------------------------------------------------

    def _compared(self, scores: Sequence[LeftOutScores]) -> list[str]:
        """The scores of each quantity in a sentence."""
        said = []
        for i, (name, own, alone) in enumerate(zip(self.task.names, scores, self.alone, strict=True)):
            where = "left out where the others are known"
            if not self.others_known[i]:
                whole = "left out with all else at their places"
                where = "standing in for the points of like" if self.judges[i].stand_in else whole
            both = f"{own.crps.mean():.4g} together and {alone.crps.mean():.4g} by itself"
            said.append(f"{name}: the CRPS of observations {where} is {both}.")
        return said

    def _chosen(self, best: _Candidate) -> Iterator[str]:
        """What was chosen, in sentences: each term of the kernel, its places and the quantities there, and the rest."""
        (X, names), prior = (self.task.data.X, self.task.names), best.result.prior
        columns = self.task.data.names or [f"x{i}" for i in range(X.shape[1])]
        yield f"Chosen: {best.name}. One model of all quantities predicts each of them from all."
        yield from self._compared(best.scores)
        kernels = [part.kernel for part in prior.kernel.walk() if isinstance(part.kernel, Coregionalised)]
        for number, term in enumerate(kernels, start=1):
            said, *_ = in_sentences(Prior(term.kernel), columns, self.task.data.units, X)
            said = said.removeprefix("Kernel: ").replace("standard deviation 1.00; ", "").rstrip(".")
            called = f"Term {number}" if len(kernels) > 1 else "Kernel"
            alike = f"correlations {_pairs(names, term.correlations)}"
            yield f"{called}: {said}; {_deviations(names, term.deviations)}; {alike}."
        yield f"Correlations at one place, without noise: {_pairs(names, best.model.correlations)}."
        assert isinstance(prior.noise_pattern, NoiseByQuantity)
        level = math.sqrt(float(prior.noise_variance))
        yield f"Noise: {_deviations(names, [level * each for each in prior.noise_pattern.values])}."
        for name, model in zip(names, self.separate, strict=True):
            if model.transform is not None:
                yield f"{name} is transformed, as by itself: {model.transform.in_words}."
        yield f"Predictions are made with {self.solver!r}."


def _as_kind(kernel: Kernel, kind: str) -> Kernel:
    """Quantities that go together as in a kernel, with places of another ``kind``; a sum has two of them."""
    assert isinstance(kernel, Coregionalised)
    inner = in_kind(kernel.kernel, kind)
    if kind != SHORT_AND_LONG:
        return replace(kernel, kernel=inner)
    assert isinstance(inner, Sum)
    half = tuple(each / 2**0.5 for each in kernel.deviations)
    return Sum(tuple(Coregionalised(each.scaled(2.0), half, kernel.angle) for each in inner.kernels))


def _deviations(names: Sequence[str], values: Sequence[float]) -> str:
    each = [f"{name} {number_of(value)}" for name, value in zip(names, values, strict=True)]
    return f"standard deviations {listed(each)}"


def _pairs(names: Sequence[str], matrix: np.ndarray) -> str:
    """The entries of a symmetric matrix (q, q), each with the two that it is of."""
    pairs = [(i, j) for i in range(len(names)) for j in range(i)]
    return ", ".join(f"{names[j]} and {names[i]} {matrix[i, j]:.2f}" for i, j in pairs)
