"""A trained GPyTorch model as a cagp model: the usual kernels natively, any other block by block."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from operator import add, mul
from typing import Any

import numpy as np
import torch

from ..errors import InputError, InputTypeError
from ..kernels import RBF, CustomKernel, Embedding, Kernel, Matern12, Matern32, Matern52, Periodic, RationalQuadratic
from ..means import Constant, Mean, Polynomial, Zero, as_mean
from ..model import Model
from ..prior import Prior
from ..solvers import Solver

try:
    import gpytorch
    from gpytorch import kernels as gk
    from gpytorch.kernels import keops
except ImportError as error:
    raise ImportError("from_gpytorch needs GPyTorch: pip install 'cagp[gpytorch]'") from error

_ONE = "cagp takes one output at a time: train one ExactGP with targets of shape (n,) for each and convert each"
_PROBES = 40
_AGREEMENT = 1e-6  # of the largest variance, to count as the same; GPyTorch's distances lose up to 1e-8
_MATERN: dict[float, Callable[[Any], Kernel]] = {0.5: Matern12, 1.5: Matern32, 2.5: Matern52}
_POINTS = 256  # how many variances are asked for at once: some kernels make the whole matrix for its diagonal


def from_gpytorch(
    model: Any, likelihood: Any = None, *, solver: Solver | str = "auto", **condition_options: Any
) -> Model:
    """A cagp model with the kernel, mean, noise and data of a trained ``gpytorch.models.ExactGP``.

    ``likelihood``, by default ``model.likelihood``, is a GaussianLikelihood or a FixedNoiseGaussianLikelihood (with or
    without second noise). ``solver`` and ``condition_options`` are those of ``Prior.condition``.

    ScaleKernel, MaternKernel, RBFKernel, RQKernel, PeriodicKernel, their sums, products and ``active_dims``, and
    ZeroMean, ConstantMean and LinearMean become cagp's own, which are fast; GPyTorch is asked for any other mean, and
    block by block for any other kernel. Where ``forward`` does more than call them, which is found out by comparing,
    it is asked itself. ``print(result.prior)`` shows what became of them.

    The model is read once and not changed. cagp computes in float64, like ``model.double()``; with
    ``dtype="float32"`` in single precision, but for blocks that GPyTorch evaluates.
    """
    _check_model(model)
    X, y = model.train_inputs[0].detach(), model.train_targets.detach()
    device = torch.device(condition_options.get("device") or X.device)
    noise = _noise_variance(model.likelihood if likelihood is None else likelihood, len(X))
    frozen = _frozen(model, device)
    probe = X[:: -(-len(X) // _PROBES)].to(device=device, dtype=torch.float64)
    said = _ask(frozen, probe)
    kernels, means = ([p for p in frozen.children() if isinstance(p, k)] for k in (gk.Kernel, gpytorch.means.Mean))
    prior = None
    if len(kernels) == len(means) == 1:
        mean = _mean_from_gpytorch(means[0], device)
        prior = Prior(kernel_from_gpytorch(kernels[0], device), mean=mean, noise_variance=noise)
    if prior is None or not _agrees(prior, probe, *said):
        mean = as_mean(_MeanFunction(frozen, device, forward=True))
        prior = Prior(GPyTorchKernel(KernelBlocks(frozen, device, forward=True)), mean=mean, noise_variance=noise)
    return prior.condition(X, y, solver, **condition_options)


def _check_model(model: Any) -> None:
    if not isinstance(model, gpytorch.models.ExactGP):
        remedy = "approximate models have no data of their own" if isinstance(model, gpytorch.models.GP) else "pass one"
        raise InputTypeError(f"model must be a gpytorch.models.ExactGP, got {type(model).__name__}; {remedy}")
    if model.train_inputs is None or model.train_targets is None:
        raise InputError("the model has no training data; give it some with model.set_train_data(X, y, strict=False)")
    if (n := len(model.train_inputs)) != 1:
        remedy = "put all columns in one tensor and pick them with active_dims"
        raise InputError(f"the model has {n} training inputs, cagp takes one matrix of points; {remedy}")
    inputs, targets = model.train_inputs[0], model.train_targets
    if inputs.ndim != 2 or targets.ndim != 1:
        shapes = f"inputs {tuple(inputs.shape)}, targets {tuple(targets.shape)}"
        raise InputError(f"the model is a batch or multitask model: {shapes}. {_ONE}")
    for module in model.modules():
        if isinstance(module, gk.InducingPointKernel):
            raise InputError(
                "the model has an InducingPointKernel, an approximation that cagp does not need; build the model with "
                "its base_kernel, load the trained values, and convert that"
            )
        if isinstance(module, gk.Kernel):
            outputs = module.num_outputs_per_input(inputs[:1], inputs[:1])
            if outputs != 1 or len(module.batch_shape):
                found = f"{outputs} outputs per input and batch shape {tuple(module.batch_shape)}"
                raise InputError(f"the model's {type(module).__name__} has {found}. {_ONE}")


def _noise_variance(likelihood: Any, size: int) -> float | np.ndarray:
    kind = type(likelihood)
    if kind is gpytorch.likelihoods.GaussianLikelihood:
        noise = _double(likelihood.noise_covar).noise
        if noise.numel() != 1:
            raise InputError(f"the likelihood has a batch of noises, shape {tuple(noise.shape)}; cagp takes one")
        return float(noise)
    if kind is not gpytorch.likelihoods.FixedNoiseGaussianLikelihood:
        raise InputTypeError(
            f"likelihood must be a GaussianLikelihood or a FixedNoiseGaussianLikelihood, got {kind.__name__}; for "
            "other Gaussian noise, build a FixedNoiseGaussianLikelihood from its variances at the training points"
        )
    noise = likelihood.noise_covar.noise.detach().double()
    if likelihood.second_noise_covar is not None:
        noise = noise + _double(likelihood.second_noise_covar).noise.to(noise.device)
    if noise.shape != (size,):
        has = f"noise variances of shape {tuple(noise.shape)}, the model has {size} observations"
        raise InputError(f"the likelihood has {has}; give one per observation")
    return noise.cpu().numpy()


def _double(module: Any) -> Any:
    """A copy in float64 that computes without gradients."""
    return copy.deepcopy(module).double().requires_grad_(False)


def _frozen(model: Any, device: torch.device) -> Any:
    """A copy of the model without its data, likelihood and caches, in float64, in evaluation mode, on ``device``."""
    shell = copy.copy(model)
    parts = {name: part for name, part in model._modules.items() if name != "likelihood"}
    shell.__dict__.update(prediction_strategy=None, train_inputs=None, _train_targets=None, _modules=parts)
    try:
        return _double(shell).eval().to(device)
    except RuntimeError as error:
        remedy = "model.train() drops cached results that hold gradients"
        raise InputError(f"the model could not be copied: {error}; {remedy}") from error


def _mean_from_gpytorch(mean: Any, device: torch.device) -> Mean:
    kind = type(mean)
    if kind is gpytorch.means.ZeroMean:
        return Zero()
    if kind is gpytorch.means.ConstantMean and mean.constant.numel() == 1:
        return Constant(mean.constant.item())
    if kind is gpytorch.means.LinearMean and mean.weights.ndim == 2:
        bias = 0.0 if mean.bias is None else mean.bias.item()
        return Polynomial(degree=1, coefficients=(bias, *mean.weights.flatten().tolist()))
    return as_mean(_MeanFunction(mean, device))


@dataclass(frozen=True)
class _Module:
    """A GPyTorch kernel or mean, or a model whose own ``forward`` is asked, on ``device``."""

    module: Any
    device: torch.device
    forward: bool = False

    def __repr__(self) -> str:
        return type(self.module).__name__ + (".forward" if self.forward else "")


class _MeanFunction(_Module):
    """The mean as a function of numpy points (n, p)."""

    def __call__(self, X: np.ndarray) -> np.ndarray:
        given = torch.from_numpy(X).to(self.device)
        with torch.no_grad():
            values = self.module.forward(given).mean if self.forward else self.module(given)
        return values.cpu().numpy()


def _ask(frozen: Any, A: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The mean (n,), the covariance (n, n) with the points one place further, and the variances (n,) at A (n, p)."""
    name, forward = type(frozen).__name__, KernelBlocks(frozen, A.device, forward=True)
    try:
        with torch.no_grad():
            mean = frozen.forward(A).mean
        block, variances = forward(A, A.roll(1, dims=0)), forward.diagonal(A)
    except Exception as error:  # whatever a user's own forward may raise
        raise InputError(
            f"{name}.forward failed on {len(A)} of the training points in float64: {error}. Tensors that it uses must "
            "be parameters or buffers, so that model.double() converts them, and the covariance lazy, as kernels "
            "return it"
        ) from error
    if mean.shape != (len(A),) or block.shape != (len(A), len(A)):
        found = f"gives a mean of shape {tuple(mean.shape)} for {len(A)} points"
        raise InputError(f"{name}.forward {found}: it is a batch or multitask model. {_ONE}")
    return mean, block, variances


