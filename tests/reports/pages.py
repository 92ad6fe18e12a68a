"""Reads the pages of reports, and makes data and priors for them."""

from __future__ import annotations

import json
import os
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

import cagp

RANDOM = np.random.default_rng


class Page(HTMLParser):
    """Tables by id, images, paragraphs and text of a page."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__()
        self.tables: dict[str, list[list[str]]] = {}
        self.images: list[str] = []
        self.links: list[str] = []
        self.sections: list[str] = []
        self.text = ""
        self._rows: list[list[str]] | None = None
        self._cell: list[str] | None = None
        self.raw = Path(path).read_text(encoding="utf-8")
        self.feed(self.raw)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = dict(attributes)
        if tag == "table":
            self._rows = self.tables.setdefault(str(values.get("id")), [])
        elif tag == "tr" and self._rows is not None:
            self._rows.append([])
        elif tag in ("td", "th"):
            self._cell = []
        elif tag == "img":
            self.images.append(str(values["src"]))
        elif tag == "section":
            self.sections.append(str(values["id"]))
        self.links += [str(values[name]) for name in ("src", "href") if values.get(name)]

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th") and self._rows and self._cell is not None:
            self._rows[-1].append("".join(self._cell))
            self._cell = None
        elif tag == "table":
            self._rows = None

    def handle_data(self, data: str) -> None:
        self.text += data
        if self._cell is not None:
            self._cell.append(data)

    def row(self, table: str, name: str) -> list[str]:
        return next(row for row in self.tables[table] if row[0] == name)


def smooth(d: int = 120, p: int = 2, seed: int = 0, noise: float = 0.1) -> tuple[np.ndarray, np.ndarray]:
    """A draw from the prior Matern32(0.5) plus noise: data that the model fits."""
    rng = RANDOM(seed)
    X = rng.random((d, p))
    r = np.sqrt(3) * cdist(X, X) / 0.5
    K = (1 + r) * np.exp(-r)
    return X, np.linalg.cholesky(K + 1e-9 * np.eye(d)) @ rng.normal(size=d) + noise * rng.normal(size=d)


def prior(noise: float = 0.01, **settings: object) -> cagp.Prior:
    return cagp.Prior(cagp.Matern32(0.5), noise_variance=noise, **settings)


def sent(page: Path) -> dict[str, Any]:
    """What the page of a map is made from."""
    content = re.search(r'<script type="application/json" id="data">(.*?)</script>', page.read_text("utf-8"), re.DOTALL)
    assert content
    result = json.loads(content[1])
    assert isinstance(result, dict)
    return result
