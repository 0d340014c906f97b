"""Predictions, near-duplicates, the classes of a bit, and the parts of a picture that decide bits."""

import numpy as np
import pytest

from cbid.codes import unpack
from cbid.project import Project, inspecting
from cbid.project.inspecting import occlude
from tests.project.made import fitted, picture, write_images


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    root = tmp_path_factory.mktemp("inspecting")
    with fitted(root / "p.cbid", write_images(root / "images", n=10, colours=("red", "green", "blue"))) as project:
        yield project


def test_predictions_are_those_of_the_evaluation(opened):
    found = opened.predictions()
    assert found.ids.tolist() == opened.ids_of(part="held-out").tolist()
    classes = opened.classes
    matrix = np.zeros((len(classes), len(classes)), dtype=int)
    np.add.at(matrix, (np.searchsorted(classes, found.labels), np.searchsorted(classes, found.predicted)), 1)
    assert matrix.tolist() == opened.confusion["matrix"]
    assert (found.labels == found.predicted).mean() == opened.evaluation["codes"][-1]["weighted"]["accuracy"]
    assert opened.predictions() is found  # kept


def test_no_predictions_without_held_out_images(tmp_path):
    with fitted(tmp_path / "p.cbid", write_images(tmp_path / "images", n=4), held_out=0.0, n_bits=8) as project:
        assert len(project.predictions().ids) == 0


