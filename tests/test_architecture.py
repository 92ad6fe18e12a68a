"""The plan of the house: which room may import which.

Every import counts, also those for type checkers and those inside functions: who reads a module has to know what it
names.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import cagp

PACKAGE = Path(cagp.__file__).parent

LAYERS = (
    "errors",  # what is raised on purpose
    "support",  # checks of arguments, memory, files, threads: knows nothing of Gaussian processes
    "kernels",  # covariance functions
    "means",  # mean functions
    "regression",  # trends that regressors learn
    "stopping",  # rules for when to stop
    "gram",  # G and k(X′, X), stored or recomputed: the door between kernels and solvers
    "algebra",  # what several methods are made of: sweeps, blocks, inducing points, weights
    "preconditioners",
    "solvers",
    "transforms",  # observations on another scale than the Gaussian process
    "prior",  # kernel, mean and noise
    "workers",  # other processes and devices
    "predicting",  # a solver on batches of test points, and bounds on what it leaves
    "prediction",  # what every prediction offers
    "fields",  # draws of whole fields
    "posterior",  # the prediction of one prior
    "averages",  # averages over whole fields
    "design",  # where to measure next
    "gradient",  # slopes
    "calibration",  # are the error bars right?
    "left_out",  # training observations predicted from the others
    "recalibration",  # error bars that hold on the data
    "story",  # how a model came about
    "model_parts",  # components, margins, transform and story
    "model",  # priors conditioned on data, and what was learned of their error bars
    "quantities",  # several quantities at the same places
    "hyperparameters",  # maximum likelihood
    "choosing",  # a fit that needs no expert
    "saving",  # model folders
    "datasets",  # public data
    "interop",  # other libraries' kernels, models and arrays
    "tables",  # files of columns
    "maps",  # rasters of predictions
    "shards",  # data that no process holds as a whole
    "reports",  # HTML about a fit
    "fit_report",  # their front door
    "estimator",  # scikit-learn
    "cagp",  # the front door: what ``import cagp`` offers
    "cli",  # the command line
    "__main__",
)
"""From the ground up: a room may import itself and what stands before it."""

EXCEPTIONS = {
    ("prior", "model"): "Prior.condition is a short cut to what is above: a prior is the first thing a user holds",
    ("prior", "hyperparameters"): "so is Prior.fit",
    ("model", "saving"): "and Model.save: a model can save itself",
    ("model", "reports"): "and Model.map: a model can be looked at",
    ("choosing.front_door", "shards"): "cagp.fit is the one door, also for data that are read in parts",
    ("saving.several", "shards"): "cagp.load is the one door to saved models",
    ("interop.xarray", "shards"): "field.cagp.fit is cagp.fit of a field, also of one that is read in parts",
    ("quantities", "saving"): "and QuantitiesModel.save",
}
"""Imports upwards that stay, as (who, whom); each has a room or a module on either side."""

ROOT = {
    "__init__",
    "__main__",
    "averages",
    "design",
    "errors",
    "fit_report",
    "gradient",
    "means",
    "model",
    "model_parts",
    "posterior",
    "prediction",
    "prior",
    "quantities",
    "regression",
    "stopping",
    "story",
    "transforms",
}


@dataclass(frozen=True)
class Import:
    """``who`` imports ``name`` from the module ``whom``; modules without the name of the package in front."""

    who: str
    whom: str
    name: str

    def is_one_of(self, pairs: Iterable[tuple[str, str]]) -> bool:
        return any(_within(self.who, who) and _within(self.whom, whom) for who, whom in pairs)

    def __str__(self) -> str:
        return f"{self.who} imports {self.name} from {self.whom}"


def _within(module: str, place: str) -> bool:
    return module == place or module.startswith(f"{place}.")


def _modules() -> dict[str, Path]:
    found = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        found[".".join(parts) or "cagp"] = path
    return found


def _imports_of(module: str, path: Path, modules: dict[str, Path]) -> Iterator[Import]:
    here = [] if module == "cagp" else module.split(".")
    package = here if path.name == "__init__.py" else here[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            own = [alias.name for alias in node.names if _within(alias.name, "cagp")]
            assert not own, f"{module} imports {own[0]} by its full name; write it relative to the module"
        if not isinstance(node, ast.ImportFrom) or not node.level:
            continue
        base = [*package[: len(package) - node.level + 1], *(node.module.split(".") if node.module else [])]
        for alias in node.names:
            inner = ".".join([*base, alias.name])
            yield Import(module, inner if inner in modules else ".".join(base) or "cagp", alias.name)


def _all_imports() -> list[Import]:
    modules = _modules()
    every = [each for module, path in modules.items() for each in _imports_of(module, path, modules)]
    assert len(every) > 500
    assert {each.whom for each in every} <= set(modules)
    return [each for each in every if each.who != each.whom]


IMPORTS = _all_imports()


def _room(module: str) -> str:
    return module.split(".")[0]


def _upward(each: Import) -> bool:
    return LAYERS.index(_room(each.whom)) > LAYERS.index(_room(each.who))


def test_every_room_has_its_place() -> None:
    assert {_room(module) for module in _modules()} == set(LAYERS)
    assert len(set(LAYERS)) == len(LAYERS)


def test_the_root_holds_what_a_user_holds() -> None:
    assert {path.stem for path in PACKAGE.glob("*.py")} == ROOT


def test_no_room_imports_one_above_it() -> None:
    wrong = [each for each in IMPORTS if _upward(each) and not each.is_one_of(EXCEPTIONS)]
    assert not wrong, "\n".join(map(str, wrong))


def test_no_module_imports_itself_through_others() -> None:
    free = [each for each in IMPORTS if not each.is_one_of(EXCEPTIONS)]
    below: dict[str, set[str]] = {each.who: set() for each in free}
    for each in free:
        below[each.who].add(each.whom)
    # take away modules that import nothing that is left, until none is left or all of them stand in a circle
    while gone := {who for who in below if not below[who] & below.keys()}:
        below = {who: whom for who, whom in below.items() if who not in gone}
    assert not below, "\n".join(f"{who} → {', '.join(sorted(whom & below.keys()))}" for who, whom in below.items())


def test_every_exception_is_needed() -> None:
    unneeded = [
        pair
        for pair in EXCEPTIONS
        if not any(each.is_one_of([pair]) and (_upward(each) or "." in pair[0]) for each in IMPORTS)
    ]
    assert not unneeded, f"delete {unneeded}"


def test_no_private_name_leaves_its_module() -> None:
    private = [each for each in IMPORTS if each.name.startswith("_") and not each.name.endswith("__")]
    assert not private, "\n".join(map(str, private))
