import gzip
import hashlib
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pooch
import pytest

from cagp import InputError, datasets
from cagp.datasets import DataError, files, tables

LOADERS = {
    "concrete": (datasets.concrete, (1030, 8), 35.81784),
    "bike": (datasets.bike, (17_379, 12), 189.46309),
    "road3d": (datasets.road3d, (5000, 2), None),
    "kin40k": (datasets.kin40k, (40_000, 8), 0.0),
    "protein": (datasets.protein, (45_730, 9), 0.0),
    "era5": (datasets.era5, (1_035_362, 2), None),
}


@pytest.fixture
def nowhere(monkeypatch, tmp_path):
    """No data, an empty cache, no network; returns the cache."""
    monkeypatch.delenv("CAGP_DATA", raising=False)
    monkeypatch.setenv("CAGP_CACHE", str(tmp_path / "cache"))

    def retrieve(url, **options):
        raise ConnectionError("no network")

    monkeypatch.setattr(pooch, "retrieve", retrieve)
    return tmp_path / "cache"


@pytest.mark.usefixtures("data_folder")
@pytest.mark.parametrize("name", LOADERS)
def test_every_set_loads_with_its_shape_and_description(name):
    load, shape, average = LOADERS[name]
    found = load()
    assert found.name == name
    assert found.X.shape == shape
    assert found.y.shape == shape[:1]
    assert len(found) == shape[0]
    assert found.X.dtype == found.y.dtype == np.float64
    assert np.isfinite(found.X).all()
    assert np.isfinite(found.y).all()
    assert len(found.names) == len(found.units) == shape[1]
    assert found.target
    assert found.citation
    assert found.licence
    assert found.path.parent == files.data_folder()
    if average is not None:
        assert found.y.mean() == pytest.approx(average, abs=1e-4)


@pytest.mark.usefixtures("data_folder")
def test_bike_has_no_column_that_tells_the_target():
    bike = datasets.bike()
    assert not {"casual", "registered", "cnt", "instant", "dteday"} & set(bike.names)
    everything = np.column_stack([bike.X, np.ones(len(bike))])
    left = bike.y - everything @ np.linalg.lstsq(everything, bike.y, rcond=None)[0]
    assert left.std() > 0.5 * bike.y.std()  # with casual and registered it would be zero


@pytest.mark.usefixtures("data_folder")
def test_era5_has_each_place_once_in_kelvin():
    field = datasets.era5()
    assert len(np.unique(field.X, axis=0)) == len(field)
    assert (field.X[:, 0] == 90).sum() == (field.X[:, 0] == -90).sum() == 1
    assert 190 < field.y.min() < field.y.max() < 330
    assert field.target_unit == "K"


@pytest.mark.usefixtures("data_folder")
def test_the_grid_is_row_major_and_uniform():
    grid = datasets.era5_grid(72, 144)
    assert grid.X.shape == (10_368, 2)
    np.testing.assert_array_equal(grid.X[:2], [[88.75, 0.0], [88.75, 2.5]])
    np.testing.assert_array_equal(grid.X[144], [86.25, 0.0])
    np.testing.assert_array_equal(grid.X[-1], [-88.75, 357.5])
    field = datasets.era5()
    lookup = dict(zip(map(tuple, field.X), field.y, strict=True))
    assert [lookup[tuple(x)] for x in grid.X[::500]] == grid.y[::500].tolist()
    assert len(datasets.era5_grid(180, 360)) == 64_800


@pytest.mark.usefixtures("data_folder")
def test_held_out_points_are_between_the_rows_and_off_the_grid():
    grid = datasets.era5_grid(9, 16)
    held = grid.held_out(4000, seed=1)
    assert len(np.unique(held.X, axis=0)) == 4000
    assert not set(map(tuple, held.X)) & set(map(tuple, grid.X))
    assert np.abs(held.X[:, 0]).max() == 88.75  # the outermost rows take part
    on_a_row = np.isin(held.X[:, 0], grid.X[:, 0])
    assert 0 < on_a_row.mean() < 0.05  # 9 of 711 rows
    np.testing.assert_array_equal(held.X, grid.held_out(4000, seed=1).X)
    assert (held.X != grid.held_out(4000, seed=2).X).any()


@pytest.mark.usefixtures("data_folder")
def test_grids_that_do_not_exist_are_refused():
    with pytest.raises(InputError, match="at most 711 × 1440"):
        datasets.era5_grid(712, 10)
    with pytest.raises(InputError, match="n_lat must be at least 2"):
        datasets.era5_grid(1, 10)
    with pytest.raises(InputError, match="leaves 1440"):
        datasets.era5_grid(710, 1440).held_out(2000)


