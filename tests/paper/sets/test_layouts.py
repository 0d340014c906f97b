"""Every data set from a tiny folder of its layout, and what is said where it is absent."""

import gzip
import json

import numpy as np
import pytest

from cbid.paper.sets import CATALOGUE, DataAbsent, open_set
from tests.data.pictures import pgm, write_tree
from tests.data.test_idx import idx


@pytest.fixture(autouse=True)
def no_data(monkeypatch, tmp_path):
    monkeypatch.setenv("CBID_DATA", str(tmp_path))
    return tmp_path


def classes(names, count, suffix="pgm", inner="images/"):
    """Files of so many images a class, each of another value."""
    return {
        f"{inner}{name}/image_{i:04d}.{suffix}": pgm(i % 256, 2, 2 + c + 20 * (i // 256))
        for c, name in enumerate(names)
        for i in range(count)
    }


def test_every_protocol_of_the_paper_is_there():
    for name in ("scene15", "caltech101", "graz02", "sports8", "epfl_cars", "coil20", "daimler", "cbcl_faces"):
        assert "paper" in CATALOGUE[name].protocols
    for name in ("scene15", "caltech101-five", "graz02", "sports8"):
        assert "patches" in CATALOGUE[name].protocols
    assert len(CATALOGUE) == 15
    for info in CATALOGUE.values():
        assert all((info.title, info.layout, info.get, info.licence, info.protocols))


@pytest.mark.parametrize("name", [name for name in CATALOGUE if name not in ("digits", "fashion_mnist")])
def test_absence_is_reported_with_layout_and_source(name, no_data, monkeypatch):
    info = CATALOGUE[name]
    for setting in (str(no_data), ""):
        monkeypatch.setenv("CBID_DATA", setting)
        with pytest.raises(DataAbsent) as caught:
            open_set(name)
        message = str(caught.value)
        assert message.startswith(f"{info.title} is missing")
        assert info.layout in message
        assert info.get in message
        assert "CBID_DATA" in message
        assert "\n" not in message
    with pytest.raises(DataAbsent, match=f"searched .*{info.folder}, "):
        open_set(name, no_data)
    with pytest.raises(ValueError, match="name='imagenet'"):
        open_set("imagenet")


@pytest.mark.parametrize("inner", ["images/", ""])
def test_scene15(no_data, inner):
    names = ["CALsuburb", "MITcoast"]
    write_tree(no_data / "scene15", classes(names, 130, inner=inner))
    scenes = open_set("scene15")
    assert len(scenes) == 260
    assert scenes.classes.tolist() == names
    split = scenes.split("paper", 3)
    assert [len(split.train), len(split.validation), len(split.test)] == [200, 20, 40]
    split = scenes.split("patches")
    assert [len(split.train), len(split.validation), len(split.test)] == [20, 0, 50]
    with pytest.raises(DataAbsent, match="has no part 'set'"):
        scenes.split("given")


def test_scene15_with_its_other_files(no_data):
    names = ["CALsuburb", "MITcoast"]
    write_tree(no_data / "scene15", classes(names, 120))
    paths = [f"{name}/image_{i:04d}.pgm" for name in names for i in range(120)]
    order = np.random.default_rng(0).permutation(240)
    np.savez(
        no_data / "scene15" / "embeddings_efficientnet_lite0.npz",
        features=order[:, None].astype(np.float16),
        paths=np.array(paths)[order],
    )
    (no_data / "scene15" / "train_100_per_class.txt").write_text("\n".join(paths[:100] + paths[120:220]))
    scenes = open_set("scene15")
    assert scenes.part("embeddings")[:, 0].tolist() == list(range(240))  # in the order of the images
    split = scenes.split("given")
    assert split.train.tolist() == [*range(100), *range(120, 220)]
    split = scenes.split("held-out", 4)
    assert [len(split.train), len(split.validation), len(split.test)] == [160, 40, 40]
    assert scenes.part("embeddings") is scenes.part("embeddings")
    write_tree(no_data / "scene15", {"images/MITcoast/new.pgm": pgm(0)})
    with pytest.raises(ValueError, match=r"no embedding of MITcoast/new\.pgm"):
        open_set("scene15").part("embeddings")


@pytest.mark.parametrize("inner", ["images/", "101_ObjectCategories/", ""])
def test_caltech(no_data, inner):
    five = ["BACKGROUND_Google", "Faces", "Motorbikes", "airplanes", "car_side"]
    write_tree(no_data / "caltech101", classes([*five, "ant"], 41, inner=inner))
    whole, some = open_set("caltech101"), open_set("caltech101-five")
    assert len(whole.classes) == 6
    assert some.classes.tolist() == five
    assert len(some) == 5 * 41
    assert (some.labels == np.repeat(np.arange(5), 41)).all()
    split = whole.split("paper")
    assert [len(split.train), len(split.validation), len(split.test)] == [90, 30, 120]
    split = some.split("patches", 4)
    assert [len(split.train), len(split.test)] == [50, 125]


def test_caltech_without_a_class(no_data):
    write_tree(no_data / "caltech101", classes(["Faces", "airplanes"], 3))
    with pytest.raises(DataAbsent, match="no class folder BACKGROUND_Google, Motorbikes, car_side"):
        open_set("caltech101-five")


@pytest.mark.parametrize(
    ("name", "folders"),
    [
        ("graz02", ["bikes", "cars", "none", "people"]),
        ("sports8", ["RockClimbing", "badminton", "bocce", "croquet", "polo", "rowing", "sailing", "snowboarding"]),
    ],
)
def test_class_folders(no_data, name, folders):
    write_tree(no_data / name, classes(folders, 65, inner=""))
    for root in (None, no_data, no_data / name):
        opened = open_set(name, root)
        assert opened.classes.tolist() == folders
    split = opened.split("paper", 1)
    assert [len(v) // len(folders) for v in (split.train, split.validation, split.test)] == [50, 10, 5]


@pytest.mark.parametrize("inner", ["images/obj{}/", "coil-20-proc/", ""])
def test_coil(no_data, inner):
    files = {f"{inner.format(n)}obj{n}__{p}.png": pgm(p, 2, 1 + n) for n in range(1, 4) for p in range(72)}
    coil = open_set("coil20", write_tree(no_data / "coil20", files))
    assert coil.classes.tolist() == ["obj1", "obj2", "obj3"]
    for i in (0, 50, 100):
        assert int(coil.images[i][0, 0]) * 5 == coil.part("pose")[i]
        assert coil.images[i].shape[1] == 2 + coil.labels[i]
    split = coil.split("paper")
    assert sorted(set(coil.part("pose")[split.test])) == [0, 90, 180, 270]
    assert [len(split.train), len(split.test)] == [3 * 68, 12]


def test_cars_as_published(no_data):
    """Two cars: one turns clockwise 100 frames a turn from frame 11, the other the other way, 90 from frame 1."""
    lines = ["2 376 250", "110 100", "format %d", "boxes %d", "100 90", "11 1", "1 -1"]
    files = {
        f"tripod-seq/tripod_seq_{s:02d}_{f:03d}.jpg": pgm(f, 2, s)
        for s, n in ((1, 110), (2, 100))
        for f in range(1, n + 1)
    }
    write_tree(no_data / "epfl_cars", files | {"tripod-seq.txt": "\n".join(lines).encode()})
    cars = open_set("epfl_cars")
    assert cars.classes.tolist() == ["car 01", "car 02"]
    pose = cars.part("pose")
    assert pose[10] == 0  # frame 11 of car 1
    assert pose[11] == pytest.approx(3.6)
    assert pose[0] == pytest.approx(324)
    assert pose[110] == 0
    assert pose[111] == pytest.approx(356)
    split = cars.split("paper", 2)
    assert [len(split.train), len(split.test)] == [160, 8]
    (no_data / "epfl_cars" / "types.csv").write_text("2,SUV\n")
    assert open_set("epfl_cars").classes.tolist() == ["SUV"]
    (no_data / "epfl_cars" / "types.csv").write_text("two\n")
    with pytest.raises(ValueError, match=r"types\.csv: 'two' is not a sequence"):
        open_set("epfl_cars")


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("text", "expected integers"),
        ("1\n1\na\nb\n90 90\n1\n1", "one number for each sequence"),
        ("1\n1\na\nb\n0\n1\n1", "no full turn of 0"),
        ("1\n1\na\nb\n90\n1\n1", "lists 1 sequences"),
    ],
)
def test_cars_with_a_damaged_description(no_data, lines, message):
    files = {"tripod-seq/tripod_seq_02_001.jpg": pgm(1), "tripod-seq.txt": lines.encode()}
    write_tree(no_data / "epfl_cars", files)
    with pytest.raises(ValueError, match=message):
        open_set("epfl_cars")


def test_cars_by_degrees(no_data):
    files = {f"images/{kind}/view_{d}.jpg": pgm(1) for kind in ("SUV", "sports") for d in range(0, 360, 4)}
    write_tree(no_data / "epfl_cars", files)
    cars = open_set("epfl_cars")
    split = cars.split("paper")
    assert [len(split.train), len(split.test)] == [160, 8]
    assert sorted(set(cars.part("pose")[split.test])) == [0, 88, 180, 268]
    write_tree(no_data / "epfl_cars", {"images/SUV/front.jpg": pgm(1)})
    with pytest.raises(ValueError, match=r"SUV/front\.jpg: .* ends in the degrees"):
        open_set("epfl_cars")


def test_daimler_in_arrays_and_in_folders(no_data):
    arrays, files = {}, {}
    for p, part in enumerate(("1", "2", "T1")):
        for key, folder in (("ped", "ped_examples"), ("nonped", "non-ped_examples")):
            count = 3 + (key == "ped")
            arrays[f"{key}_{part}"] = np.full((count, 36, 18), 10 * p + count, np.uint8)
            files |= {f"{part}/{folder}/img_{i:05d}.pgm": pgm(10 * p + count, 36, 18) for i in range(count)}
    (no_data / "a" / "daimler").mkdir(parents=True)
    np.savez_compressed(no_data / "a" / "daimler" / "daimler.npz", **arrays)
    write_tree(no_data / "b" / "daimler", files)
    for root in (no_data / "a", no_data / "b"):
        data = open_set("daimler", root)
        assert data.classes.tolist() == ["other", "pedestrian"]
        assert len(data) == 21
        assert [data.images[i][0, 0] for i in (0, 4, 7, 20)] == [4, 3, 14, 23]
        first, second = data.split("paper", 0), data.split("paper", 1)
        assert set(data.part("set")[first.train]) == {"1"}
        assert set(data.part("set")[first.validation]) == {"2"}
        assert set(data.part("set")[first.test]) == {"T1"}
        np.testing.assert_array_equal(first.train, second.validation)
        with pytest.raises(ValueError, match="repeat=2"):
            data.split("paper", 2)


def test_cbcl_in_folders(no_data):
    folders = ("train/face", "train/non-face", "test/face", "test/non-face")
    files = {f"{folder}/{i}.pgm": pgm(i, 19, 19) for folder in folders for i in range(5)}
    data = open_set("cbcl_faces", write_tree(no_data / "cbcl_faces", files))
    assert data.classes.tolist() == ["face", "other"]
    split = data.split("given")
    assert [len(split.train), len(split.test)] == [10, 10]
    with pytest.raises(ValueError, match="2000 to train"):
        data.split("paper")


def test_inria(no_data):
    boxes = {"b.jpg": {"width": 9, "height": 9, "boxes": [[1, 2, 3, 4], [5, 6, 7, 8]]}}
    files = {
        "train/positive/0000.jpg": pgm(1),
        "train/positive/0001.jpg": pgm(2),
        "train/negative/n.jpg": pgm(3),
        "test/images/a.jpg": pgm(4),
        "test/images/b.jpg": pgm(5),
        "test/boxes.json": json.dumps(boxes).encode(),
    }
    data = open_set("inria_person", write_tree(no_data / "inria_person", files))
    assert data.labels.tolist() == [1, 1, 0, 1, 1]
    assert [image[0, 0] for image in data.images] == [1, 2, 3, 4, 5]
    split = data.split("paper")
    assert split.train.tolist() == [0, 1, 2]
    assert split.test.tolist() == [3, 4]
    assert [len(boxes) for boxes in data.part("boxes")] == [0, 0, 0, 0, 2]
    assert data.part("boxes")[4].tolist() == [[1, 2, 3, 4], [5, 6, 7, 8]]


def test_tud_brussels(no_data):
    lines = '"images/a.png": (10, 20, 30, 60), (5, 50, 2, 9);\n"images/b.png";\n'
    write_tree(no_data / "tud_brussels", {"images/a.png": pgm(1), "images/b.png": pgm(2)})
    data = open_set("tud_brussels")
    with pytest.raises(DataAbsent, match=r"boxes\.json is missing"):
        data.part("boxes")
    (no_data / "tud_brussels" / "all.idl").write_text(lines)
    data = open_set("tud_brussels")
    assert data.part("boxes")[0].tolist() == [[10, 20, 30, 60], [2, 9, 5, 50]]
    assert len(data.part("boxes")[1]) == 0
    (no_data / "tud_brussels" / "all.idl").write_text('"a.png": (1, 2, 3);')
    with pytest.raises(ValueError, match=r"all\.idl: .*not four numbers"):
        open_set("tud_brussels").part("boxes")
    (no_data / "tud_brussels" / "boxes.json").write_text('{"a.png": [1, 2]}')
    with pytest.raises(ValueError, match=r"boxes\.json: expected"):
        open_set("tud_brussels").part("boxes")
    assert data.split("paper").test.tolist() == [0, 1]
    assert len(data.split("paper").train) == 0


@pytest.mark.parametrize("name", ["mnist", "fashion_mnist"])
@pytest.mark.parametrize("packed", [False, True])
def test_mnist(no_data, name, packed):
    rng = np.random.default_rng(0)
    folder = no_data / name
    folder.mkdir()
    parts = {}
    for part, n in (("train", 30), ("t10k", 20)):
        parts[part] = rng.integers(0, 256, (n, 28, 28)).astype("u1"), (np.arange(n) % 10).astype("u1")
        for kind, array in zip(("images-idx3", "labels-idx1"), parts[part]):
            content = idx(array)
            ending = ".gz" if packed else ""
            (folder / f"{part}-{kind}-ubyte{ending}").write_bytes(gzip.compress(content) if packed else content)
    data = open_set(name)
    assert len(data) == 50
    np.testing.assert_array_equal(data.images[31], parts["t10k"][0][1])
    assert data.labels.tolist() == [*(np.arange(30) % 10), *(np.arange(20) % 10)]
    split = data.split("given")
    assert [len(split.train), len(split.test)] == [30, 20]
    (folder / f"t10k-labels-idx1-ubyte{'.gz' if packed else ''}").unlink()
    with pytest.raises(DataAbsent, match="t10k-labels-idx1-ubyte is missing"):
        open_set(name)


def write_cifar(folder, sizes=(4, 4, 4, 4, 4, 10)):
    """Batches with the number of the image in red, 7 in green and noise in blue; classes in turn."""
    rng = np.random.default_rng(0)
    folder.mkdir(parents=True)
    start = 0
    for name, size in zip([*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"], sizes):
        number = np.arange(start, start + size)
        rows = np.column_stack([number % 10, *[number] * 3072]).astype("u1")
        rows[:, 1 + 1024 : 1 + 2048] = 7
        rows[:, 1 + 2048 :] = rng.integers(0, 256, (size, 1024))
        (folder / name).write_bytes(rows.tobytes())
        start += size


@pytest.mark.parametrize("inner", ["", "cifar-10-batches-bin"])
def test_cifar10(no_data, inner):
    folder = no_data / "cifar10" / inner
    write_cifar(folder)
    data = open_set("cifar10")
    assert data.images[3].shape == (32, 32, 3)
    assert data.images[3][5, 6, :2].tolist() == [3, 7]
    assert data.labels.tolist() == [i % 10 for i in range(30)]
    assert [len(part) for part in (data.split("given").train, data.split("given").test)] == [20, 10]
    (folder / "data_batch_2.bin").write_bytes(b"abc")
    with pytest.raises(ValueError, match="3 bytes: expected a multiple of 3073"):
        open_set("cifar10")
    (folder / "data_batch_2.bin").unlink()
    with pytest.raises(DataAbsent, match="data_batch_2"):
        open_set("cifar10")


def test_digits():
    data = open_set("digits")
    assert data.images[0].shape == (8, 8)
    assert data.images[0].max() <= 1
    split = data.split("given")
    assert [len(split.train), len(split.test)] == [1200, 597]
