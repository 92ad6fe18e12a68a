"""A fit that needs no expert: kernel, trend and error bars chosen by what they predict."""

from .front_door import fit
from .integrating import integrated

__all__ = ["fit", "integrated"]