def test_the_hashes_are_those_of_the_files_here(data_folder):
    known = [f for f in vars(tables).values() if isinstance(f, files.PublicFile) and f.sha256]
    assert len(known) == 8
    for file in known:
        path = data_folder / file.name
        content = (
            path.read_bytes() if path.exists() else gzip.decompress((data_folder / f"{file.name}.gz").read_bytes())
        )
        assert hashlib.sha256(content).hexdigest() == file.sha256


@pytest.mark.usefixtures("data_folder")
def test_every_set_is_checked_by_a_hash():
    """What SECURITY.md promises: of the file, or of the numbers in it where the file has none."""
    unknown = {f.name for f in vars(tables).values() if isinstance(f, files.PublicFile) and not f.sha256}
    assert unknown == {"Concrete_Data.xls", "3D_spatial_network.txt"}
    datasets.concrete()  # their numbers are those of the tables here
    datasets.road3d()


# --- where files come from ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LOADERS)
def test_without_a_network_the_error_says_where_to_put_the_file(name, nowhere):
    with pytest.raises(DataError) as caught:
        LOADERS[name][0]()
    message = str(caught.value)
    assert "CAGP_DATA" in message
    assert str(nowhere) in message
    assert "https://" in message
    assert "no network" in message


def test_the_error_names_the_file_and_its_hash(nowhere, monkeypatch, tmp_path):
    monkeypatch.setenv("CAGP_DATA", str(tmp_path))
    with pytest.raises(DataError, match=rf"kin40k.csv.gz .*put it in {tmp_path} \(CAGP_DATA\).*sha256: .*9bee7f2a"):
        datasets.kin40k()


def test_the_cache_comes_second(data_folder, nowhere):
    nowhere.mkdir()
    shutil.copy(data_folder / "concrete.csv", nowhere)
    assert datasets.concrete().path == nowhere / "concrete.csv"


def test_a_changed_file_is_refused_and_not_passed_over(nowhere, monkeypatch, tmp_path):
    (tmp_path / "concrete.csv").write_text("a,b\n1,2\n")
    monkeypatch.setenv("CAGP_DATA", str(tmp_path))
    with pytest.raises(DataError, match="not the published file: its sha256 is"):
        datasets.concrete()


def test_a_download_with_another_hash_is_an_error(nowhere, monkeypatch):
    def retrieve(url, **options):
        raise ValueError(f"SHA256 hash of downloaded file does not match the known hash: {options['known_hash']}")

    monkeypatch.setattr(pooch, "retrieve", retrieve)
    with pytest.raises(DataError, match="does not match the known hash: sha256:f709d0107"):
        datasets.protein()


def _serve(monkeypatch, member: str, content: bytes):
    """Let pooch 'download' an archive with this member among others."""

    def retrieve(url, known_hash, fname, path):
        assert known_hash is None
        archive = Path(path) / fname
        archive.parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(archive, "w") as out:
            out.writestr("Readme.txt", "not this")
            out.writestr(member, content)
        return str(archive)

    monkeypatch.setattr(pooch, "retrieve", retrieve)


def test_a_page_in_place_of_an_archive_is_an_error_and_is_not_kept(nowhere, monkeypatch):
    def retrieve(url, known_hash, fname, path):
        page = Path(path) / fname
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text("<html>This page has moved</html>")
        return str(page)

    monkeypatch.setattr(pooch, "retrieve", retrieve)
    with pytest.raises(DataError, match=r"gave no file \(File is not a zip file\)"):
        datasets.bike()
    assert not list(nowhere.iterdir())


def test_an_archive_without_the_file_is_an_error(nowhere, monkeypatch):
    _serve(monkeypatch, "data/day.csv", b"1")
    with pytest.raises(DataError, match=r"no hour.csv, only Readme.txt, data/day.csv"):
        datasets.bike()


def test_an_archive_is_unpacked_once_and_kept(nowhere, monkeypatch):
    header = ",".join(tables._BIKE_COLUMNS)
    row = "1,2011-01-01,1,0,1,0,0,6,0,1,0.24,0.2879,0.81,0,3,13,16\n"
    content = (header + "\n" + row * 17_379).encode()
    _serve(monkeypatch, "folder/hour.csv", content)
    known = replace(tables._BIKE_CSV, sha256=hashlib.sha256(content).hexdigest())
    monkeypatch.setattr(tables, "_BIKE_CSV", known)
    first = datasets.bike()
    assert first.path == nowhere / "bike_hour.csv"
    assert first.y[0] == 16
    assert [path.name for path in nowhere.iterdir()] == ["bike_hour.csv"]
    monkeypatch.setattr(pooch, "retrieve", lambda *a, **k: pytest.fail("downloaded twice"))
    assert datasets.bike().path == first.path


