"""scikit-learn's kernels as cagp's; those that cagp has no equal of are evaluated by scikit-learn, block by block."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sklearn.base import clone
from sklearn.gaussian_process import kernels as sk

from .. import kernels as ck
from ..errors import InputError, InputTypeError
from ..support.validation import count

_MATERN: dict[float, type[ck.Kernel]] = {0.5: ck.Matern12, 1.5: ck.Matern32, 2.5: ck.Matern52, math.inf: ck.RBF}


@dataclass(frozen=True)
class Link:
    """cagp's ``name``, within ``bounds``, is a ``power`` of scikit-learn's ``parameter``, or of its entry ``part``."""

    name: str
    parameter: str
    part: int
    power: int
    bounds: tuple[float, float]
    free: bool

    @classmethod
    def of(cls, name: str, parameter: str, kernel: Any, *, part: int = 0, power: int = 1) -> Link:
        """A link to the hyperparameter of a scikit-learn kernel that its ``parameter`` ends in."""
        own = parameter.rsplit("__", 1)[-1]
        found = next(h for h in kernel.hyperparameters if h.name == own)
        if found.fixed:
            return cls(name, parameter, part, power, (0.0, np.inf), False)
        low, high = np.broadcast_to(found.bounds, (found.n_elements, 2))[part]
        return cls(name, parameter, part, power, (float(low) ** power, float(high) ** power), True)

    def below(self, path: str) -> Link:
        """The same link, seen from a kernel that contains this one at ``path``."""
        return dataclasses.replace(self, name=path + self.name)

    def put(self, kernel: Any, value: float) -> None:
        """Give the scikit-learn kernel the value that corresponds to cagp's ``value``."""
        values = np.array(kernel.get_params()[self.parameter], dtype=float)
        values[self.part if values.ndim else ()] = value ** (1 / self.power)
        kernel.set_params(**{self.parameter: values if values.ndim else float(values)})


@dataclass(frozen=True)
class Noise:
    """A WhiteKernel term: a ``variance`` within ``bounds``, in proportion to ``level``, the value of ``parameter``."""

    parameter: str
    level: float
    variance: float
    bounds: tuple[float, float]
    free: bool


@dataclass(frozen=True)
class Node:
    """A translated kernel, links of its hyperparameters, and the parts that only scikit-learn can evaluate."""

    kernel: ck.Kernel
    links: tuple[Link, ...] = ()
    opaque: tuple[Any, ...] = ()
    takes_variance: bool = False


def joined(kind: type[ck.Sum] | type[ck.Product], nodes: Sequence[Node]) -> Node:
    """The sum or product of several nodes; of one, that one."""
    if len(nodes) == 1:
        return nodes[0]
    return Node(
        kind(tuple(node.kernel for node in nodes)),
        tuple(link.below(f".kernels[{i}]") for i, node in enumerate(nodes) for link in node.links),
        tuple(part for node in nodes for part in node.opaque),
    )


