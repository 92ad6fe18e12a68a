"""``import cagp`` needs torch, numpy and scipy alone."""

from __future__ import annotations

import subprocess
import sys

import cagp

CORE_ONLY = """
import sys

class Refuse:
    refused = {refused!r}

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in self.refused:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Refuse())
import numpy as np
import cagp

prior = cagp.Prior(cagp.Matern32(0.2), noise_variance=0.01)
X = np.random.default_rng(0).random((20, 2))
print(prior.condition(X, X[:, 0], cagp.GaussSeidel(2)).predict(X[:3], progress=True).mean.shape)
"""
OPTIONAL = (
    "sklearn", "pandas", "matplotlib", "rich", "typer", "joblib", "scoringrules", "xarray", "dask", "pooch", "gpytorch",
    "triton", "h5netcdf", "safetensors", "distributed", "cloudpickle",
)  # fmt: skip


def test_core_alone() -> None:
    code = CORE_ONLY.format(refused=OPTIONAL)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "(3,)"


def test_nothing_optional_is_imported() -> None:
    code = (
        "import sys, torch, numpy, scipy; before = set(sys.modules); import cagp; print(*(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    packages = {name.split(".")[0] for name in done.stdout.split()}
    assert not packages & set(OPTIONAL)


def test_public_names() -> None:
    assert len(cagp.__all__) == len(set(cagp.__all__))
    for name in cagp.__all__:
        assert getattr(cagp, name).__doc__, name


def test_errors_have_a_common_base() -> None:
    kinds = [each for each in vars(cagp.errors).values() if isinstance(each, type) and issubclass(each, Exception)]
    assert len(kinds) == 9
    for kind in kinds:
        assert issubclass(kind, cagp.CagpError)
        assert getattr(cagp, kind.__name__) is kind
        builtin = [each for each in kind.__mro__ if each.__module__ == "builtins"]
        assert kind is cagp.CagpError or set(builtin) - {Exception, BaseException, object}
    assert cagp.datasets.DataError is cagp.DataError
