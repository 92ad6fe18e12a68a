"""Fields, not only points: averages and other linear functionals of f, and joint draws at many test points."""

from .averages import Average, AveragePrediction, average
from .simulation import ModelSimulator, Simulation, Simulator
from .wanted import Wanted, wanted

__all__ = [
    "Average",
    "AveragePrediction",
    "ModelSimulator",
    "Simulation",
    "Simulator",
    "Wanted",
    "average",
    "wanted",
]
