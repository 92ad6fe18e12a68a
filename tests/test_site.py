"""The documentation site: it builds without a warning, has every public name, and needs no network."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import cagp

for needed in ("sphinx", "myst_parser", "furo", "sphinx_copybutton"):
    pytest.importorskip(needed)

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as ``make docs`` builds it."""
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", str(DOCS), str(out / "html")]
    done = subprocess.run(
        [*command, "-d", str(out / "doctrees")], capture_output=True, text=True, env={**os.environ, "LC_ALL": "C.UTF-8"}
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr.strip()
    return out / "html"


@pytest.fixture(scope="module")
def documented(site: Path) -> set[str]:
    """The names that the reference explains."""
    from sphinx.util.inventory import InventoryFile

    with open(site / "objects.inv", "rb") as file:
        inventory = InventoryFile.load(file, "", os.path.join)
    return {name for kind in inventory if kind.startswith("py:") for name in inventory[kind]}


def test_every_page_is_built(site: Path) -> None:
    pages = [page.stem for page in DOCS.glob("*.md")]
    assert {"index", "tutorial", "mathematics"} <= set(pages)
    assert [page for page in pages if not (site / f"{page}.html").is_file()] == []
    front = (site / "index.html").read_text(encoding="utf-8")
    assert [page for page in pages if f'href="{page}.html"' not in front and page != "index"] == []


def test_every_public_name_is_in_the_reference(documented: set[str]) -> None:
    missing = [name for name in cagp.__all__ if f"cagp.{name}" not in documented]
    assert not missing, f"{missing} is missing in docs/api/*.rst"


@pytest.mark.parametrize(
    "room", ["calibration", "datasets", "hyperparameters", "kernels", "preconditioners", "solvers"]
)
def test_every_name_of_a_room_is_in_the_reference(room: str, documented: set[str]) -> None:
    names = importlib.import_module(f"cagp.{room}").__all__
    known = {name.rsplit(".", 1)[-1] for name in documented if name.startswith("cagp.")}
    missing = [name for name in names if name not in known]
    assert not missing, f"{missing} is missing in docs/api/*.rst"


def test_pages_need_no_network(site: Path) -> None:
    """Nothing is loaded from elsewhere: no script, style, font or picture. Links are for readers to follow."""
    for page in site.rglob("*.html"):
        loaded = re.findall(r'<(?:script|img|source)[^>]*src="([^"]*)"', page.read_text(encoding="utf-8"))
        loaded += re.findall(r'<link[^>]*rel="(?:stylesheet|preload)"[^>]*href="([^"]*)"', page.read_text("utf-8"))
        assert [address for address in loaded if "//" in address] == [], page.name


def test_formulas_are_translated(site: Path) -> None:
    page = (site / "mathematics.html").read_text(encoding="utf-8")
    assert page.count("<math") > 50
    assert "\\top" not in page
    assert "$" not in re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)


def test_figures_are_small() -> None:
    figures = list((DOCS / "figures").iterdir())
    assert len(figures) >= 4
    assert [figure.name for figure in figures if figure.stat().st_size > 200_000] == []
    used = "".join(page.read_text(encoding="utf-8") for page in [*DOCS.glob("*.md"), *ROOT.glob("*.md")])
    assert [figure.name for figure in figures if f"figures/{figure.name}" not in used] == []