def test_duplicates(tmp_path):
    """Rows 0 and 1 are equal, 2 is a near copy of them, and 3 has the code of another row but another vector."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 6)).astype(np.float32)
    X[1], X[2], X[3] = X[0], X[0] * (1 + 1e-3), X[10] * 3
    np.save(tmp_path / "v.npy", X)
    with fitted(tmp_path / "p.cbid", tmp_path / "v.npy", n_bits=16, coder="LSH") as project:
        assert project.duplicates(2, 0.99) == [([0, 1, 2], pytest.approx(0.9995, abs=1e-4))]
        assert project.duplicates(0, 1.0) == [([0, 1], 1.0)]
        groups = {tuple(ids): value for ids, value in project.duplicates(16, 0.4)}
        assert min(groups.values()) >= 0.4
        with pytest.raises(ValueError, match="radius=17"):
            project.duplicates(17)
        with pytest.raises(ValueError, match="similarity=2"):
            project.duplicates(1, 2)


def test_classes_of_a_bit(opened):
    bits = unpack(opened.index.reconstruct(opened.ids), opened.n_bits) > 0
    labels = np.array([opened.record(id).label for id in opened.ids])
    for s in (0, 7, 8, opened.n_bits - 1):
        found = opened.bit_classes(s)
        assert found.classes == ["blue", "green", "red"]
        assert found.images.tolist() == [10, 10, 10]
        assert found.ones.tolist() == [int(bits[labels == name, s].sum()) for name in found.classes]
    with pytest.raises(ValueError, match="s=99"):
        opened.bit_classes(99)


def test_occlusion_finds_the_part_that_decides():
    """One bit is the sign of the mean of the top left quarter less 100: hiding that quarter decides it, alone."""

    class Coder:
        n_bits_ = 2

        def project(self, X):
            return np.stack([X[:, 0] - 100, X[:, 0] * 0 - 1], axis=1)

    class Stub:
        coder, n_bits = Coder(), 2

    image = np.zeros((224, 224, 3), dtype=np.uint8)
    image[:112, :112] = 200

    def describe(array):
        return np.array([array[:112, :112].mean()], dtype=np.float32)

    found = occlude(Stub(), describe, image, np.array([0b10000000], np.uint8), np.array([1.0, 1.0]), seconds=60)
    grid = len(found.heat)
    assert (grid, found.n_bits) == (12, 2)
    inside = np.zeros((grid, grid), dtype=bool)
    inside[: grid // 2, : grid // 2] = True
    assert (found.heat[inside] > 0).all()
    assert (found.heat[~inside] == 0).all()
    assert found.flipped.sum() == 0  # a 36th of the quarter does not flip it
    slow = occlude(Stub(), describe, image, np.array([0b10000000], np.uint8), np.array([1.0, 0.0]), seconds=0)
    assert (slow.heat.shape, slow.n_bits) == ((4, 4), 1)
    coarse = occlude(Stub(), describe, image, np.array([0b10000000], np.uint8), np.ones(2), grid=2, seconds=0)
    np.testing.assert_array_equal(coarse.heat > 0, [[True, False], [False, False]])
    assert coarse.flipped.tolist() == [[1, 0], [0, 0]]  # of 200 in the quarter, its mean falls to 50
    with pytest.raises(ValueError, match="grid=13"):
        occlude(Stub(), describe, image, np.array([0b10000000], np.uint8), np.ones(2), grid=13)


def test_occlusion_keeps_to_its_time(monkeypatch):
    """A descriptor becomes ten times as slow after the pace was measured: the map is coarser, but ready in time.

    The value is the mean of the left half, so what is hidden there counts and the rest does not.
    """
    clock, calls = [0.0], []

    class Coder:
        n_bits_ = 1

        def project(self, X):
            return X[:, :1] - 10

    class Stub:
        coder, n_bits = Coder(), 1

    def describe(array):
        calls.append(array)
        clock[0] += 0.01 if len(calls) <= 3 else 0.1
        return np.array([array[:, :112].mean()], dtype=np.float32)

    monkeypatch.setattr(inspecting.time, "perf_counter", lambda: clock[0])
    image = np.zeros((224, 224, 3), dtype=np.uint8)
    image[:, :112] = 200
    found = occlude(Stub(), describe, image, np.array([0b10000000], np.uint8), np.ones(1), seconds=4)
    assert clock[0] < 4.2
    assert 36 <= len(calls) < 50
    assert found.heat.shape == (12, 12)
    assert (found.heat[:, :5] > 0).all()
    assert (found.heat[:, 7:] == 0).all()


def test_occlusion_of_a_stored_picture(opened):
    a, b = opened.ids[:2]
    found = opened.occlude(opened.thumbnail(int(a)), opened.code(int(b)), 8, own=opened.code(int(a)))
    agree = opened.explain(opened.code(int(a)), opened.code(int(b)), 8).agree
    assert found.n_bits <= agree.sum()
    assert found.heat.shape == found.flipped.shape
    assert 0 <= found.heat.min() <= found.heat.max() <= 1
    assert 0 < found.n_bits <= 8
    whole = opened.occlude(picture("red", 3), opened.code(int(b)))
    assert whole.n_bits <= opened.n_bits


def test_relabel(tmp_path):
    images = write_images(tmp_path / "images", n=6)
    fitted(tmp_path / "p.cbid", images).close()
    with Project.open(tmp_path / "p.cbid") as reader:
        ids = reader.ids_of("red")[:2]
        codes = reader.index.reconstruct(reader.ids)
        with pytest.raises(ValueError, match="write=True"):
            reader.relabel(ids, "blue")
        with Project.open(tmp_path / "p.cbid", write=True) as project:
            for wrong in ("", "a\nb"):
                with pytest.raises(ValueError, match="label="):
                    project.relabel(ids, wrong)
            project.relabel(ids, "blue")
            assert project.n_unlearned == 2
        reader.refresh()
        assert [record.label for record in reader.records_of(ids)] == ["blue", "blue"]
        assert np.isin(ids, reader.ids_of("blue")).all()
        assert (reader.index.reconstruct(reader.ids) == codes).all()
    assert Project.check(tmp_path / "p.cbid") == ([], [])
    # The next fit of the same folder keeps the labels and learns from them; the one after has nothing to do.
    with fitted(tmp_path / "p.cbid", images) as again:
        assert not again.was_up_to_date
        assert [record.label for record in again.records_of(ids)] == ["blue", "blue"]
        assert again.n_unlearned == 0
    with fitted(tmp_path / "p.cbid", images) as again:
        assert again.was_up_to_date
        assert [record.label for record in again.records_of(ids)] == ["blue", "blue"]


@pytest.mark.parametrize("committed", [False, True])
def test_relabel_that_is_killed(tmp_path, monkeypatch, committed):
    """A process that dies before the commit changes nothing; after it, the next writer completes the table."""
    fitted(tmp_path / "p.cbid", write_images(tmp_path / "images", n=4), n_bits=8).close()

    class Killed(BaseException):
        pass

    def die(*arguments, **named):
        raise Killed

    with Project.open(tmp_path / "p.cbid", write=True) as project:
        id = int(project.ids_of("red")[0])
        with monkeypatch.context() as patch:
            if committed:
                patch.setattr("cbid.project.table.ImageTable.settle_labels", die)
            else:
                patch.setattr("cbid.search.CodeIndex.save", die)
            with pytest.raises(Killed):
                project.relabel([id], "blue")
    with Project.open(tmp_path / "p.cbid", write=True) as project:
        wanted = "blue" if committed else "red"
        assert project.record(id).label == wanted
        assert id in project.ids_of(wanted)
    assert Project.check(tmp_path / "p.cbid") == ([], [])