def _agrees(prior: Prior, A: torch.Tensor, mean: torch.Tensor, block: torch.Tensor, variances: torch.Tensor) -> bool:
    """Whether a translated prior says the same about the points A (n, p) as ``_ask`` heard."""
    try:
        own_mean, own_block = prior.mean(A), prior.kernel(A, A.roll(1, dims=0))
    except (InputError, RuntimeError):  # made for other columns than those of the data
        return False
    scale = variances.abs().max()
    same_mean = (own_mean - mean).abs().max() <= _AGREEMENT * (scale.sqrt() + mean.abs().max())
    return bool(same_mean and (own_block - block).abs().max() <= _AGREEMENT * scale)


class KernelBlocks(_Module):
    """Blocks k(A, B) in float64."""

    def __call__(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        """A (n, p) and B (m, p) to the block (n, m), in float64 on the device of A."""
        rows, columns = (each.to(device=self.device, dtype=torch.float64).contiguous() for each in (A, B))
        with torch.no_grad():
            if self.forward:
                joint = self.module.forward(torch.cat([rows, columns])).lazy_covariance_matrix
                return joint[: len(A), len(A) :].to_dense().to(A.device)
            return self.module(rows, columns).to_dense().to(A.device)

    def diagonal(self, A: torch.Tensor) -> torch.Tensor:
        """k(a, a) for every point of A (n, p), shape (n,), in float64 on the device of A."""
        given = torch.split(A.to(device=self.device, dtype=torch.float64).contiguous(), _POINTS)
        with torch.no_grad():
            if self.forward:
                found = [self.module.forward(part).lazy_covariance_matrix.diagonal(dim1=-1, dim2=-2) for part in given]
            else:
                found = [self.module(part, diag=True) for part in given]
        return torch.cat(found).to(A.device)


@dataclass(frozen=True)
class GPyTorchKernel(CustomKernel):
    """variance · k(a, b) of a GPyTorch kernel with one output per input, evaluated block by block in float64."""

    function: KernelBlocks

    def diagonal(self, A: Embedding) -> torch.Tensor:
        assert isinstance(A, torch.Tensor)
        return self.variance * self.function.diagonal(A.T).to(A.dtype)


def kernel_from_gpytorch(kernel: Any, device: torch.device) -> Kernel:
    """A cagp kernel with the values of a GPyTorch kernel that nobody else changes, in float64 and on ``device``."""
    if type(kernel) is gk.MultiDeviceKernel:
        return kernel_from_gpytorch(kernel.base_kernel, device)
    native = _native(kernel, device)
    if native is None:
        return GPyTorchKernel(KernelBlocks(kernel, device))
    return native if kernel.active_dims is None else native.on(*kernel.active_dims.tolist())


def _native(kernel: Any, device: torch.device) -> Kernel | None:
    """The same function on the columns that ``kernel.forward`` sees; None where cagp has none."""
    kind = type(kernel)  # exactly: a subclass may compute anything
    if kind is gk.ScaleKernel:  # calls base_kernel.forward, so that only its own active_dims count
        inner = _native(kernel.base_kernel, device)
        return None if inner is None else inner.scaled(kernel.outputscale.item())
    if kind is gk.AdditiveKernel or kind is gk.ProductKernel:
        parts = [kernel_from_gpytorch(part, device) for part in kernel.kernels]
        return reduce(add if kind is gk.AdditiveKernel else mul, parts)
    if kind in (gk.MaternKernel, keops.MaternKernel):
        return _MATERN[kernel.nu](_each(kernel.lengthscale))
    if kind in (gk.RBFKernel, keops.RBFKernel):
        return RBF(_each(kernel.lengthscale))
    if kind is gk.RQKernel:
        return RationalQuadratic(_each(kernel.lengthscale), alpha=kernel.alpha.item())
    if kind in (gk.PeriodicKernel, keops.PeriodicKernel):
        # GPyTorch's lengthscale of this kernel is not squared: exp(−2 Σⱼ sin²(π δⱼ / period) / lengthscale)
        return Periodic(_each(kernel.lengthscale.sqrt()), period=_each(kernel.period_length))
    return None


def _each(values: torch.Tensor) -> float | tuple[float, ...]:
    """A parameter (1, p) as one number or one per column."""
    return values.item() if values.numel() == 1 else tuple(values.flatten().tolist())
