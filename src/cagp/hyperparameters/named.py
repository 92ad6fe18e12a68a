"""Hyperparameters for readers: what each number of a prior is called, its unit, and what it says."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np

from ..kernels import (
    EARTH_RADIUS,
    RBF,
    Coregionalised,
    Matern32,
    Matern52,
    RationalQuadratic,
    Rotated,
    Standardised,
    Varying,
)
from ..kernels.tree import Part
from ..means import Constant, Mean, Polynomial
from ..prior import Prior
from ..support.numbers import BESIDES, BEYOND, FAR, listed, number, squared, with_error, with_unit

_SMOOTH = (Matern32, Matern52, RBF, RationalQuadratic)  # which are straight where data reach a tenth of a lengthscale
_SEVERAL = 3  # more columns than this are not named where all of them are meant
_ANGLES = ("azimuth of", "dip of", "roll around")


@dataclass(frozen=True)
class Hyperparameter:
    """One number of a prior; its ``name`` as ``FitResult`` has it, its field ``kind``, the ``column`` it is of.

    ``of`` is what readers call that column, or axis, ``part`` the kernel inside a kernel, "" where there is one alone.
    ``span`` is how far the data reach along it, 0 where that is not known.
    """

    name: str
    label: str
    kind: str
    value: float
    unit: str
    column: int | None = None
    of: str = ""
    part: str = ""
    span: float = 0.0

    @property
    def is_beyond(self) -> bool:
        """Whether it is a lengthscale far longer than the data reach, of which they say little by itself."""
        return self.kind == "lengthscale" and 0 < FAR * self.span < self.value

    def shown(self, error: float | None = None) -> str:
        """The value with its standard error and its unit; in words where the number says nothing."""
        if self.is_beyond:
            return BEYOND
        return with_unit(with_error(self.value, None if error is None or math.isnan(error) else error), self.unit)


def named(
    prior: Prior,
    columns: Sequence[str],
    units: Sequence[str] = (),
    target_unit: str = "",
    X: np.ndarray | None = None,
    quantities: Sequence[str] = (),
) -> list[Hyperparameter]:
    """Every hyperparameter, in the order and by the names of ``cagp.hyperparameters``: the kernel's, then the noise.

    ``columns`` are the names of those of the points, with their ``units``; ``X`` (n, p) says how far these reach.
    Of several ``quantities`` those are the names.
    """
    spans = np.zeros(len(columns)) if X is None else np.ptp(X, axis=0)
    in_spreads = 0.0 if X is None else float((spans / np.where(spans > 0, X.std(axis=0), 1.0)).max(initial=0.0))
    readers = _Readers(
        tuple(columns),
        tuple(map(_of_distances, units)) or ("",) * len(columns),
        target_unit,
        spans,
        in_spreads,
        tuple(quantities),
    )
    found, turned = [], dict[str, float]()
    for part in prior.kernel.walk(range(len(columns))):
        if isinstance(part.kernel, Rotated):
            turned[part.path] = float(np.linalg.norm(spans[list(part.columns)]))
        across = max([0.0, *(span for path, span in turned.items() if part.path.startswith(path))])
        for kind, value in part.kernel.hyperparameter_values.items():
            found += readers.numbers(kind, value, part, across)
    if np.ndim(prior.noise_variance) == 0:
        noise, unit = float(prior.noise_variance), squared(target_unit)
        found.append(Hyperparameter("noise_variance", "noise variance", "noise", noise, unit))
    return found


def naming(parameters: Sequence[Hyperparameter]) -> Callable[[Sequence[str]], str]:
    """How readers call some of these by their names: "the lengthscales of x and y in term 1 and the noise variance"."""
    known = {each.name: each for each in parameters}

    def called(names: Sequence[str]) -> str:
        parts: dict[str, dict[str, list[str]]] = {}
        for name in names:
            each = known.get(name)
            part, kind, of = (
                ("", name, "") if each is None else (each.part, each.label.removeprefix(each.part), each.of)
            )
            kind = kind.removesuffix(f" of {of}") if of else kind
            parts.setdefault(part, {}).setdefault(kind if each is None else f"the {kind}", []).append(of)
        said = []
        for part, kinds in parts.items():
            told = []
            for kind, columns in kinds.items():
                several = f"{kind}s" if len(columns) > 1 else kind
                told.append(f"{several} of {listed(columns)}" if any(columns) else kind)
            where = f" in {part.strip().removesuffix(':')}" if part else ""
            said.append(f"{listed(told)}{where}")
        return listed(said)

    return called


def in_sentences(
    prior: Prior, columns: Sequence[str], units: Sequence[str] = (), X: np.ndarray | None = None
) -> list[str]:
    """The hyperparameters in a sentence for each part of the kernel, its amplitude, and the noise.

    Those of turned axes are left to ``directions_in_words``.
    """
    parts: dict[tuple[str, str], list[Hyperparameter]] = {}
    walked = {part.path: part for part in prior.kernel.walk()}
    kinds = {path: part.kernel for path, part in walked.items()}
    for each in named(prior, columns, units, X=X):
        parts.setdefault((each.name.rpartition(".")[0], each.part), []).append(each)
    said = []
    for (path, part), members in parts.items():
        if path not in kinds:
            continue
        family = (getattr(kinds[path], "family", None) or type(kinds[path]).__name__).partition(" (")[0]
        told = [f"standard deviation {number(math.sqrt(m.value))}" for m in members if m.kind == "variance"]
        turned = any(m.of.startswith(Rotated.coordinate_called) and m.column is None for m in members)
        scales = [m for m in members if m.kind == "lengthscale"]
        told += [] if turned else _lengthscales(scales)
        flat = isinstance(kinds[path], _SMOOTH) and not walked[path].distance_unit  # and no globe
        if flat and "factor" not in part and not turned and all(m.is_beyond for m in scales):
            told.append("so far as the data reach it is practically a linear trend")
        told += [f"{m.kind} {m.shown()}" for m in members if m.kind not in ("variance", "lengthscale", "angle")]
        if told:
            said.append(f"{(part or 'Kernel: ').capitalize()}{family}, {'; '.join(told)}.")
    for each in kinds.values():
        if isinstance(each, Varying):
            low, high = (number(end(each.amplitude.values)) for end in (min, max))
            said.append(f"These standard deviations are multiplied by an amplitude that varies, from {low} to {high}.")
    if np.ndim(prior.noise_variance) == 0:
        scatter = math.sqrt(float(prior.noise_variance))
        values = (1.0,) if prior.noise_pattern is None else prior.noise_pattern.values
        low, high = (number(scatter * end(values)) for end in (min, max))
        said.append(f"Noise: standard deviation {low if low == high else f'that varies, from {low} to {high}'}.")
    return said


def coefficients_of(mean: Mean, columns: Sequence[str]) -> dict[str, str]:
    """What the coefficients of a polynomial are of, by their names: the columns that are multiplied there."""
    if isinstance(mean, Constant):
        return {"mean.value": "constant"}
    if not isinstance(mean, Polynomial):
        return {}
    own = columns if mean.columns is None else [columns[i] for i in mean.columns]
    powers = range(1, mean.degree + 1) if own else ()
    terms = ["constant", *(" · ".join(each) for k in powers for each in combinations_with_replacement(own, k))]
    return {f"mean.coefficients[{i}]": term for i, term in enumerate(terms)}


def _lengthscales(members: Sequence[Hyperparameter]) -> list[str]:
    """The lengthscales of one part of a kernel, those far beyond the data in words."""
    if len(members) == 1:
        return [f"lengthscale {members[0].shown()}"]
    near = [f"{each.of} {each.shown()}" for each in members if not each.is_beyond]
    far = ", ".join(each.of for each in members if each.is_beyond)
    far = "all columns" if not near and len(members) > _SEVERAL else far
    said = [f"lengthscales {', '.join(near)}"] if near else []
    return said + ([f"{BEYOND} along {far}, {BESIDES}"] if far else [])


@dataclass(frozen=True)
class _Readers:
    """What readers call the columns, their units of distance and that of y, how far the data reach, (p,), and
    at most in spreads of a column, and the quantities, if they have names.
    """

    columns: tuple[str, ...]
    units: tuple[str, ...]
    target_unit: str
    spans: np.ndarray
    in_spreads: float
    quantities: tuple[str, ...] = ()

    def numbers(
        self, kind: str, value: float | tuple[float, ...], part: Part, across: float = 0.0
    ) -> list[Hyperparameter]:
        """Those of one field of a kernel; the data reach so far ``across`` turned axes."""
        name, columns = f"{part.path}.{kind}", part.columns
        if isinstance(value, tuple):
            found = []
            for i, v in enumerate(value):
                several = isinstance(part.kernel, Coregionalised)  # of quantities, and not of columns
                column = columns[i] if i < len(columns) and not several else None
                of = self._called(kind, i) if several else f"{part.coordinate} {i + 1}"
                of = of if column is None else self.columns[column]
                unit = part.distance_unit or ("" if column is None else self.units[column])
                label = f"{part.label}{kind} of {of}"
                if kind in part.kernel.angles and isinstance(part.kernel, Rotated):
                    label, unit, column, of = f"{part.label}{_ANGLES[i]} axis 1", "°", None, ""
                span = across if column is None else float(self.spans[column])
                found.append(Hyperparameter(f"{name}[{i}]", label, kind, v, unit, column, of, part.label, span))
            return found
        if kind == "variance":
            label, unit = f"{part.label}variance of the function", squared(self.target_unit)
            return [Hyperparameter(name, label, kind, value, unit, part=part.label)]
        if kind in part.kernel.angles:
            return [Hyperparameter(name, f"{part.label}{kind} of axis 1", kind, value, "°", part=part.label)]
        unit, span = "", 0.0
        if kind in ("lengthscale", "period"):
            common = {self.units[column] for column in columns}
            unit = part.distance_unit or (common.pop() if len(common) == 1 else "")
            globe = {"km": EARTH_RADIUS, "m": 1000 * EARTH_RADIUS, "Earth radii": 1.0}.get(part.distance_unit, 0.0)
            # on the globe nothing is further away than half its circumference
            spans = [float(self.spans[column]) for column in columns]
            standardised = part.distance_unit == Standardised.UNIT
            span = self.in_spreads if standardised else max([math.pi * globe / FAR, *spans])
        column = columns[0] if len(columns) == 1 else None
        return [Hyperparameter(name, f"{part.label}{kind}", kind, value, unit, column, "", part.label, span)]

    def _called(self, kind: str, i: int) -> str:
        """The i-th quantity, or of angles the i-th pair of them: each with all before it."""
        pairs = [f"{self.quantities[b]} and {each}" for a, each in enumerate(self.quantities) for b in range(a)]
        names, number = (pairs, f"pair {i + 1}") if kind == "angle" else (self.quantities, f"quantity {i + 1}")
        return names[i] if self.quantities else number


def _of_distances(unit: str) -> str:
    """The unit of distances along a column of that unit: days along days since a date, degrees along °N."""
    return "°" if unit in ("°N", "°E", "degrees_north", "degrees_east") else unit.partition(" since ")[0]
