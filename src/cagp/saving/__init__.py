"""Models on disk: ``model.save(folder)`` and ``cagp.load(folder)``, which runs no code from it and checks all of it.

A model folder holds ``model.json`` (readable: prior, solver, settings, names) and one safetensors file (X, y, noise).
"""

from ..support.encodings import Encoding
from .about import About, FitSummary
from .folder import fingerprint_of, is_model_folder, quantities_beside, read, require_writable, write
from .saved import Saved
from .several import holds_quantities, load, read_quantities, write_quantities

__all__ = [
    "About",
    "Encoding",
    "FitSummary",
    "Saved",
    "fingerprint_of",
    "holds_quantities",
    "is_model_folder",
    "load",
    "quantities_beside",
    "read",
    "read_quantities",
    "require_writable",
    "write",
    "write_quantities",
]
