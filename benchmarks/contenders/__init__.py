"""The packages that ``peers.py`` runs side by side. Importing this needs none of them."""

from . import gpytorch_models, kriging, ours, regression, trees
from .contender import Contender

ALL: dict[str, Contender] = {
    each.name: each
    for each in (
        *ours.CONTENDERS,
        *regression.CONTENDERS,
        *kriging.CONTENDERS,
        *gpytorch_models.CONTENDERS,
        *trees.CONTENDERS,
    )
}
