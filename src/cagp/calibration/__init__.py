"""Is a posterior calibrated? Simulation-based calibration, held-out scores, simultaneous bands, plots.

Tests, bands and scores need only numpy and scipy, the plots matplotlib and simulations in parallel joblib:
``pip install "cagp[calibration]"`` brings both.
"""

from . import plots
from .assessment import Assessment, SimulationResult, assess
from .bands import Band, ecdf_band, histogram_band
from .scores import Scores, evaluate, score
from .simulation import simulation_based_calibration

__all__ = [
    "Assessment",
    "Band",
    "Scores",
    "SimulationResult",
    "assess",
    "ecdf_band",
    "evaluate",
    "histogram_band",
    "plots",
    "score",
    "simulation_based_calibration",
]
