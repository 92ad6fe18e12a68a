"""Points in the coordinates of a kernel: a tensor (coordinates, points), or a tuple of such embeddings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Embedding = torch.Tensor | tuple[Any, ...]
"""Coordinates as the kernel wants them: a tensor (coordinates, points), or a tuple of embeddings."""


def map_embedding(embedding: Embedding, function: Callable[[torch.Tensor], torch.Tensor]) -> Embedding:
    """Apply ``function`` to every tensor of an embedding."""
    if isinstance(embedding, tuple):
        return tuple(map_embedding(part, function) for part in embedding)
    return function(embedding)


def slice_embedding(embedding: Embedding, start: int, stop: int) -> Embedding:
    """The points start … stop − 1 of an embedding, as a view."""
    return map_embedding(embedding, lambda part: part[:, start:stop])


def embedding_leaves(embedding: Embedding) -> list[torch.Tensor]:
    """Every tensor of an embedding, each (coordinates, points)."""
    if isinstance(embedding, tuple):
        return [leaf for part in embedding for leaf in embedding_leaves(part)]
    return [embedding]


def embedding_size(embedding: Embedding) -> int:
    """Number of points in an embedding."""
    return int(embedding_leaves(embedding)[0].shape[1])


def embedding_coordinates(embedding: Embedding) -> int:
    """Number of coordinates in all tensors of an embedding together."""
    return sum(leaf.shape[0] for leaf in embedding_leaves(embedding))
