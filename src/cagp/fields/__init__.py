"""Fields, not only points: joint draws at many test points."""

from .simulation import ComponentSimulator, Found, Simulation, Simulator

__all__ = ["ComponentSimulator", "Found", "Simulation", "Simulator"]
