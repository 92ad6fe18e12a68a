"""What is published: the project files agree with each other, and a wheel and an sdist work where nothing else is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

import cagp

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
STUDIES = tomllib.loads((ROOT / "studies" / "pyproject.toml").read_text(encoding="utf-8"))["project"]
if not (ROOT / ".github").is_dir():
    pytest.skip("this is not the repository", allow_module_level=True)


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def floors() -> dict[str, Version]:
    """The lowest version of each package that the project files ask for."""
    extras = [needs for name, needs in PROJECT["optional-dependencies"].items() if name not in ("docs", "peers")]
    found: dict[str, Version] = {}
    for text in chain(PROJECT["dependencies"], STUDIES["dependencies"], *extras):
        need = Requirement(text)
        if need.name not in ("cagp", "cagp-studies"):
            [least] = [Version(each.version) for each in need.specifier if each.operator == ">="]
            assert found.setdefault(need.name.lower(), least) == least, f"{need.name} has two lowest versions"
    return found


def test_the_lowest_versions_that_are_tested_are_those_asked_for() -> None:
    lines = [line for line in read("constraints-lowest.txt").splitlines() if not line.startswith("#")]
    tested = {name.lower(): Version(number) for name, number in (line.split("==") for line in lines)}
    asked = floors()
    unused = {
        "mypy",
        "ruff",
        "crepes",
        "gstools",
        "mapie",
        "pykrige",
    }  # tools and peers, at the versions of constraints.txt
    assert {name: asked[name] for name in asked.keys() - unused} == {
        name: tested[name] for name in asked.keys() - unused
    }


def test_every_supported_python_is_named_and_tested() -> None:
    named = {each.split(" :: ")[-1] for each in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d+$", each)}
    matrix = yaml.safe_load(read(".github/workflows/tests.yml"))["jobs"]["test"]["strategy"]["matrix"]
    assert named == set(matrix["python"])
    assert min(map(Version, named)) == Version(PROJECT["requires-python"].removeprefix(">="))
    assert {system.split("-")[0] for system in matrix["os"]} == {"ubuntu", "macos", "windows"}


def test_the_same_version_and_address_everywhere() -> None:
    citation = yaml.safe_load(read("CITATION.cff"))
    assert citation["version"] == cagp.__version__
    assert f"version = {{{cagp.__version__}}}" in read("docs/cite.md")
    address = PROJECT["urls"]["Repository"]
    assert citation["repository-code"] == address
    assert all(url.startswith(address) for url in [*PROJECT["urls"].values(), *STUDIES["urls"].values()])
    for name in (
        "SECURITY.md",
        "CODE_OF_CONDUCT.md",
        ".github/ISSUE_TEMPLATE/config.yml",
        "recipe/recipe.yaml",
        "docs/upgrading.md",
        "docs/for-researchers.md",
    ):
        assert set(re.findall(r"https://github\.com/[\w-]+/cagp\b", read(name))) == {address}, name
    recipe = yaml.safe_load(read("recipe/recipe.yaml"))
    assert recipe["context"]["version"] == cagp.__version__


def test_yaml_files_can_be_read() -> None:
    files = [*ROOT.glob(".github/**/*.yml"), ROOT / ".pre-commit-config.yaml", ROOT / "CITATION.cff"]
    assert len(files) >= 8
    for path in files:
        assert isinstance(yaml.safe_load(path.read_text(encoding="utf-8")), dict), path
    for path in ROOT.glob(".github/workflows/*.yml"):
        for name, job in yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].items():
            assert job["runs-on"], name
            assert all(("uses" in step) != ("run" in step) for step in job["steps"]), name


def test_the_recipe_asks_for_the_core() -> None:
    needs = yaml.safe_load(read("recipe/recipe.yaml"))["requirements"]["run"]
    core = {Requirement(each).name: str(Requirement(each).specifier) for each in PROJECT["dependencies"]}
    core["pytorch"] = core.pop("torch")
    asked = dict(re.fullmatch(r"([\w-]+) *(.*)", each).groups() for each in needs if not each.startswith("python"))  # type: ignore[union-attr]
    assert asked.items() >= core.items()


def test_tools_before_a_commit_are_those_of_make_lint() -> None:
    pinned = re.search(r"^ruff==(.+)$", read("constraints.txt"), flags=re.MULTILINE)
    assert pinned is not None
    assert set(re.findall(r"ruff==([\d.]+)", read(".pre-commit-config.yaml"))) == {pinned[1]}


def pip(python: Path | str, *arguments: str) -> None:
    command = [str(python), "-m", "pip", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an empty environment, where pip reaches packages."""
    folder = tmp_path_factory.mktemp("empty")
    venv.create(folder, with_pip=True)
    python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    done = subprocess.run([python, "-m", "pip", "install", "hatchling"], capture_output=True, check=False)
    if done.returncode:
        pytest.skip("pip reaches no packages here")
    return python


@pytest.fixture(scope="module")
def built(environment: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and with the wheel that is built from it."""
    out = tmp_path_factory.mktemp("dist")
    build = [environment, "-m", "hatchling", "build", "-d", str(out)]
    subprocess.run([*build, "-t", "sdist"], cwd=ROOT, check=True, capture_output=True)
    [sdist] = out.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(out, filter="data")
    [source] = [path for path in out.iterdir() if path.is_dir()]
    subprocess.run([*build, "-t", "wheel"], cwd=source, check=True, capture_output=True)
    return out


@pytest.mark.slow
def test_the_wheel_has_the_package_and_nothing_else(built: Path) -> None:
    [wheel] = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    package = {name for name in names if name.startswith("cagp/")}
    tracked = subprocess.run(["git", "ls-files", "src/cagp"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert package >= {name.removeprefix("src/") for name in tracked.stdout.split()} >= {"cagp/py.typed"}
    assert all(".dist-info/" in name for name in names - package)
    assert not any("__pycache__" in name or "nbi" in name for name in names)


@pytest.mark.slow
def test_it_works_in_an_empty_environment(built: Path, environment: Path, tmp_path: Path) -> None:
    [wheel] = built.glob("*.whl")
    limits = ["--constraint", str(ROOT / "constraints.txt")]
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    pip(environment, "install", *limits, str(wheel))
    for what, extra in (("core", ""), ("cli", "[cli]")):
        pip(environment, "install", *limits, f"{wheel}{extra}")
        command = [environment, str(ROOT / "tests" / "smoke.py"), what]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=clean)
        assert done.returncode == 0, done.stderr
        assert f"cagp {cagp.__version__} works" in done.stdout
