"""What a model is about, for people: names, units, how columns became numbers, provenance, what the fit said."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..errors import InputError, InputTypeError
from ..support.advice import IN_PYTHON, all_worded
from ..support.coordinate_systems import is_globe
from ..support.encodings import Encoding
from .objects import require_entries

if TYPE_CHECKING:
    from ..hyperparameters import FitResult


def _texts(values: Any, name: str) -> tuple[str, ...]:
    if isinstance(values, str) or not all(isinstance(value, str) for value in values):
        raise InputTypeError(f"{name} must be a list of texts, got {values!r}")
    return tuple(values)


@dataclass(frozen=True)
class FitSummary:
    """What is kept of a ``FitResult``: values, standard errors (NaN and infinity as they were), and what it said."""

    likelihood: str
    size: int
    log_likelihood: float
    converged: bool
    values: Mapping[str, float]
    standard_errors: Mapping[str, float]
    warnings: tuple[str, ...]
    message: str

    @classmethod
    def of(cls, result: FitResult, remedies: Mapping[str, str] = IN_PYTHON) -> FitSummary:
        """The summary of a fit, with the ``remedies`` of a front end by kind of advice."""
        warnings = all_worded(result.advice, remedies)
        found = (result.likelihood, result.size, result.log_likelihood, result.converged)
        values, errors = dict(result.values), dict(result.standard_errors or {})
        return cls(*found, values, errors, warnings, " ".join([result.story, *warnings]))

    def to_json(self) -> dict[str, Any]:
        content = dataclasses.asdict(self)
        content["log_likelihood"] = _number_to_json(self.log_likelihood)
        for name in ("values", "standard_errors"):
            content[name] = {key: _number_to_json(value) for key, value in content[name].items()}
        return content

    @classmethod
    def from_json(cls, content: Any) -> FitSummary:
        require_entries(content, [each.name for each in dataclasses.fields(cls)], "the fit summary")
        if not isinstance(content["size"], int) or not isinstance(content["converged"], bool):
            raise InputError("the fit summary's size must be an integer and converged true or false")
        found: dict[str, Any] = {name: str(content[name]) for name in ("likelihood", "message")} | {
            name: {str(key): _number_from_json(value) for key, value in dict(content[name]).items()}
            for name in ("values", "standard_errors")
        }
        found["log_likelihood"] = _number_from_json(content["log_likelihood"])
        return cls(**{**content, **found, "warnings": _texts(content["warnings"], "warnings")})


@dataclass(frozen=True)
class About:
    """Names and units of the columns, provenance, and the summary of the fit; all of it optional.

    ``features`` are the names of the columns of X, ``target`` is that of y; ``units`` and ``notes`` are texts by name.
    ``encodings`` say how columns of a table that were not plain numbers became features. ``crs`` is the coordinate
    system of the points, such as "EPSG:28992".
    """

    features: tuple[str, ...] | None = None
    target: str | None = None
    units: Mapping[str, str] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)
    fit: FitSummary | None = None
    encodings: tuple[Encoding, ...] = ()
    crs: str | None = None

    def __post_init__(self) -> None:
        if self.features is not None:
            object.__setattr__(self, "features", _texts(self.features, "features"))
            if len(set(self.features)) != len(self.features):
                raise InputError(f"features must be distinct names, got {self.features!r}")
        for name in ("target", "crs"):
            if not isinstance(text := getattr(self, name), str | None):
                raise InputTypeError(f"{name} must be a text, got {text!r}")
        if self.crs is not None:
            with suppress(ImportError):  # without pyproj nothing is done with it
                is_globe(self.crs)
        for name in ("units", "notes"):
            pairs = getattr(self, name)
            if not isinstance(pairs, Mapping) or not all(isinstance(t, str) for pair in pairs.items() for t in pair):
                raise InputTypeError(f"{name} must map texts to texts, got {pairs!r}")
            object.__setattr__(self, name, dict(pairs))
        if self.fit is not None and not isinstance(self.fit, FitSummary):
            raise InputTypeError(f"fit must be a FitSummary, got {self.fit!r}; write FitSummary.of(result)")
        object.__setattr__(self, "encodings", tuple(self.encodings))
        for each in self.encodings:
            if not isinstance(each, Encoding) or not set(each.features) <= {*(self.features or ()), self.target}:
                raise InputError(f"encodings must be of columns whose features are there, got {each!r}")

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        content = dataclasses.asdict(self) | {"fit": None if self.fit is None else self.fit.to_json()}
        for name in ("encodings", "crs"):  # so that older cagp reads what it can read
            if not content[name]:
                del content[name]
        return content

    @classmethod
    def from_json(cls, content: Any) -> About:
        """The same, from what ``to_json`` gave."""
        known = {"features", "target", "units", "notes", "fit"}
        if not isinstance(content, dict) or set(content) - {"encodings", "crs"} != known:
            raise InputError("the entry 'about' must have exactly the entries features, target, units, notes and fit")
        fit = None if content["fit"] is None else FitSummary.from_json(content["fit"])
        encodings = tuple(map(_encoding, content.get("encodings", ())))
        texts = (content["units"], content["notes"], fit, encodings, content.get("crs"))
        return cls(content["features"], content["target"], *texts)


def _encoding(content: Any) -> Encoding:
    require_entries(content, [each.name for each in dataclasses.fields(Encoding)], "an encoding")
    if not isinstance(content["levels"], list) or content["zoned"] not in (True, False, None):
        raise InputError("the levels of an encoding must be a list, and zoned true, false or null")
    return Encoding(**content)


def _number_to_json(value: float) -> float | str:
    """JSON has no NaN and no infinity: they are written as text."""
    return value if math.isfinite(value) else repr(float(value))


def _number_from_json(value: Any) -> float:
    if isinstance(value, str) and value in ("nan", "inf", "-inf"):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InputTypeError(f"a number was expected, got {value!r}")
    return float(value)