@dataclass(frozen=True)
class SklearnFunction:
    """A scikit-learn kernel as a function of two blocks of points, for ``CustomKernel``; runs on the CPU."""

    kernel: sk.Kernel

    def __call__(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        block = self.kernel(A.detach().cpu().double().numpy(), B.detach().cpu().double().numpy())
        return torch.from_numpy(np.ascontiguousarray(block)).to(A.device)


@dataclass(frozen=True)
class Translation:
    """A scikit-learn kernel in cagp's terms.

    ``kernel`` is None where ``source`` is noise alone; ``noise_variance`` what its ``WhiteKernel`` terms add up to.
    ``fixed`` hyperparameters have no free counterpart, ``bounds`` are the limits of the others. Only scikit-learn can
    evaluate ``opaque`` parts.
    """

    source: sk.Kernel
    kernel: ck.Kernel | None
    noise_variance: float
    links: tuple[Link, ...]
    noise: tuple[Noise, ...]
    fixed: tuple[str, ...]
    bounds: Mapping[str, tuple[float, float]]
    opaque: tuple[sk.Kernel, ...]

    @property
    def noise_is_free(self) -> bool:
        """Whether a fit may change the noise."""
        return any(term.free for term in self.noise)

    @property
    def noise_bounds(self) -> tuple[float, float]:
        """The limits of the noise; those of a term that is not free are its variance."""
        low, high = (sum(term.bounds[side] for term in self.noise) for side in (0, 1))
        return low, high

    def to_sklearn(self, values: Mapping[str, float], noise_variance: float | None = None) -> sk.Kernel:
        """``source`` with other values: those of cagp's hyperparameters by name, and the noise variance."""
        fitted = clone(self.source)
        for link in self.links:
            if link.name in values:
                link.put(fitted, values[link.name])
        free = [term for term in self.noise if term.free]
        if noise_variance is not None and free:
            held = sum(term.variance for term in self.noise if not term.free)
            factor = (noise_variance - held) / sum(term.variance for term in free)
            fitted.set_params(**{term.parameter: term.level * factor for term in free})
        return fitted


def from_sklearn(kernel: sk.Kernel, n_features: int) -> Translation:
    """A scikit-learn kernel on points with ``n_features`` columns as a cagp kernel and a noise variance.

    Exact for ConstantKernel, RBF, Matern (ν = 0.5, 1.5, 2.5, ∞), RationalQuadratic, ExpSineSquared (of one column),
    DotProduct, WhiteKernel, and their sums, products and whole powers. Other kernels become a ``CustomKernel`` that
    asks scikit-learn for every block.

    >>> from sklearn.gaussian_process.kernels import Matern, WhiteKernel
    >>> from cagp.interop import from_sklearn
    >>> found = from_sklearn(2.0 * Matern(0.3, nu=1.5) + WhiteKernel(0.1), n_features=1)
    >>> found.kernel, found.noise_variance
    (Matern32(lengthscale=0.3, variance=2.0), 0.1)
    """
    if not isinstance(kernel, sk.Kernel):
        raise InputTypeError(f"kernel must be a kernel of sklearn.gaussian_process.kernels, got {kernel!r}")
    count(n_features, "n_features", minimum=1)
    terms, noise = [], []
    for prefix, term in _flattened(kernel, sk.Sum, ""):
        white = _as_noise(prefix, term)
        if white is None:
            terms.append(_translated(prefix, term, n_features))
        else:
            noise.append(white)
    variance = float(sum(term.variance for term in noise))
    if not terms:
        return Translation(kernel, None, variance, (), tuple(noise), (), {}, ())
    node = joined(ck.Sum, terms)
    links = tuple(link.below("kernel") for link in node.links)
    bounds = {link.name: link.bounds for link in links if link.free}
    fixed = tuple(name for name in node.kernel.hyperparameter_names() if name not in bounds)
    return Translation(kernel, node.kernel, variance, links, tuple(noise), fixed, bounds, node.opaque)


def _flattened(kernel: Any, kind: Any, prefix: str) -> list[tuple[str, sk.Kernel]]:
    """The terms of a sum, or the factors of a product, each with the prefix of its parameters' names."""
    if not isinstance(kernel, kind):
        return [(prefix, kernel)]
    return [*_flattened(kernel.k1, kind, f"{prefix}k1__"), *_flattened(kernel.k2, kind, f"{prefix}k2__")]


def _as_noise(prefix: str, kernel: sk.Kernel) -> Noise | None:
    """A WhiteKernel, alone or times constants, as noise; None where there is no WhiteKernel in it."""
    if not _has_white(kernel):
        return None
    factors = _flattened(kernel, sk.Product, prefix)
    white = [(at, factor) for at, factor in factors if isinstance(factor, sk.WhiteKernel)]
    constants = [(at, factor) for at, factor in factors if isinstance(factor, sk.ConstantKernel)]
    if len(white) != 1 or len(constants) != len(factors) - 1:
        allowed = "cagp takes it as a term of a sum, alone or times a ConstantKernel"
        raise InputError(f"WhiteKernel is inside {kernel}; {allowed}: multiply the brackets out")
    (at, level), scale = white[0], math.prod(factor.constant_value for _, factor in constants)
    variance, free = level.noise_level * scale, not level.hyperparameters[0].fixed
    for place, factor in constants:  # one number is enough: the first constant that is free stands for all
        if not free and not factor.hyperparameters[0].fixed:
            value, rest = factor.constant_value, variance / factor.constant_value
            return Noise(f"{place}constant_value", value, value * rest, _limits(factor, rest), True)
    bounds = _limits(level, scale) if free else (variance, variance)
    return Noise(f"{at}noise_level", level.noise_level, variance, bounds, free)


def _has_white(kernel: Any) -> bool:
    parts = [getattr(kernel, name, None) for name in ("k1", "k2", "kernel")] + list(getattr(kernel, "kernels", ()))
    return isinstance(kernel, sk.WhiteKernel) or any(_has_white(p) for p in parts if isinstance(p, sk.Kernel))


def _limits(kernel: sk.Kernel, scale: float) -> tuple[float, float]:
    low, high = np.ravel(kernel.hyperparameters[0].bounds)
    return float(low) * scale, float(high) * scale


def _translated(prefix: str, kernel: sk.Kernel, n_features: int) -> Node:
    if isinstance(kernel, sk.Sum):
        terms = _flattened(kernel, sk.Sum, prefix)
        return joined(ck.Sum, [_translated(at, term, n_features) for at, term in terms])
    if isinstance(kernel, sk.Product):
        return _product(_flattened(kernel, sk.Product, prefix), n_features)
    if type(kernel) is sk.Exponentiation and float(kernel.exponent).is_integer() and kernel.exponent >= 1:
        inner = _translated(f"{prefix}kernel__", kernel.kernel, n_features)
        if not inner.opaque:
            links = tuple(link.below(".kernel") for link in inner.links)
            return Node(ck.Power(inner.kernel, int(kernel.exponent)), links)
    return _leaf(prefix, kernel, n_features)


def _product(factors: list[tuple[str, sk.Kernel]], n_features: int) -> Node:
    """Constants become the variances of the other factors, as far as these have one; the rest stay factors."""
    constants = [(at, factor) for at, factor in factors if type(factor) is sk.ConstantKernel]
    nodes = [_translated(at, f, n_features) for at, f in factors if type(f) is not sk.ConstantKernel]
    for i, node in enumerate(nodes):
        if constants and node.takes_variance:
            at, constant = constants.pop(0)
            link = Link.of(".variance", f"{at}constant_value", constant)
            scaled = dataclasses.replace(node.kernel, variance=float(constant.constant_value))  # type: ignore[type-var]
            nodes[i] = dataclasses.replace(node, kernel=scaled, links=(*node.links, link), takes_variance=False)
    return joined(ck.Product, [*nodes, *(_leaf(at, constant, n_features) for at, constant in constants)])


def _leaf(prefix: str, kernel: sk.Kernel, n_features: int) -> Node:
    # a subclass may compute something else, so the type itself decides
    kind = type(kernel)

    def link(name: str, parameter: str, **options: int) -> Link:
        return Link.of(f".{name}", f"{prefix}{parameter}", kernel, **options)

    if kind is sk.ConstantKernel:
        return Node(ck.Level(float(kernel.constant_value)), (link("variance", "constant_value"),))
    if kind is sk.DotProduct:
        made: ck.Kernel = ck.Linear(1.0, float(kernel.sigma_0) ** 2)
        links = [link("offset", "sigma_0", power=2)]
    elif kind is sk.RBF or (kind is sk.Matern and kernel.nu in _MATERN):
        scales = np.atleast_1d(kernel.length_scale)
        several = np.ndim(kernel.length_scale) == 1 and len(scales) > 1
        lengthscale = tuple(map(float, scales)) if several else float(scales[0])
        made = (ck.RBF if kind is sk.RBF else _MATERN[kernel.nu])(lengthscale)  # type: ignore[call-arg]
        names = [f"lengthscale[{i}]" for i in range(len(scales))] if several else ["lengthscale"]
        links = [link(name, "length_scale", part=i) for i, name in enumerate(names)]
    elif kind is sk.RationalQuadratic and np.ndim(kernel.length_scale) == 0:
        made = ck.RationalQuadratic(float(kernel.length_scale), alpha=float(kernel.alpha))
        links = [link("alpha", "alpha"), link("lengthscale", "length_scale")]
    elif kind is sk.ExpSineSquared and n_features == 1:
        made = ck.Periodic(float(kernel.length_scale), period=float(kernel.periodicity))
        links = [link("lengthscale", "length_scale"), link("period", "periodicity")]
    elif kernel.requires_vector_input:
        return Node(ck.CustomKernel(SklearnFunction(clone(kernel))), opaque=(kernel,), takes_variance=True)
    else:
        raise InputError(f"{kernel} works on objects that are not points; cagp needs a kernel of numeric columns")
    return Node(made, tuple(links), takes_variance=True)
