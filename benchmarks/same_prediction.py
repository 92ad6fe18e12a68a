"""The same prediction with other libraries: mean and variance of 25 points from d = 10,638 in the plane, Matérn 3/2.

scikit-learn's GaussianProcessRegressor without its optimiser (fit, then predict with return_std), GPyTorch's exact
prediction by Cholesky and by conjugate gradients, float64, the same parameters for all. Error is the largest difference
of a standard deviation from the exact one, relative to it. The others aim at the exact one. cagp's is wider on purpose
where its computation stopped early, and covers the truth as often as it says.

    python benchmarks/same_prediction.py [--quick]
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable

import gpytorch
import numpy as np
import torch
from problem import LENGTHSCALE, NOISE, PRIOR, data
from record import options, table, write
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import Matern

import cagp

T = 25
Problem = tuple[np.ndarray, np.ndarray, np.ndarray]


def ours(solver: cagp.Solver, problem: Problem, solve_dtype: str | None = None) -> np.ndarray:
    X, y, X_test = problem
    return np.asarray(PRIOR.condition(X, y, solver, solve_dtype=solve_dtype).predict(X_test, progress=False).std)


def scikit_learn(problem: Problem) -> np.ndarray:
    X, y, X_test = problem
    model = GaussianProcessRegressor(Matern(LENGTHSCALE, nu=1.5), alpha=NOISE, optimizer=None).fit(X, y)
    return np.asarray(model.predict(X_test, return_std=True)[1])


class ExactGP(gpytorch.models.ExactGP):  # type: ignore[misc]
    def __init__(self, X: torch.Tensor, y: torch.Tensor) -> None:
        likelihood = gpytorch.likelihoods.GaussianLikelihood()
        super().__init__(X, y, likelihood)
        self.mean_module = gpytorch.means.ZeroMean()
        self.covar_module = gpytorch.kernels.MaternKernel(nu=1.5)
        self.covar_module.lengthscale = LENGTHSCALE
        likelihood.noise = NOISE

    def forward(self, x: torch.Tensor) -> gpytorch.distributions.MultivariateNormal:
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def gpytorch_exact(problem: Problem, largest_cholesky: int) -> np.ndarray:
    """GPyTorch takes conjugate gradients beyond ``largest_cholesky`` points; 800 is its default."""
    X, y, X_test = (torch.from_numpy(part) for part in problem)
    model = ExactGP(X, y).double()
    model.eval()
    with torch.no_grad(), gpytorch.settings.max_cholesky_size(largest_cholesky), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that conjugate gradients stopped at their limit: the error column tells
        prediction = model(X_test)
        prediction.mean  # noqa: B018, it is computed here
        return np.asarray(prediction.variance.sqrt())


def main() -> None:
    arguments = options(__doc__).parse_args()
    d = 400 if arguments.quick else 10_638
    problem = data(d, T)
    contenders: dict[str, Callable[[], np.ndarray]] = {
        "cagp `Cholesky()`": lambda: ours(cagp.Cholesky(), problem),
        "cagp `NearestNeighbours(100)`": lambda: ours(cagp.NearestNeighbours(100), problem),
        "cagp `CalibratedCG(15, Nystrom(1000))`": lambda: ours(cagp.CalibratedCG(15, cagp.Nystrom(1000)), problem),
        "cagp `GaussSeidel(80)`": lambda: ours(cagp.GaussSeidel(80), problem),
        "cagp `GaussSeidel(80)`, sweeps in float32": lambda: ours(cagp.GaussSeidel(80), problem, "float32"),
        "scikit-learn `GaussianProcessRegressor`": lambda: scikit_learn(problem),
        "GPyTorch, Cholesky": lambda: gpytorch_exact(problem, 10**9),
        "GPyTorch, conjugate gradients (its default at this size)": lambda: gpytorch_exact(
            problem, 800 if d > 800 else 1
        ),
    }
    small = data(900, T)
    for warm in (lambda: scikit_learn(small), lambda: gpytorch_exact(small, 800), lambda: ours(cagp.Cholesky(), small)):
        warm()
    seconds, std = {}, {}
    for name, call in contenders.items():
        start = time.perf_counter()
        std[name] = call()
        seconds[name] = time.perf_counter() - start
    exact = std["scikit-learn `GaussianProcessRegressor`"]
    rows = [[name, f"{seconds[name]:.3g}", f"{100 * np.abs(std[name] / exact - 1).max():.2g}%"] for name in contenders]
    tables = [
        table(
            f"Mean and standard deviation of {T} points, d = {d:,}, float64",
            ["what", "seconds", "largest error of a standard deviation"],
            rows,
            "From the data to the prediction, one run each after a small one that loads the libraries. Exact: "
            "scikit-learn's. cagp's are wider, never narrower, where the computation stopped early.",
        )
    ]
    write(arguments.out, "same_prediction", "Other libraries on the same prediction", tables, arguments.quick)


if __name__ == "__main__":
    main()
