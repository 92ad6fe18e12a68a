"""The report is one file that needs nothing else: by its text, and by what a browser does with it."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
from contextlib import nullcontext
from html.parser import HTMLParser
from pathlib import Path

import pytest

from cagp import InputError
from cagp_studies import STUDIES, AnyStudy, run_study
from cagp_studies.heaton_data import satellite_file
from cagp_studies.report import duration, write_report
from cagp_studies.uci import Uci
from tiny import Squares, all_tiny, drawn_once, simulated

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class References(HTMLParser):
    """Everything in a page that a browser might fetch, and the text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, str]] = []
        self.text = ""
        self.tags: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        fetched = {"src", "href", "srcset", "data", "action", "poster", "background"}
        self.found += [(tag, value or "") for name, value in attributes if name in fetched]

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module", params=["simulated", pytest.param("all", marks=pytest.mark.slow)])
def made(request: pytest.FixtureRequest) -> dict[str, AnyStudy]:
    """Tiny studies by name: those that need no data files, each of which runs in its own tests as well, or all."""
    return simulated() if request.param == "simulated" else all_tiny()


@pytest.fixture(scope="module")
def everything(made: dict[str, AnyStudy], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with these studies and their report."""
    out = tmp_path_factory.mktemp("out")
    with nullcontext() if Uci.name in made else drawn_once():
        for study in made.values():
            run_study(study, out)
    write_report(out, order=list(STUDIES))
    return out


def test_the_page_needs_nothing_else(made: dict[str, AnyStudy], everything: Path) -> None:
    text = (everything / "report.html").read_text(encoding="utf-8")
    page = References(text)
    images = [value for tag, value in page.found if tag == "img"]
    expected = 2 + 2 + 2 + 1 + 1 + 2 + 2  # rmse and nll twice, histograms twice, p-values, time, hybrid, recalibration
    if Uci.name in made:
        # uci, maps, timings, histograms, convergence, full, acceleration, heaton (each field), relocated, scoreboard
        expected += 2 + 2 + 1 + 2 + 2 + 5 + 6 + 4 * (1 if satellite_file() is None else 2) + 1 + 1
    assert len(images) == expected
    for image in images:
        head, content = image.split(",", 1)
        assert head == "data:image/png;base64"
        assert base64.b64decode(content).startswith(b"\x89PNG")
    assert all(value.startswith(("data:", "#")) for _, value in page.found)
    assert not {"script", "iframe", "object"} & set(page.tags)
    assert "@import" not in text
    assert "url(" not in text


def test_the_page_covers_all_studies_in_order(made: dict[str, AnyStudy], everything: Path) -> None:
    text = (everything / "report.html").read_text(encoding="utf-8")
    positions = [text.index(f'<section id="{name}">') for name in STUDIES if name in made]
    assert positions == sorted(positions)
    words = References(text).text
    for expected in ("0.6689", "0.0084", "0.6802", "prints Matérn 3/2 twice", "warm-up", "torch", "processor", "seed"):
        assert expected in words
    assert "nan" not in words.split()


def test_the_table_of_figures_is_true(made: dict[str, AnyStudy], everything: Path) -> None:
    """docs/paper-figures.md names every study and every figure, and no others, but those that go beyond the paper."""
    beyond = {
        "acceleration",
        "hybrid",
        "recalibration",
        "heaton",
        "relocated",
        "scoreboard",
        "era5-full",
        "era5-full-hyperparameters",
    }
    page = (Path(__file__).parents[2] / "docs" / "paper-figures.md").read_text(encoding="utf-8")
    assert all(re.search(rf"`(cagp reproduce )?{name}`", page) for name in STUDIES)
    rows = [line.split("|")[2:4] for line in page.splitlines() if line.startswith("|") and "`" in line][1:]
    commands = {name for command, _ in rows for name in re.findall(r"`([\w-]+)`", command)}
    assert commands | {"era5-hyperparameters"} == set(STUDIES) - beyond  # which has a table and no figure
    named = {file for _, files in rows for file in re.findall(r"`([\w-]+/\w+\.png)`", files)}
    found = {f"{path.parent.name}/{path.name}" for path in everything.glob("*/*.png") if path.parent.name not in beyond}
    assert {file for file in named if file.split("/")[0] in made} == found


def test_text_is_escaped_and_later_runs_are_added(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no finished study"):
        write_report(tmp_path)
    run_study(Squares(), tmp_path)
    text = write_report(tmp_path).read_text(encoding="utf-8")
    assert "Squares &amp; &lt;cubes&gt;" in text
    other = all_tiny()["time"]
    run_study(other, tmp_path)
    text = write_report(tmp_path, order=["time"]).read_text(encoding="utf-8")
    assert text.index('id="time"') < text.index('id="squares"')


def test_duration() -> None:
    assert duration(3.21) == "3.2 s"
    assert duration(754) == "13 min"


def browse(page: Path, folder: Path) -> tuple[list[str], list[str], str]:
    """What headless Chromium says about a page: lines on the console, addresses it fetched, and the page it made."""
    assert CHROMIUM is not None
    log = folder / "net.json"
    command = [
        CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync",
        "--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={folder / 'profile'}", "--enable-logging=stderr",
        f"--log-net-log={log}", "--dump-dom", page.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    console = [line for line in done.stderr.splitlines() if ":CONSOLE" in line]
    events = json.loads(log.read_text())["events"]
    requests = [
        event["params"] for event in events if "url" in event.get("params", {}) and "initiator" in event["params"]
    ]
    # requests without an origin are the browser's own (updates and the like), not the page's
    fetched = [request["url"] for request in requests if request["initiator"] != "not an origin"]
    return console, fetched, done.stdout


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium (Debian: apt-get install chromium)")
def test_browser_opens_it_without_errors_or_requests(everything: Path, tmp_path: Path) -> None:
    console, fetched, page = browse(everything / "report.html", tmp_path)
    assert console == []
    assert [url for url in fetched if not url.startswith("data:")] == []
    assert "Synthetic problem: convergence" in page


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium (Debian: apt-get install chromium)")
def test_browser_would_notice(tmp_path: Path) -> None:
    bad = tmp_path / "bad.html"
    bad.write_text('<img src="http://example.invalid/x.png"><script>console.error("boom")</script>')
    console, fetched, _ = browse(bad, tmp_path)
    assert any("boom" in line for line in console)
    assert "http://example.invalid/x.png" in fetched
