"""Stations in the Dutch grid, and models of them, for tests of coordinate systems and maps."""

from __future__ import annotations

import geopandas as gpd
import numpy as np
import pandas as pd

import cagp

RD, DEGREES = "EPSG:28992", "EPSG:4326"


def stations(n: int = 60, seed: int = 0) -> gpd.GeoDataFrame:
    """Places within 3 by 4 km, with the value "zinc" and another column, "height"."""
    rng = np.random.default_rng(seed)
    x, y = 178_500 + 3000 * rng.random(n), 329_500 + 4000 * rng.random(n)
    height = np.sin(x / 700) + 0.2 * rng.normal(size=n)
    zinc = 5 + np.sin(x / 900) * np.cos(y / 700) + 0.5 * height + 0.05 * rng.normal(size=n)
    return gpd.GeoDataFrame(pd.DataFrame({"zinc": zinc, "height": height}), geometry=gpd.points_from_xy(x, y), crs=RD)


def plane_model(frame: gpd.GeoDataFrame | None = None, columns: tuple[str, ...] = ("geometry",)) -> cagp.Model:
    """A model of the stations in metres, with nothing fitted."""
    frame = stations() if frame is None else frame
    scales = [600.0, 700.0, 2.0][: len(columns) + 1]
    prior = cagp.Prior(cagp.Matern32(scales, 1.0), mean=5.0, noise_variance=0.01)
    return prior.condition(frame[list(columns)], frame["zinc"], "cholesky")


def globe_model() -> cagp.Model:
    """A model of the stations in degrees."""
    frame = stations().to_crs(DEGREES)
    prior = cagp.Prior(cagp.Geographic(cagp.Matern32(0.6, 1.0), radius=6371.0), mean=5.0, noise_variance=0.01)
    return prior.condition(frame[["geometry"]], frame["zinc"], "cholesky")