def test_an_archive_of_another_shape_is_refused(nowhere, monkeypatch):
    _serve(monkeypatch, "3D_spatial_network.txt", b"144552912,9.3498486,56.7408757,17.05\n" * 10)
    with pytest.raises(DataError, match=r"shape \(10, 4\), expected \(434874, 4\)"):
        datasets.road3d()


def test_other_content_of_an_archive_is_refused_and_not_kept(nowhere, monkeypatch):
    _serve(monkeypatch, "hour.csv", b"a,b\n1,2\n")
    with pytest.raises(DataError, match=r"hour\.csv of https.* is not the published file: its sha256 is"):
        datasets.bike()
    assert not list(nowhere.iterdir())


def test_other_columns_are_refused(nowhere, monkeypatch):
    _serve(monkeypatch, "hour.csv", b"a,b\n1,2\n")
    monkeypatch.setattr(tables, "_BIKE_CSV", replace(tables._BIKE_CSV, sha256=None))
    with pytest.raises(DataError, match=r"has the columns \['a', 'b'\]"):
        datasets.bike()


def test_an_archive_that_unpacks_to_too_much_is_refused(nowhere, monkeypatch):
    monkeypatch.setattr(files, "_LARGEST_UNPACKED", 10**6)
    _serve(monkeypatch, "3D_spatial_network.txt", bytes(10**6 + 1))
    with pytest.raises(DataError, match=r"unpacks to more than 1,000,000 bytes"):
        datasets.road3d()
    assert not list(nowhere.iterdir())


def test_other_numbers_are_refused(nowhere, monkeypatch):
    monkeypatch.setattr(tables, "_ROAD_ROWS", 2)
    _serve(monkeypatch, "3D_spatial_network.txt", b"144552912,9.35,56.74,17.05\n144552912,9.36,56.75,18.5\n")
    with pytest.raises(DataError, match=r"not the published file: of its numbers the sha256 is"):
        datasets.road3d()


def test_part_of_the_roads_is_said_to_be_part_and_refused_when_all_is_asked_for(data_folder, nowhere, monkeypatch):
    monkeypatch.setenv("CAGP_DATA", str(data_folder))
    part = datasets.road3d()
    assert not part.complete
    assert "first 5,000 of 434,874" in part.note
    assert "incomplete" in repr(part)
    if not (data_folder / "3D_spatial_network.txt").exists():
        with pytest.raises(DataError, match=r"3D_spatial_network\.txt"):
            datasets.road3d(full=True)


def test_the_full_road_file_loses_its_first_column(nowhere, monkeypatch):
    monkeypatch.setattr(tables, "_ROAD_ROWS", 2)
    _serve(monkeypatch, "3D_spatial_network.txt", b"144552912,9.35,56.74,17.05\n144552912,9.36,56.75,18.5\n")
    numbers = np.array([[9.35, 56.74, 17.05], [9.36, 56.75, 18.5]])
    monkeypatch.setattr(tables, "_ROAD_NUMBERS", hashlib.sha256(numbers.tobytes()).hexdigest())
    roads = datasets.road3d()
    np.testing.assert_array_equal(roads.X, [[9.35, 56.74], [9.36, 56.75]])
    np.testing.assert_array_equal(roads.y, [17.05, 18.5])
    assert roads.complete


def test_the_excel_file_of_concrete_is_read(nowhere, monkeypatch):
    class Sheet:
        nrows = 1031

        def row_values(self, row):
            return [float(row + column) for column in range(9)]

    class Book:
        def sheet_by_index(self, index):
            assert index == 0
            return Sheet()

    xlrd = pytest.importorskip("xlrd")
    monkeypatch.setattr(xlrd, "open_workbook", lambda path: Book())
    _serve(monkeypatch, "Concrete_Data.xls", b"an Excel file")
    numbers = np.add.outer(np.arange(1.0, 1031.0), np.arange(9.0))
    monkeypatch.setattr(tables, "_CONCRETE_NUMBERS", hashlib.sha256(numbers.tobytes()).hexdigest())
    concrete = datasets.concrete()
    np.testing.assert_array_equal(concrete.X[0], np.arange(1.0, 9.0))
    assert concrete.y[0] == 9.0
