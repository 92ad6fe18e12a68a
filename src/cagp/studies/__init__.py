"""The paper's experiments: configuration → tidy table → figure → report. Run them with ``cagp reproduce NAME``."""

from __future__ import annotations

from .base import SCALES, AnyStudy, Comparison, Drawing, Presentation, Study
from .record import Record, load_all
from .runner import run_study
from .sbc import Sbc
from .sbc_iterations import SbcIterations
from .smoothness import Smoothness
from .synthetic import Synthetic
from .timing import Time

STUDIES: dict[str, AnyStudy] = {
    study.name: study for study in (Synthetic(), Smoothness(), Sbc(), SbcIterations(), Time())
}
"""All studies by name, in the order of the report."""

__all__ = [
    "SCALES",
    "STUDIES",
    "AnyStudy",
    "Comparison",
    "Drawing",
    "Presentation",
    "Record",
    "Study",
    "load_all",
    "run_study",
]
