"""Which hyperparameter of a scikit-learn kernel is which of a cagp kernel."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..kernels import Kernel, Product, Sum


@dataclass(frozen=True)
class Link:
    """cagp's ``name`` is the ``power`` of scikit-learn's ``parameter``, or of its entry ``part`` where it has several.

    ``bounds`` are those of cagp's number; ``free`` is False where scikit-learn calls them "fixed".
    """

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
        number = value ** (1 / self.power)
        old = kernel.get_params()[self.parameter]
        if np.ndim(old):
            new = np.array(old, dtype=float)
            new[self.part] = number
            kernel.set_params(**{self.parameter: new})
        else:
            kernel.set_params(**{self.parameter: number})


@dataclass(frozen=True)
class Noise:
    """One WhiteKernel term: what it adds to the variance of an observation, and the ``bounds`` of that.

    It is in proportion to ``level``, the value of the scikit-learn ``parameter``.
    """

    parameter: str
    level: float
    variance: float
    bounds: tuple[float, float]
    free: bool

    def put(self, kernel: Any, factor: float) -> None:
        """Multiply the level in a scikit-learn kernel by ``factor``."""
        kernel.set_params(**{self.parameter: self.level * factor})


@dataclass(frozen=True)
class Node:
    """A translated kernel, and the links of those of its hyperparameters that have a counterpart.

    ``opaque`` are the parts that only scikit-learn can evaluate.
    """

    kernel: Kernel
    links: tuple[Link, ...] = ()
    opaque: tuple[Any, ...] = ()
    takes_variance: bool = False

    def with_variance(self, variance: float, link: Link) -> Node:
        """The same kernel with a variance of its own."""
        scaled = dataclasses.replace(self.kernel, variance=variance)  # type: ignore[type-var]
        return dataclasses.replace(self, kernel=scaled, links=(*self.links, link), takes_variance=False)


def joined(kind: type[Sum] | type[Product], nodes: Sequence[Node]) -> Node:
    """The sum or product of several nodes; of one, that one."""
    if len(nodes) == 1:
        return nodes[0]
    return Node(
        kind(tuple(node.kernel for node in nodes)),
        tuple(link.below(f".kernels[{i}]") for i, node in enumerate(nodes) for link in node.links),
        tuple(part for node in nodes for part in node.opaque),
    )
