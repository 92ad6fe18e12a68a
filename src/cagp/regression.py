"""Any regressor as the trend: regression kriging, cross-fitted.

A regressor knows by heart much of what it was fitted to, and what it leaves of that is too small to learn from. So it
is fitted once for each of several folds of the observations, to the others: gₖ has not seen fold k. The trend of an
observation is that of the one that has not seen it, and anywhere else the average of all:

    m₀(xᵢ) = gₖ₍ᵢ₎(xᵢ),    m₀(x) = mean of gₖ(x) over k.

The Gaussian process is one of y − m₀. An observation that is left out has been seen by the trends of all the others: it
is judged by trends gₖₗ that have seen neither its fold k nor the fold l of the other one.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch

from .errors import InputError, InputTypeError, SavedModelError
from .means import Mean
from .support.advice import optional
from .support.validation import ArrayLike, as_float64, count, points, targets

TREES = "trees"
"""The name of gradient-boosted trees, those of scikit-learn with its own settings."""

_SAME = 1e-6  # of the range of the observations: by so much a trend that is learned again may differ
_FEWEST_FOLDS = 3  # an observation is judged by trends without two of them


@dataclass(frozen=True)
class Regression:
    """A trend by any ``regressor`` with ``fit(X, y)`` and ``predict(X)``, or "trees"; fitted in so many ``folds``.

    ``cagp.fit(X, y, mean=regressor)`` is the same with five folds. The regressor that is given stays as it is: copies
    are fitted, with ``random_state`` 0 wherever it has none, and see X (n, p) as an array.

    >>> import numpy as np, cagp
    >>> from sklearn.linear_model import Ridge
    >>> X = np.linspace(0, 1, 40)[:, None]
    >>> y = 3 * X[:, 0] + 0.1 * np.sin(40 * X[:, 0])
    >>> mean = cagp.Regression(Ridge(1e-3)).fit(X, y)
    >>> model = cagp.Prior(cagp.Matern52(0.05, 0.01), mean=mean, noise_variance=1e-4).condition(X, y)
    >>> model.guarantee.kind
    'empirical'
    """

    regressor: Any = TREES
    folds: int = 5

    def __post_init__(self) -> None:
        count(self.folds, "folds", minimum=_FEWEST_FOLDS)
        if isinstance(self.regressor, str) and self.regressor != TREES:
            raise InputError(f'a regressor must be "{TREES}" or have fit and predict, got {self.regressor!r}')
        if not isinstance(self.regressor, str) and not is_regressor(self.regressor):
            raise InputTypeError(f"a regressor must have fit(X, y) and predict(X), got {self.regressor!r}")

    @property
    def name(self) -> str:
        """How a table calls it."""
        return self.regressor if isinstance(self.regressor, str) else type(self.regressor).__name__

    def template(self) -> Any:
        """The regressor itself, not fitted."""
        if isinstance(self.regressor, str):
            ensemble = optional("sklearn.ensemble", f'mean="{TREES}"', "sklearn")
            return _unfitted(ensemble.HistGradientBoostingRegressor())
        return _unfitted(self.regressor)

    def fit(self, X: ArrayLike, y: ArrayLike, blocks: np.ndarray | None = None) -> CrossFitted:
        """The trend of observations y (n,) at X (n, p), as a known mean; observations of a block are in one fold.

        ``blocks`` (n,) are their numbers; without them a block is a place.
        """
        train = points(X, "X").cpu()
        values = targets(y, len(train)).cpu().numpy()
        places = np.unique(train.numpy(), axis=0, return_inverse=True)[1] if blocks is None else blocks
        _, block = np.unique(places, return_inverse=True)
        if (several := int(block.max()) + 1) < self.folds:
            raise InputError(
                f"{self.folds} folds need observations at {self.folds} places or blocks at least, and there are "
                f"{several}; take another mean"
            )
        fold = np.random.default_rng(0).permutation(several)[block] % self.folds
        return CrossFitted(self.template(), train.numpy(), values, fold)


def is_regressor(value: Any) -> bool:
    """Whether it has ``fit`` and ``predict``, and is no mean."""
    methods = (getattr(value, name, None) for name in ("fit", "predict"))
    return not isinstance(value, Mean | type) and all(map(callable, methods))


def as_regression(mean: Any) -> Regression | None:
    """What ``cagp.fit`` makes of its ``mean`` where that is learned by a regressor; None where it is not."""
    if isinstance(mean, Regression):
        return mean
    return Regression(mean) if is_regressor(mean) or (isinstance(mean, str) and mean == TREES) else None


@dataclass(frozen=True, eq=False)
class CrossFitted(Mean):
    """The trend that copies of a ``regressor`` have learned from observations y (n,) at X (n, p), by ``fold`` (n,).

    It is a known mean, and stays what it is whatever observations come later. Of one that was saved, ``saved`` (n,) is
    the trend at its observations and ``made_by`` what it was learned with. ``known`` has what was fitted so far.
    """

    regressor: Any
    X: np.ndarray = field(repr=False)
    y: np.ndarray = field(repr=False)
    fold: np.ndarray = field(repr=False)
    saved: np.ndarray | None = field(default=None, repr=False)
    made_by: str = field(default="", repr=False)
    known: dict[bytes, Any] = field(default_factory=dict, repr=False)

    def __call__(self, X: torch.Tensor) -> torch.Tensor:
        at = X.detach().cpu().double().numpy()
        rows = self._rows(at)
        found, new = np.append(self.values, np.nan)[rows], rows < 0
        if new.any():
            found[new] = self._average(at[new])
        return torch.from_numpy(found).to(X)

    @cached_property
    def values(self) -> np.ndarray:
        """The trend at its observations (n,), each by those that have not seen its fold."""
        return self._cross_fitted() if self.saved is None else self.saved

    def _cross_fitted(self) -> np.ndarray:
        found = np.empty(len(self.y))
        for k in np.unique(self.fold):
            found[self.fold == k] = _predicted(self._fitted(self.fold != k), self.X[self.fold == k])
        return found

    def unseeing(self, X: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        rows = self._rows(X.detach().cpu().double().numpy())
        seen = rows >= 0
        # the last one is for points that no trend has seen
        by = self(X).expand(len(self._unseeing) + 1, -1).clone()
        by[:-1, seen] = torch.from_numpy(self._unseeing[:, rows[seen]]).to(X)
        group = np.append(np.unique(self.fold, return_inverse=True)[1], len(self._unseeing))[rows]
        return by, torch.from_numpy(group).to(X.device)

    @property
    def learned(self) -> bool:
        return True

    def restricted(self, X: torch.Tensor) -> CrossFitted:
        kept = np.isin(_keys(self.X), _keys(X.detach().cpu().double().numpy()))
        return self if kept.all() else self._of(kept)

    @property
    def in_words(self) -> str:
        """The regressor and how much it leaves, without a full stop."""
        left = float(np.sqrt(np.mean((self.y - self.values) ** 2)))
        spread, folds = float(self.y.std()), len(np.unique(self.fold))
        return (
            f"{' '.join(repr(self.regressor).split())}, fitted in {folds} folds to the other observations; of the "
            f"standard deviation {spread:.4g} of those that it has not seen it leaves {left:.4g} (rms)"
        )

    @cached_property
    def digest(self) -> str:
        """A hash of the data and of the folds."""
        return hashlib.sha256(b"".join(each.tobytes() for each in (self.X, self.y, self.fold))).hexdigest()[:16]

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, CrossFitted) or self.digest != other.digest:
            return False
        return repr(self.regressor) == repr(other.regressor)

    __hash__ = None  # type: ignore[assignment]

    @cached_property
    def _unseeing(self) -> np.ndarray:
        """At its observations the trends that have not seen one fold after the other, (folds, n)."""
        every = torch.from_numpy(self.X)
        return np.stack([self._of(self.fold != k)(every).numpy() for k in np.unique(self.fold)])

    def _of(self, kept: np.ndarray) -> CrossFitted:
        """What would have been learned from observations ``kept`` (n,), in the same folds, alone."""
        if len(np.unique(self.fold[kept])) < 2:
            raise InputError(f"{int(kept.sum())} observations that are kept are all in one fold of the trend")
        return CrossFitted(self.regressor, self.X[kept], self.y[kept], self.fold[kept], known=self.known)

    def _average(self, X: np.ndarray) -> np.ndarray:
        """The average of all members at X (m, p), shape (m,)."""
        self._require_same()
        each = [_predicted(self._fitted(self.fold != k), X) for k in np.unique(self.fold)]
        return np.asarray(np.mean(each, axis=0))

    def _require_same(self) -> None:
        """Refuse to be another trend than the one that was saved."""
        if self.saved is None or np.abs(self._cross_fitted() - self.saved).max() <= _SAME * np.ptp(self.y):
            return
        raise SavedModelError(
            f"the trend was learned with {self.made_by}, and what is installed here learns another one from the same "
            "data; install that, or fit the model again"
        )

    def _fitted(self, rows: np.ndarray) -> Any:
        """The regressor that has seen the observations ``rows``, a mask (n,)."""
        X, y = self.X[rows], self.y[rows]
        key = hashlib.sha256(X.tobytes() + y.tobytes()).digest()
        if key not in self.known:
            member = copy.deepcopy(self.regressor)
            with _told(member, len(y)):
                member.fit(X, y)
            self.known[key] = member
        return self.known[key]

    @cached_property
    def _order(self) -> tuple[np.ndarray, np.ndarray]:
        """The keys of its places, sorted, and the rows (n,) that they belong to."""
        keys = _keys(self.X)
        order = np.argsort(keys, kind="stable")
        return keys[order], order

    def _rows(self, X: np.ndarray) -> np.ndarray:
        """Which of its observations is at each of the points X (m, p), or −1, shape (m,)."""
        keys, order = self._order
        asked = _keys(X)
        place = np.minimum(np.searchsorted(keys, asked), len(keys) - 1)
        return np.where(keys[place] == asked, order[place], -1)


def _keys(X: np.ndarray) -> np.ndarray:
    """One value for each of the points X (m, p), equal for equal points."""
    rows = np.ascontiguousarray(X + 0.0)  # −0 becomes 0
    return rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1])))[:, 0]


@contextmanager
def _told(member: Any, n: int) -> Iterator[None]:
    """Says that it was the regressor which refused."""
    try:
        yield
    except ValueError as error:
        who = f"the regressor {' '.join(repr(member).split())}, which is fitted to a part of the observations"
        raise InputError(f"{who}, refuses {n} points: {error}; take another mean") from error


def _predicted(member: Any, X: np.ndarray) -> np.ndarray:
    with _told(member, len(X)):
        found = member.predict(X)
    values = as_float64(found, "the regressor's predictions").cpu().numpy()
    if values.size != len(X):
        raise InputError(f"the regressor must predict shape ({len(X)},), one value a point, got {values.shape}")
    return values.reshape(-1)


def _unfitted(regressor: Any) -> Any:
    """A copy that is not fitted, where that can be had, and makes the same of the same data each time."""
    fresh = copy.deepcopy(regressor)
    if not hasattr(regressor, "get_params"):
        return fresh
    clone = optional("sklearn.base", "a regressor with get_params as mean", "sklearn").clone
    fresh = clone(regressor)
    free: Mapping[str, Any] = fresh.get_params(deep=True)
    seeds = {name: 0 for name in free if name.split("__")[-1] == "random_state" and free[name] is None}
    return fresh.set_params(**seeds) if seeds else fresh
