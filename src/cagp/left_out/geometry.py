"""How far points are from the data, and who is nearest outside of a gap."""

from __future__ import annotations

import torch

from ..gram.neighbours import Search, search
from ..predicting.conditioned import Conditioned

_ENTRIES = 2**24
"""So many neighbours are looked at at once."""


class Geometry:
    """The training points in the coordinates in which their kernel measures distance: one is a lengthscale.

    Where no part of the kernel falls with distance, these are the columns divided by their spread. ``points`` (d, q).
    """

    def __init__(self, model: Conditioned) -> None:
        self._model = model
        scaled = model.gram.search_coordinates()
        self._spread: torch.Tensor | None = None
        if scaled is None:
            spread = model.X.std(dim=0, correction=0)
            self._spread = torch.where(spread > 0, spread, 1.0)
            scaled = model.X / self._spread
        self.points = scaled
        known = model.gram.neighbours
        self.search: Search = search(scaled) if known is None else known

    def coordinates(self, test: torch.Tensor) -> torch.Tensor:
        """Points (T, p) in these coordinates, shape (T, q)."""
        if self._spread is not None:
            return test / self._spread
        cross = self._model.unarranged(test)
        found = cross.gram.search_coordinates(cross.test)
        assert found is not None
        return found

    def distance(self, test: torch.Tensor) -> torch.Tensor:
        """How far each of ``test`` (T, p) is from the nearest training point, shape (T,)."""
        at = self.coordinates(test)
        return (self.points[self.search.query(at, 1)[:, 0]] - at).norm(dim=1)

    def beyond(
        self, rows: torch.Tensor, radius: torch.Tensor, k: int, among: torch.Tensor | None = None
    ) -> torch.Tensor:
        """The k training points nearest to each of the training points ``rows`` (n,) that may be used, nearest first.

        Those nearer than ``radius`` (n,) may not, nor may the point itself. ``among`` are some training points (m,)
        where only they count. Shape (n, k), where −1 fills up.
        """
        known, tree = self.points, self.search
        if among is not None:
            known, tree = known[among], search(known[among])
        found = rows.new_full((len(rows), k), -1)
        todo, ask = torch.arange(len(rows), device=rows.device), min(k + 1, len(known))
        while len(todo) and k:
            later = []
            for part in todo.split(max(1, _ENTRIES // ask)):
                centres = self.points[rows[part]]
                near = tree.query(centres, ask)
                indices = near if among is None else among[near]
                allowed = indices != rows[part, None]
                if bool((radius[part] > 0).any()):
                    apart = (known[near] - centres[:, None]).norm(dim=2)
                    allowed &= apart >= radius[part, None]
                rank = allowed.cumsum(dim=1)
                allowed &= rank <= k
                enough = (rank[:, -1] >= k) | (ask == len(known))
                row, column = (allowed & enough[:, None]).nonzero(as_tuple=True)
                found[part[row], rank[row, column] - 1] = indices[row, column]
                later.append(part[~enough])
            todo, ask = torch.cat(later), min(2 * ask, len(known))
        return found
