"""Fields, not only points: averages and other linear functionals of f."""

from .averages import Average, AveragePrediction, average
from .wanted import Wanted, wanted

__all__ = ["Average", "AveragePrediction", "Wanted", "average", "wanted"]
