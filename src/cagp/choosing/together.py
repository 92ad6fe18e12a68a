"""Several quantities at once: modelled together where left-out observations say that one tells about another."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterator, Sequence
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
from ..left_out import LeftOut, StandIns, leave_out, who_judges
from ..means import ByQuantity
from ..model import Model
from ..prior import Prior
from ..quantities import QuantitiesModel, Scale, on_scales, stacked
from ..recalibration.learning import ordinary
from ..solvers import NearestNeighbours
from ..solvers.exact import EXACT_UP_TO
from ..story import Story, Tried, table_of
from ..support.interrupt import Interrupt, ending_at
from ..support.numbers import listed
from ..support.numbers import number as number_of
from .candidates import SHORT_AND_LONG, in_kind
from .judging import judged
from .options import FitRequest, Options, TrainingData, solver_for
from .scoring import LeftOutScores, clearly_worse
from .search import JUDGES

_SEPARATE = 0.6  # the share of the budget for models of each quantity by itself
_ALIKE = 0.5  # of the empirical correlations, where the fit of all quantities starts
_HETEROTOPIC = 0.05  # the share of places without a quantity, from which on the others are known where it is wanted
_BETTER, _ERRORS = 0.01, 2.5  # by so much, and so many standard errors, a score is better where it pays
_JUDGED = 1000  # so many observations of each quantity are left out where their neighbours predict them,
_STANDING_IN = 500  # and so many stand in for others, whose members are of all quantities
_NEIGHBOURS_EACH = 50  # of so many times q + 1 neighbours each quantity has enough
_DEGREES = {None: 0, "constant": 0, "linear": 1, "quadratic": 2}
_NEIGHBOURS, _TOLERANCE = 30, 1e-5


@dataclass(frozen=True)
class _Candidate:
    """A model of all quantities, how it is called, what the fit found, and its scores for each quantity."""

    name: str
    model: QuantitiesModel
    result: FitResult
    scores: list[LeftOutScores]
    seconds: float

    def relative(self, separate: Sequence[LeftOutScores]) -> float:
        """Its CRPS as a multiple of those of quantities by themselves, on average over the quantities."""
        ratios = [own.crps.mean() / alone.crps.mean() for own, alone in zip(self.scores, separate, strict=True)]
        return float(np.mean(ratios))


class SeveralQuantities:
    """Observations Y (n, q), called ``names``, at the places of ``data``, and what ``options`` ask for."""

    def __init__(
        self, options: Options, data: TrainingData, Y: np.ndarray, names: Sequence[str], started: float
    ) -> None:
        self.options, self.data, self.Y, self.names, self.started = options, data, Y, names, started
        self.known = ~np.isnan(Y)
        self.requests = [options.checked(self._of(i)) for i in range(len(names))]
        self.seconds = max(request.seconds for request in self.requests)
        self.rows = np.full(Y.shape, -1)
        self.rows[self.known] = np.arange(self.known.sum())
        if options.together is True and (why := self.why_not):
            raise InputError(f"together=True, but {why}; leave it out, or leave out together")

    def _of(self, i: int) -> TrainingData:
        """The observations of one quantity."""
        known = self.known[:, i]
        return replace(self.data, X=self.data.X[known], y=self.Y[known, i])

    @property
    def why_not(self) -> str:
        """What was asked for that is about one quantity, "" where nothing was."""
        given = self.requests[0]
        if given.given is not None:
            return "a whole kernel was given, which is that of one quantity"
        if given.by_hand or self.options.mean not in _DEGREES:
            return "noise, a known mean or hyperparameters were given, which are those of one quantity"
        return ""

    def model(self, found: Callable[[FitRequest, float], Model]) -> QuantitiesModel:
        """The model of all quantities together where it pays, or of each by itself, as the search ``found`` it."""
        separate = []
        for i in range(len(self.names)):
            left = self.started + _SEPARATE * self.seconds - time.perf_counter()
            share = max(left / (len(self.names) - i), 0.05 * self.seconds)
            asked = dataclasses.replace(self.options, seconds=share if self._tries else self.options.seconds)
            separate.append(found(asked.checked(self._of(i)), time.perf_counter()))
        if not self._tries or any(each.interrupted for each in separate):
            why = f"They were not modelled together: {self.why_not}." if self.why_not else ""
            return self.alone(separate, why)
        return _Race(self, separate).winner()

    @property
    def _tries(self) -> bool:
        return self.options.together is not False and not self.why_not

    def alone(
        self, separate: Sequence[Model], why: str, tried: str = "", table: Sequence[Tried] = ()
    ) -> QuantitiesModel:
        """The model of each quantity by itself, and its story: ``why``, and what was ``tried``."""
        each = "Each quantity has a model by itself, which tells its own story: models[0].story and so on."
        sections = [self.in_words, tried, "\n".join(["What was chosen", *filter(None, [why]), each]), self.time]
        story = Story("\n\n".join(filter(None, sections)), tuple(table))
        return QuantitiesModel(self.names, models=separate, story=story)

    @property
    def in_words(self) -> str:
        """The data, in words."""
        n, each = len(self.Y), self.known.sum(axis=0)
        counts = listed([f"{name} at {count:,}" for name, count in zip(self.names, each, strict=True)])
        return f"Data\n{len(self.names)} quantities at {n:,} places: {counts}."

    @property
    def time(self) -> str:
        """How long it took, in words."""
        return f"Time\nAll of it took {time.perf_counter() - self.started:.1f} s of a budget of {self.seconds:.3g} s."


class _Race:
    """Models of all quantities together against the ``separate`` ones, judged by the same left-out observations."""

    def __init__(self, task: SeveralQuantities, separate: Sequence[Model]) -> None:
        self.task, self.separate = task, separate
        self.scales = [Scale(each.transform, each.reach) for each in separate]
        self.Z = on_scales(task.Y, self.scales)
        self.X, self.z = stacked(task.data.X, self.Z)
        neighbours = NearestNeighbours(_NEIGHBOURS_EACH * (len(separate) + 1))
        self.solver = solver_for(task.options.solver, len(self.z), neighbours)
        self.judges = [self._judges(i) for i in range(len(separate))]
        self.alone = [self._scores(i, self._left_out_alone(i)) for i in range(len(separate))]
        self.end = task.started + task.seconds

    # --- the candidates -------------------------------------------------------------------------------------------

    def winner(self) -> QuantitiesModel:
        """What is taken: the best of the candidates where it pays, or each quantity by itself."""
        asked, task, tried = self.task.options, self.task, list[_Candidate]()
        kinds = task.requests[0].kinds
        kinds = kinds[:1] + ((SHORT_AND_LONG,) if asked.kernel is None else kinds[1:])
        start, missing = self._start(), list[str]()
        with Interrupt() as interrupt:
            for kind in kinds:
                if tried and (interrupt.requested or time.perf_counter() + tried[-1].seconds > self.end):
                    missing.append(kind)
                    continue
                first = tried[0].result.prior.kernel if tried else start
                try:
                    tried.append(self._tried(kind, _as_kind(first, kind), math.inf if not tried else self.end))
                except NotPositiveDefiniteError:
                    missing.append(kind)
        if not tried:
            return task.alone(self.separate, "A model of all together could not be fitted.")
        best = min(tried, key=lambda each: each.relative(self.alone))
        pays = self._pays(best)
        table = (*self._rows(), *(self._row(each, each is best and (pays or asked.together is True)) for each in tried))
        if not pays and asked.together is not True:
            why = f"To model them together would not pay. {' '.join(self._compared(best))}"
            return task.alone(self.separate, why, self._tried_in_words(table), table)
        return self._taken(best, table, missing)

    def _start(self) -> Kernel:
        """All quantities with a kernel of the spread of the data, half as much alike as their values are."""
        kernel, _ = starting_kernel(self.task.requests[0].groups, 1.0)
        deviations = [scale_of(z[~np.isnan(z)]) ** 0.5 for z in self.Z.T]
        alike = np.eye(len(deviations))
        for i in range(len(alike)):
            for j in range(i):
                both = self.Z[self.task.known[:, i] & self.task.known[:, j]][:, [i, j]]
                if len(both) > 2 and (np.ptp(both, axis=0) > 0).all():
                    alike[i, j] = alike[j, i] = _ALIKE * np.corrcoef(both.T)[0, 1]
        return Coregionalised.of(kernel, (1 - NOISE_SHARE) * alike * np.outer(deviations, deviations))

    def _prior(self, kernel: Kernel) -> Prior:
        """The prior with a mean and a noise for each quantity, to be fitted; outliers are as for each by itself."""
        noise = [(NOISE_SHARE * scale_of(z[~np.isnan(z)])) ** 0.5 for z in self.Z.T]
        factors = np.ones(self.Z.shape)
        for i, each in enumerate(self.separate):
            if each.prior.noise_factors is not None:
                factors[self.task.known[:, i], i] = each.prior.noise_factors
        own = factors[self.task.known]
        return Prior(
            kernel,
            mean=ByQuantity(len(self.separate), _DEGREES[self.task.options.mean]),  # type: ignore[index]
            noise_variance=1.0,
            noise_pattern=NoiseByQuantity(tuple(noise)),
            noise_factors=own if (own != 1).any() else None,
        )

    def _tried(self, kind: str, kernel: Kernel, end: float) -> _Candidate:
        """A candidate fitted and judged."""
        began, options = time.perf_counter(), self.task.options
        how: dict[str, Any] = {"n_neighbours": _NEIGHBOURS, "tolerance": _TOLERANCE, "n_restarts": 0}
        how |= {"likelihood": options.likelihood, "seed": options.seed, "device": self.task.data.device}
        how |= {**(options.fit_options or {}), "fix": ["variance", NOISE], "standard_errors": False, "progress": False}
        with ending_at(end):
            result = fit_hyperparameters(self._prior(kernel), self.X, self.z, **how)
        settings = {"device": self.task.data.device, **(options.condition_options or {})}
        joint = result.prior.condition(self.X, self.z, self.solver, **settings)
        model = QuantitiesModel(self.task.names, joint=joint, scales=self.scales)
        scores = [self._scores(i, self._left_out(model, i)) for i in range(len(self.separate))]
        return _Candidate(f"{kind}, together", model, result, scores, time.perf_counter() - began)

    # --- judging ----------------------------------------------------------------------------------------------------

    def others_known(self, i: int) -> bool:
        """Whether a quantity is wanted where others were measured: many of the places lack it, or those of ``like``."""
        known, like = self.task.known, self.task.requests[0].like
        lacking = ~known[:, i] & known.any(axis=1)
        if like is None:
            return bool(lacking.mean() >= _HETEROTOPIC)
        there = {row.tobytes() for row in self.task.data.X[lacking]}
        return float(np.mean([row.tobytes() in there for row in like.cpu().numpy()])) > 0.5

    def _judges(self, i: int) -> np.ndarray | StandIns:
        """Who is left out of the observations of a quantity by itself."""
        like = None if self.others_known(i) else self.task.requests[i].like
        many = JUDGES if len(self.z) <= EXACT_UP_TO else _JUDGED
        n = many if like is None else _STANDING_IN
        return who_judges(self.separate[i].components[0], like, n, self.task.options.seed)[0]

    def _left_out_alone(self, i: int) -> LeftOut:
        return ordinary(leave_out(self.separate[i], self.judges[i]), self.separate[i])

    def _left_out(self, model: QuantitiesModel, i: int) -> LeftOut:
        """The same observations predicted from all quantities, numbered as those of the quantity by itself."""
        assert model.joint is not None
        which, rows = self.judges[i], self.task.rows[self.task.known[:, i]]  # (observations, q)
        if isinstance(which, StandIns):  # members are places, with all that was measured there
            own = torch.from_numpy(rows).to(which.rows.device)
            members = torch.where((which.members < 0)[:, :, None], -1, own[which.members]).flatten(1)
            return ordinary(
                leave_out(model.joint, replace(which, rows=own[which.rows, i], members=members)), model.joint
            )
        found = model.left_out_of(i, rows[which, i], whole_places=not self.others_known(i))
        found = ordinary(found, model.joint)
        return replace(found, index=np.searchsorted(rows[:, i], found.index))

    def _scores(self, i: int, found: LeftOut) -> LeftOutScores:
        """Those of left-out observations of a quantity, on the scale of the observations."""
        scale = self.scales[i]
        if scale.transform is None:
            return LeftOutScores.of(found)
        return LeftOutScores.carried_over(found, scale.transform, scale.reach)

    def _pays(self, best: _Candidate) -> bool:
        """Whether observations of some quantity are predicted better together, beyond chance, and all not worse."""
        clear = []
        for own, alone in zip(best.scores, self.alone, strict=True):
            index = np.intersect1d(own.index, alone.index)
            before, after = alone.at(index).crps, own.at(index).crps
            clear.append(after.mean() < (1 - _BETTER) * before.mean() and clearly_worse(before, after, _ERRORS))
        return any(clear) and best.relative(self.alone) < 1

    # --- in words -----------------------------------------------------------------------------------------------------

    def _taken(self, best: _Candidate, table: tuple[Tried, ...], missing: Sequence[str]) -> QuantitiesModel:
        """The model of all together, with error bars that hold, and its story."""
        assert best.model.joint is not None
        task, asked = self.task, self.task.options
        joint, said = judged(best.model.joint, None, asked.recalibrate, asked.seed, most=JUDGES)
        names = None if task.data.names is None else [*task.data.names, "quantity"]
        joint = joint.replace(result=best.result, column_names=names, encodings=task.data.encodings, crs=task.data.crs)
        model = QuantitiesModel(task.names, joint=joint, scales=self.scales)
        noise = [
            f"{name} {math.sqrt(float(each)):.4g}"
            for name, each in zip(task.names, _levels(best.result.prior), strict=True)
        ]
        chosen = [
            f"Chosen: {best.name}. One model of all quantities predicts each of them from all.",
            *self._compared(best),
            *self._terms(best.result.prior.kernel),
            f"Correlations at one place, without noise: {_pairs(task.names, model.correlations)}.",
            f"Noise: standard deviations {listed(noise)}.",
            *self._transformed(),
            f"Predictions are made with {self.solver!r}.",
        ]
        tried = [f"Not tried, for want of time: {', '.join(missing)}."] if missing else []
        sections = task.in_words, self._tried_in_words(table, tried), "\n".join(["What was chosen", *chosen])
        text = "\n\n".join([*sections, f"Error bars\n{said}", task.time])
        return QuantitiesModel(task.names, joint=joint, scales=self.scales, story=Story(text, table))

    def _transformed(self) -> Iterator[str]:
        for name, scale in zip(self.task.names, self.scales, strict=True):
            if scale.transform is not None:
                yield f"{name} is transformed, as by itself: {scale.transform.in_words}."

    def _terms(self, kernel: Kernel) -> Iterator[str]:
        """Each term of the kernel in a sentence: its places, and the quantities there."""
        X, names = self.task.data.X, self.task.names
        columns = self.task.data.names or [f"x{i + 1}" for i in range(X.shape[1])]
        terms = [part.kernel for part in kernel.walk() if isinstance(part.kernel, Coregionalised)]
        for number, term in enumerate(terms, start=1):
            said, *_ = in_sentences(Prior(term.kernel), columns, self.task.data.units, X)
            said = said.removeprefix("Kernel: ").replace("standard deviation 1.00; ", "").rstrip(".")
            deviations = [f"{name} {number_of(each)}" for name, each in zip(names, term.deviations, strict=True)]
            yield (
                f"{f'Term {number}' if len(terms) > 1 else 'Kernel'}: {said}; standard deviations "
                f"{listed(deviations)}; correlations {_pairs(names, term.correlations)}."
            )

    def _tried_in_words(self, table: tuple[Tried, ...], more: Sequence[str] = ()) -> str:
        """The section of the story about the candidates."""
        said = (
            "Models of all quantities together were compared with each by itself by left-out observations. The CRPS is "
            "in units of that of each by itself, on average over the quantities; less is better."
        )
        return "\n".join(["What was tried", said, table_of(table), *more])

    def _compared(self, best: _Candidate) -> list[str]:
        """The scores of each quantity in a sentence."""
        said = []
        for i, (name, own, alone) in enumerate(zip(self.task.names, best.scores, self.alone, strict=True)):
            if self.others_known(i):
                where = "left out where the others are known"
            elif isinstance(self.judges[i], StandIns):
                where = "standing in for the points of like"
            else:
                where = "left out with all else at their places"
            both = f"{own.crps.mean():.4g} together and {alone.crps.mean():.4g} by itself"
            said.append(f"{name}: the CRPS of observations {where} is {both}.")
        return said

    def _rows(self) -> tuple[Tried, ...]:
        seconds = sum(each.seconds for model in self.separate for each in model.candidates)
        return (Tried("each by itself", *_relative(self.alone, self.alone), seconds, 0.0),)

    def _row(self, candidate: _Candidate, taken: bool) -> Tried:
        relative = _relative(candidate.scores, self.alone)
        return Tried(candidate.name, *relative, candidate.seconds, float(taken))


def _relative(scores: Sequence[LeftOutScores], alone: Sequence[LeftOutScores]) -> tuple[float, float]:
    """CRPS as multiples of those of quantities by themselves, and log scores, on average over the quantities."""
    pairs = list(zip(scores, alone, strict=True))
    crps = np.mean([each.crps.mean() / other.crps.mean() for each, other in pairs])
    return float(crps), float(np.mean([each.log_score.mean() for each, _ in pairs]))


def _levels(prior: Prior) -> np.ndarray:
    """The noise variance of each quantity (q,)."""
    assert isinstance(prior.noise_pattern, NoiseByQuantity)
    return np.asarray(prior.noise_variance * np.square(prior.noise_pattern.values))


def _as_kind(kernel: Kernel, kind: str) -> Kernel:
    """Quantities that go together as in a kernel, with places of another ``kind``; a sum has two of them."""
    assert isinstance(kernel, Coregionalised)
    inner = in_kind(kernel.kernel, kind)
    if kind != SHORT_AND_LONG:
        return replace(kernel, kernel=inner)
    assert isinstance(inner, Sum)
    half = tuple(each / 2**0.5 for each in kernel.deviations)
    return Sum(tuple(Coregionalised(each.scaled(2.0), half, kernel.angle) for each in inner.kernels))


def _pairs(names: Sequence[str], matrix: np.ndarray) -> str:
    """The entries of a symmetric matrix (q, q), each with the two that it is of."""
    pairs = [(i, j) for i in range(len(names)) for j in range(i)]
    return ", ".join(f"{names[j]} and {names[i]} {matrix[i, j]:.2f}" for i, j in pairs)
