"""Models on disk: ``model.save(folder)`` and ``cagp.load(folder)``, which runs no code from it and checks all of it.

A model folder holds ``model.json`` (readable: prior, solver, settings, names) and one safetensors file (X, y, noise).
"""

from ..support.encodings import Encoding
from .about import About, FitSummary
from .folder import fingerprint_of, is_model_folder, load, read, require_writable, write
from .saved import Saved

__all__ = [
    "About",
    "Encoding",
    "FitSummary",
    "Saved",
    "fingerprint_of",
    "is_model_folder",
    "load",
    "read",
    "require_writable",
    "write",
]
