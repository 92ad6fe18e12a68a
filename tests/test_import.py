"""``import cagp`` needs the core dependencies alone; the command line and reports need no pandas."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

import cagp
from cagp import kernels, solvers
from radial_kernels import RADIAL

REFUSE = """
import sys

class Refuse:
    refused = {refused!r}

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in self.refused:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Refuse())
"""
CORE_ONLY = f"""{REFUSE}
import numpy as np
import cagp

prior = cagp.Prior(cagp.Matern32(0.2), noise_variance=0.01)
X = np.random.default_rng(0).random((20, 2))
print(prior.condition(X, X[:, 0], cagp.GaussSeidel(2)).predict(X[:3], progress=True).mean.shape)
"""
COMMANDS = f"""{REFUSE}
import numpy as np
import cagp
from cagp.cli import app
from cagp.tables import write_table

rng = np.random.default_rng(0)
x, noise = rng.random(60), 0.1 * rng.normal(size=60)
write_table("train.csv", dict(x=x[:40], y=np.sin(6 * x + noise)[:40]))
write_table("new.csv", dict(x=x[40:], y=np.sin(6 * x + noise)[40:]))
write_table("globe.csv", dict(lat=60 * x, lon=90 * x, y=np.sin(6 * x)))
for line in (
    "fit train.csv --target y --out model --report model-report --kernel matern32 --no-uncertainty",
    "predict model new.csv --out predicted.parquet",
    "check model new.csv",
    "info model",
    "fit globe.csv --target y --globe lat,lon --no-fit --lengthscale 3000 --variance 1 --noise-variance 1 --out globe",
    "predict model new.csv --out predicted.nc",
):
    print("exit code", app(line.split(), standalone_mode=False))
cagp.fit_report.write_fit_report(cagp.load("model"), "report", holdout=(x[40:, None], np.sin(6 * x[40:])))
print("pandas" in sys.modules)
"""
OPTIONAL = (
    "sklearn", "pandas", "matplotlib", "rich", "typer", "joblib", "xarray", "dask", "pooch", "gpytorch",
    "triton", "h5netcdf", "safetensors", "distributed", "cloudpickle", "numba", "geopandas", "pyproj",
    "rasterio", "zarr",
)  # fmt: skip


def test_core_alone() -> None:
    code = CORE_ONLY.format(refused=OPTIONAL)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "(3,)"


def test_commands_and_reports_without_pandas(tmp_path: Path) -> None:
    code = COMMANDS.format(refused=("pandas", "xarray"))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    codes = [line.split()[-1] for line in done.stdout.splitlines() if line.startswith("exit code")]
    assert codes[2] in ("None", "3")  # what the check finds is not the question here
    assert codes[:2] + codes[3:] == ["None", "None", "None", "None", "1"]
    assert done.stderr.splitlines()[-1] == 'Error: NetCDF files need xarray and h5netcdf: pip install "cagp[xarray]"'
    assert (tmp_path / "predicted.parquet").is_file()
    assert (tmp_path / "report" / "report.html").is_file()


def test_a_map_names_the_extra() -> None:
    code = CORE_ONLY.format(refused=("jinja2",)) + "prior.condition(X, X[:, 0]).map('map.html')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1] == 'ImportError: pages need jinja2: pip install "cagp[report]"'


def test_no_extra_for_reports_or_commands_asks_for_pandas() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]

    def needed(extra: str) -> set[str]:
        found = set()
        for requirement in extras[extra]:
            inner = requirement.removeprefix("cagp[").rstrip("]") if requirement.startswith("cagp[") else ""
            found |= set().union(*map(needed, inner.split(","))) if inner else {requirement.split(">=")[0]}
        return found

    assert needed("cli") > needed("report") > {"jinja2"}
    assert not needed("cli") & {"pandas", "xarray"}  # the second needs the first


def test_nothing_optional_is_imported() -> None:
    code = (
        "import sys, torch, numpy, scipy; before = set(sys.modules); import cagp; cagp.Prior, cagp.load;"
        "print(*(set(sys.modules) - before)); import cagp.calibration; print(*(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    alone, with_calibration = (line.split() for line in done.stdout.splitlines())
    assert "cagp" in alone
    assert not {"scipy.stats", "scipy.signal"} & set(alone)  # they take as long as half of torch
    assert "cagp.calibration" in with_calibration
    for names in (alone, with_calibration):
        assert not {name.split(".")[0] for name in names} & set(OPTIONAL)


@pytest.mark.parametrize("line", ["--help", "--version", "fit --help", "predict --help", "check --help", "info --help"])
def test_help_does_not_wait_for_torch(line: str) -> None:
    code = (
        "import sys; from cagp.cli import app; app(sys.argv[1:], 'cagp', standalone_mode=False);"
        "print('\\nimported:', *sorted({'cagp.cli', 'scipy', 'torch'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code, *line.split()], capture_output=True, text=True, check=True)
    said, imported = done.stdout.split("imported: ")
    assert "cagp" in said
    assert imported.split() == ["cagp.cli"]


def test_public_names_are_those_that_type_checkers_see() -> None:
    tree = ast.parse(Path(cagp.__file__).read_text(encoding="utf-8"))
    homes = {
        alias.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.level
        for alias in node.names
    }
    shown = {*cagp.__all__, "CAGPRegressor", "__version__"}
    imported = {name for name, home in homes.items() if home or name in cagp.__all__}  # the others are modules
    assert not imported ^ shown, "in one of the imports and __all__ of cagp/__init__.py, and not in both"
    for name, home in homes.items():
        module = importlib.import_module(f"cagp.{home or name}")
        assert getattr(cagp, name) is (getattr(module, name) if home else module)


@pytest.mark.parametrize(("room", "kinds"), [(solvers, solvers.ALL), (kernels, RADIAL)], ids=["solvers", "kernels"])
def test_every_built_in_solver_and_function_of_the_distance_is_public(room: ModuleType, kinds: list[type]) -> None:
    for home in (room, cagp):
        missing = [each.__name__ for each in kinds if each.__name__ not in home.__all__]
        assert not missing, f"{missing} is missing in __all__ of {home.__name__}"


def test_unknown_names() -> None:
    assert not hasattr(cagp, "Kriging")
    with pytest.raises(AttributeError, match="has no attribute 'Kriging'"):
        _ = cagp.Kriging


def test_public_names() -> None:
    assert len(cagp.__all__) == len(set(cagp.__all__))
    for name in cagp.__all__:
        assert getattr(cagp, name).__doc__, name


def test_errors_have_a_common_base() -> None:
    known = [each for each in vars(cagp.errors).values() if isinstance(each, type)]
    kinds = [each for each in known if issubclass(each, Exception) and not issubclass(each, Warning)]
    assert len(kinds) == 9
    for kind in kinds:
        assert issubclass(kind, cagp.CagpError)
        assert getattr(cagp, kind.__name__) is kind
        builtin = [each for each in kind.__mro__ if each.__module__ == "builtins"]
        assert kind is cagp.CagpError or set(builtin) - {Exception, BaseException, object}
    assert cagp.datasets.DataError is cagp.DataError
