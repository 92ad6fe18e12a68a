"""Fields, not only points: joint draws at many test points."""

from .simulation import ModelSimulator, Simulation, Simulator

__all__ = ["ModelSimulator", "Simulation", "Simulator"]
