"""Which test points share the training points that they are predicted from."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Neighbourhoods:
    """Groups of the test points of one prediction: each group sees the union of its points' neighbours.

    ``group`` (T,) is the group of each test point, or −1 where it is on its own. Group g has the training points
    ``members[offsets[g]:offsets[g + 1]]``, in the order that the solver was given. A part of a group keeps the union of
    the whole: what a test point sees does not depend on how the prediction is cut into batches.
    """

    group: torch.Tensor
    members: torch.Tensor
    offsets: torch.Tensor

    def rows(self, part: slice | torch.Tensor) -> Neighbourhoods:
        """Those of some of the test points: a slice, a mask (T,), or indices."""
        return Neighbourhoods(self.group[part], self.members, self.offsets)

    def to(self, device: torch.device) -> Neighbourhoods:
        """The same on a device."""
        return Neighbourhoods(self.group.to(device), self.members.to(device), self.offsets.to(device))

    def compact(self) -> Neighbourhoods:
        """The same on the CPU without the groups that none of these test points is in: what is sent elsewhere."""
        group, offsets = self.group.cpu(), self.offsets.cpu()
        there, renumbered = torch.unique(group, return_inverse=True)
        alone = int(len(there) > 0 and there[0] < 0)
        starts, sizes = offsets[there[alone:]], offsets.diff()[there[alone:]]
        ends = torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])
        places = torch.repeat_interleave(starts - ends[:-1], sizes) + torch.arange(int(ends[-1]))
        return Neighbourhoods(renumbered - alone, self.members.cpu()[places], ends)

    @property
    def nbytes(self) -> int:
        return self.group.nbytes + self.members.nbytes + self.offsets.nbytes
