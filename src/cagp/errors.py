"""The exceptions that cagp raises on purpose.

Each is also a builtin exception of the obvious kind, so ``except ValueError`` keeps working.
"""

from __future__ import annotations

import numpy as np


class CagpError(Exception):
    """What all of them are: ``except cagp.CagpError`` catches whatever cagp raises on purpose, and nothing else."""


class InputError(CagpError, ValueError):
    """An argument is wrong. The message names the argument, its value and the remedy."""


class InputTypeError(InputError, TypeError):
    """An argument has a type that cannot be used (complex numbers, objects, text)."""


class MemoryBudgetError(CagpError, MemoryError):
    """The work would exceed the memory budget. Raised before anything is allocated."""


class NotPositiveDefiniteError(CagpError, np.linalg.LinAlgError):
    """A matrix that must be positive definite is not, to working precision."""


class DivergenceError(CagpError, ValueError):
    """A stationary method was refused because it does not converge on this Gram matrix."""


class SavedModelError(InputError):
    """A model folder cannot be used: damaged, unsafe, not a model at all, or from a newer cagp."""


class TableError(InputError):
    """A table file cannot be used. The message names the file, the row or column, and the remedy."""


class DataError(CagpError, OSError):
    """A data file is missing, cannot be fetched, or is not what it should be. The message says what to do."""


class DataWarning(UserWarning):
    """Rows can be used, but need a look. The message names them, what is odd about them, and the remedy."""
