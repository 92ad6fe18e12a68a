"""The paper's experiments and our own: configuration → tables → figures → report. Run: ``cagp reproduce NAME``."""

from __future__ import annotations

from .acceleration import Acceleration
from .convergence import Smoothness, Synthetic
from .era5_full import Era5Full
from .era5_full_setting import Era5FullHyperparameters
from .era5_held_out import Era5Calibration, Era5Convergence
from .era5_hyperparameters import Era5Hyperparameters
from .era5_means import Era5Means
from .era5_timings import Era5Timings
from .heaton import Heaton
from .hybrid import Hybrid
from .machine import Forecast
from .recalibration import RecalibrationStudy
from .relocated import Relocated
from .report import Record, load_all
from .runner import run_study
from .sbc import Sbc, SbcIterations
from .scoreboard import Scoreboard
from .study import SCALES, AnyStudy, Comparison, Drawing, Presentation, Study
from .timing import Time
from .uci import Uci

STUDIES: dict[str, AnyStudy] = {
    study.name: study
    for study in (
        Synthetic(),
        Smoothness(),
        Sbc(),
        SbcIterations(),
        Time(),
        Uci(),
        Era5Hyperparameters(),
        Era5Means(),
        Era5Timings(),
        Era5Calibration(),
        Era5Convergence(),
        Era5FullHyperparameters(),
        Era5Full(),
        Acceleration(),
        Hybrid(),
        RecalibrationStudy(),
        Relocated(),
        Heaton(),
        Scoreboard(),
    )
}
"""All studies by name, in the order of the report."""

__all__ = [
    "SCALES",
    "STUDIES",
    "AnyStudy",
    "Comparison",
    "Drawing",
    "Forecast",
    "Presentation",
    "Record",
    "Study",
    "load_all",
    "run_study",
]
