"""A field that a prior was conditioned on: it predicts, averages and simulates on grids."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import xarray as xr

from ..errors import InputError, InputTypeError
from ..model import Model
from ..stopping import Rule
from ..support.validation import real
from .xarray_average import average_on
from .xarray_coordinates import Axis, Gridded
from .xarray_metadata import Source
from .xarray_prediction import Columns, Request, points_on, predict_on, simulate_on


@dataclass(frozen=True)
class ConditionedField:
    """A field that a prior was conditioned on; made by ``condition``.

    ``model`` is the cagp model, plain or recalibrated, ``axes`` say which coordinate each of its columns is, ``source``
    describes the field.
    """

    model: Model
    axes: tuple[Axis, ...]
    source: Source = field(default_factory=Source)
    longitudes: tuple[float, float] | None = None

    def recalibrated(
        self,
        like: Gridded | None = None,
        n: int | None = None,
        seed: int = 0,
        *,
        progress: bool | None = None,
    ) -> ConditionedField:
        """The same with error bars that hold on the data of the field, not only under the prior.

        ``like`` is the grid where it is going to predict: gaps as wide as those that its points lie in are left out.
        Without it, gaps of all widths are. For the rest see ``Model.recalibrated``.
        """
        places = None if like is None else self.points_of(like)
        return replace(self, model=self.model.recalibrated(places, n, seed, progress=progress))

    def points_of(self, grid: Gridded) -> np.ndarray:
        """The points (T, p) of a whole grid, as the model takes them."""
        require_grid(grid, "like")
        return points_on(self.axes, self.longitudes, grid)

    def predict(
        self,
        grid: Gridded,
        *,
        observed: bool = False,
        noise_variance: float | None = None,
        level: float | None = None,
        chunks: Mapping[str, int] | None = None,
        stop: Rule | None = None,
        batch_size: int | None = None,
        progress: bool | None = None,
    ) -> xr.Dataset:
        """The prediction at the coordinates of ``grid``: a Dataset with ``mean`` and ``std``, each in the grid's shape.

        ``grid`` is any DataArray or Dataset; only its coordinates matter. Latitude and longitude may have other names
        than in the observed field, and Geographic takes any convention for longitudes. ``observed`` predicts new
        observations (the noise, or ``noise_variance``, is added) and not the field without noise. ``level`` adds the
        ends of central intervals, ``lower`` and ``upper``. ``stop``, ``batch_size`` and ``progress`` are those of
        ``Model.predict``.

        Where the grid is backed by dask, or ``chunks`` cuts it (``{"lat": 100}``), nothing is computed yet: each block
        is predicted when it is asked for, one at a time, so that the memory stays bounded; a stopping rule then
        applies to each block by itself, and Ctrl-C interrupts as usual. The numbers are the same.
        """
        request = self._request(grid, observed, noise_variance, level)
        request = replace(request, stop=stop, batch_size=batch_size)
        return predict_on(request, self.source, grid, chunks, progress)

    def average(
        self,
        grid: Gridded,
        by: xr.DataArray | str | Mapping[str, Any] | None = None,
        *,
        weights: xr.DataArray | str = "area",
        observed: bool = False,
        noise_variance: float | None = None,
        level: float | None = None,
        covariance: bool = False,
        progress: bool | None = None,
    ) -> xr.Dataset:
        """The mean of the field over regions of ``grid``, each with the error bar of the mean: ``mean`` and ``std``.

        ``by`` says which: a DataArray of booleans is one region; of other labels, one for each, along a dimension of
        the array's name, where NaN is outside all of them; or the name of such a variable or coordinate of the grid. A
        mapping of slices or values, as for ``grid.sel``, is a box. Without it, the mean over the whole grid.
        ``weights`` are those of cells, a DataArray, "equal", or "area": the cosine of the latitude where there is one.
        ``level`` adds ``lower`` and ``upper``, ``covariance`` the covariances between regions. ``observed`` is about
        means of new observations, one in each cell. See ``Model.average`` for what it costs.
        """
        request = self._request(grid, observed, noise_variance, level)
        return average_on(request, self.source, grid, by, weights, covariance, progress)

    def simulate(
        self,
        grid: Gridded,
        n: int = 1,
        seed: int = 0,
        *,
        observed: bool = False,
        noise_variance: float | None = None,
        chunks: Mapping[str, int] | None = None,
        progress: bool | None = None,
    ) -> xr.DataArray:
        """``n`` fields at the coordinates of ``grid``, drawn jointly: an array with a first dimension "realisation".

        Where the grid is backed by dask, or ``chunks`` cuts the realisations (``{"realisation": 10}``), nothing is
        drawn yet; the fields are the same. For the rest see ``Model.simulate`` and ``predict``.
        """
        request = self._request(grid, observed, noise_variance)
        return simulate_on(request, self.source, grid, n, seed, chunks, progress)

    def _request(
        self, grid: Gridded, observed: bool, noise_variance: float | None, level: float | None = None
    ) -> Request:
        """What is asked of the model; refuses what says nothing."""
        noise = None if noise_variance is None else real(noise_variance, "noise_variance")
        if noise is None and observed and np.ndim(self.model.prior.noise_variance):
            raise InputError(
                "the noise of the observed field, one variance each, says nothing about new observations; give "
                "noise_variance=..., one number"
            )
        if noise is not None and not observed:
            raise InputError("noise_variance is for new observations; say observed=True, or leave it out")
        if noise is not None and noise < 0:
            raise InputError(f"noise_variance must not be negative, got {noise:g}")
        if level is not None and not 0 < real(level, "level") < 1:
            raise InputError(f"level must be between 0 and 1, got {level!r}; for 95% write 0.95")
        require_grid(grid, "grid")
        columns = Columns(self.axes, self.longitudes)
        return Request(self.model, columns, bool(observed), noise, None if level is None else float(level))


def require_grid(grid: Any, name: str) -> None:
    """Refuse what is no grid."""
    if not isinstance(grid, (xr.DataArray, xr.Dataset)):
        raise InputTypeError(f"{name} must be an xarray DataArray or Dataset, got {type(grid).__name__}")
