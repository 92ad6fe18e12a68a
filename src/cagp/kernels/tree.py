"""What a kernel is made of: its hyperparameters and the kernels inside it, walked and rebuilt in one way."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import torch


class KernelTree:
    """A frozen dataclass of hyperparameters, kernels, tuples of kernels, or settings; another class shows no fields."""

    hyperparameters: ClassVar[tuple[str, ...]] = ()  #: the fields that ``Prior.fit`` may choose, numbers or tuples
    angles: ClassVar[tuple[str, ...]] = ()  #: those that are angles in degrees; the others are positive numbers
    coordinate_called: ClassVar[str] = "coordinate"  #: what readers call what the kernels inside see, if no columns
    part_called: ClassVar[str] = "part"  #: what readers call one of several kernels inside

    @property
    def distance_unit(self) -> str:
        """The unit of the distances that the kernels inside see, "" where they are those between columns."""
        return ""

    @property
    def hyperparameter_values(self) -> dict[str, Any]:
        """Its own hyperparameters by the names of their fields, numbers or tuples of numbers."""
        return {name: value for name, value in self._fields().items() if name in self.hyperparameters}

    @property
    def children(self) -> dict[str, Any]:
        """The kernels inside this one, called as one reads them off: "kernel", "kernels[1]"."""
        found: dict[str, Any] = {}
        for name, value in self._fields().items():
            several = {f"{name}[{i}]": part for i, part in enumerate(value)} if isinstance(value, tuple) else {}
            found |= {key: part for key, part in {name: value, **several}.items() if isinstance(part, KernelTree)}
        return found

    def with_children(self, children: Mapping[str, Any]) -> Self:
        """The same made of other kernels, by the names of ``children``."""
        changes: dict[str, Any] = {}
        for name, value in self._fields().items():
            if name in children:
                changes[name] = children[name]
            elif isinstance(value, tuple):
                changes[name] = tuple(children.get(f"{name}[{i}]", part) for i, part in enumerate(value))
        return dataclasses.replace(self, **changes)  # type: ignore[type-var]

    def with_hyperparameters(self, take: Callable[[str, float], Any], path: str = "kernel") -> Self:
        """A copy with every hyperparameter, called ``path.…``, replaced by ``take(name, value)``: number or tensor."""
        own = {field: _taken(take, f"{path}.{field}", value) for field, value in self.hyperparameter_values.items()}
        below = {name: child.with_hyperparameters(take, f"{path}.{name}") for name, child in self.children.items()}
        taken = dataclasses.replace(self, **own) if own else self  # type: ignore[type-var]
        return taken.with_children(below) if below else taken

    def hyperparameter_names(self, path: str = "kernel") -> list[str]:
        """What its hyperparameters, and those of all kernels inside it, are called."""
        names: dict[str, float] = {}
        self.with_hyperparameters(names.setdefault, path)
        return list(names)

    def angle_names(self) -> set[str]:
        """Those of ``hyperparameter_names`` that are angles."""
        return {
            f"{part.path}.{field}{place}"
            for part in self.walk()
            for field in part.kernel.angles
            for place in _places(part.kernel.hyperparameter_values[field])
        }

    def walk(self, columns: Sequence[int] = (), path: str = "kernel") -> Iterator[Part]:
        """This kernel, which sees these ``columns`` of the points, and every kernel inside it."""
        return Part(self, path, tuple(columns)).walk()

    def columns_below(self, columns: tuple[int, ...]) -> tuple[int, ...]:
        """Which of the ``columns`` that this kernel sees are seen by the kernels inside it."""
        return columns

    def _fields(self) -> dict[str, Any]:
        if not dataclasses.is_dataclass(self):
            return {}
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}


def _places(value: Any) -> list[str]:
    """How the numbers of a hyperparameter are told apart in its name: nothing for a single one."""
    return [f"[{i}]" for i in range(len(value))] if np.ndim(value) else [""]


def _taken(take: Callable[[str, float], Any], name: str, value: Any) -> Any:
    if not isinstance(value, tuple):
        return take(name, value)
    values = [take(f"{name}[{i}]", v) for i, v in enumerate(value)]
    free = next((v for v in values if isinstance(v, torch.Tensor)), None)
    if free is None:
        return tuple(values)
    # one tensor that remembers where it came from
    return torch.stack([torch.as_tensor(v, dtype=free.dtype, device=free.device) for v in values])


@dataclass(frozen=True)
class Part:
    """A kernel inside a kernel; units and what coordinates are called are as in ``KernelTree``."""

    kernel: Any
    path: str  # how one reads it off: "kernel.kernels[0]"
    columns: tuple[int, ...]  # what it sees
    distance_unit: str = ""
    label: str = ""  # what readers call it: "term 1: "
    coordinate: str = "coordinate"

    def walk(self) -> Iterator[Part]:
        """This part, and every one inside it."""
        yield self
        kernel, children = self.kernel, self.kernel.children
        columns, unit = kernel.columns_below(self.columns), kernel.distance_unit or self.distance_unit
        coordinate = kernel.coordinate_called if len(columns) < len(self.columns) else self.coordinate
        for i, (name, child) in enumerate(children.items()):
            label = f"{self.label}{kernel.part_called} {i + 1}: " if len(children) > 1 else self.label
            yield from Part(child, f"{self.path}.{name}", columns, unit, label, coordinate).walk()
