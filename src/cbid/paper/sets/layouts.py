"""Layouts of data sets on disk: functions from a folder to the images and the other parts."""

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbid.data.arrays import read_idx, read_npz
from cbid.data.folders import ImageFolder
from cbid.data.image_sets import ImageFiles, ImageItems, ImageSet, Names
from cbid.labels import encode_labels
from cbid.paper.sets.base import DataAbsent, Parts

Opened = tuple[ImageSet, Parts]


def class_folders(path: Path, classes: Sequence[str] | None = None) -> Opened:
    """Open ``images/<class>/*`` or ``<class>/*``; all classes or those named."""
    images = ImageFolder(_inner(path, "images", "101_ObjectCategories"))
    if images.classes is None or images.labels is None:
        raise DataAbsent(f"{path} has images but no class folders")
    if classes is None:
        return images, {}
    absent = sorted(set(classes) - set(images.classes.tolist()))
    if absent:
        raise DataAbsent(f"{images.root} has no class folder {', '.join(absent)}")
    given = images.classes[images.labels]
    chosen = images.take(np.isin(given, classes))
    chosen.classes, chosen.labels = encode_labels(given[np.isin(given, classes)], missing=True)
    return chosen, {}


def embedded_folders(path: Path) -> Opened:
    """Open class folders, with embeddings and a given split if these files are beside them."""
    images, _ = class_folders(path)
    parts: dict[str, Callable[[], Any]] = {}

    def embeddings() -> NDArray[np.float16]:
        arrays = read_npz(path / "embeddings_efficientnet_lite0.npz")
        place = {name: i for i, name in enumerate(arrays["paths"].tolist())}
        without = [name for name in images.names if name not in place]
        if without:
            raise ValueError(f"{path} has no embedding of {without[0]} and of {len(without) - 1} other images")
        return arrays["features"][[place[name] for name in images.names]]

    def given() -> NDArray[np.str_]:
        listed = set((path / "train_100_per_class.txt").read_text().split())
        return np.array(["train" if name in listed else "test" for name in images.names])

    if (path / "embeddings_efficientnet_lite0.npz").exists():
        parts["embeddings"] = embeddings
    if (path / "train_100_per_class.txt").exists():
        parts["set"] = given
    return images, parts


def turntable(path: Path) -> Opened:
    """Open ``objN__P.png`` in any subfolder: object N at 5 P degrees."""
    images: ImageFiles = ImageFolder(_inner(path, "images", "coil-20-proc"), labelled=False)
    found = [re.search(r"(obj\d+)__(\d+)\.\w+$", name) for name in images.names]
    rows = [i for i, match in enumerate(found) if match]
    images = images.take(rows)
    matches = [found[i] for i in rows]
    images.classes, images.labels = encode_labels([match[1] for match in matches if match], missing=True)
    return images, {"pose": lambda: np.array([5 * int(match[2]) for match in matches if match])}


def sequences(path: Path) -> Opened:
    """Open cars on a turntable: ``images/<type>/*_<degrees>.*``, or the published sequences.

    Degrees count from the front. The published files are ``tripod-seq/tripod_seq_SS_FFF.jpg`` and
    ``tripod-seq.txt``, whose lines are the number of sequences, frames of each, two name formats, frames of a full
    turn, the frontal frame and the sense of rotation. Each car is a class, unless ``types.csv`` (sequence, type)
    names types.
    """
    if not (path / "tripod-seq.txt").exists():
        images, _ = class_folders(path)
        found = [re.search(r"(\d+(?:\.\d+)?)\.\w+$", name) for name in images.names]
        if not all(found):
            wrong = images.names[[match is None for match in found].index(True)]
            raise ValueError(f"{wrong}: expected a file name that ends in the degrees from the front")
        return images, {"pose": lambda: np.array([float(match[1]) % 360 for match in found if match])}
    turns, fronts, senses = _turns(path / "tripod-seq.txt")
    kinds: dict[int, str] = {}
    if (path / "types.csv").exists():
        kinds = dict(_type(line, path) for line in (path / "types.csv").read_text().splitlines() if line.strip())
    files = ImageFolder(path / "tripod-seq", labelled=False)
    places = [re.search(r"tripod_seq_(\d+)_(\d+)\.\w+$", name) for name in files.names]
    numbers = [(i, int(match[1]), int(match[2])) for i, match in enumerate(places) if match]
    numbers = [row for row in numbers if not kinds or row[1] in kinds]
    if any(sequence > len(turns) for _, sequence, _ in numbers):
        raise ValueError(f"{path / 'tripod-seq.txt'} lists {len(turns)} sequences; images of others exist")
    cars = files.take([i for i, _, _ in numbers])
    cars.classes, cars.labels = encode_labels(
        [kinds.get(sequence, f"car {sequence:02d}") for _, sequence, _ in numbers], missing=True
    )
    pose = [senses[s - 1] * (frame - fronts[s - 1]) * 360 / turns[s - 1] % 360 for _, s, frame in numbers]
    return cars, {"pose": lambda: np.array(pose)}


def _turns(path: Path) -> list[list[int]]:
    """Read lines 5 to 7: frames of a full turn, frontal frame and sense of rotation of each sequence."""
    lines = path.read_text().splitlines()
    try:
        numbers = [[int(v) for v in lines[i].split()] for i in (4, 5, 6)]
    except (ValueError, IndexError) as error:
        raise ValueError(f"{path}: expected integers in lines 5 to 7") from error
    if len({len(row) for row in numbers}) != 1 or min(numbers[0], default=0) < 1:
        raise ValueError(f"{path}: expected one number for each sequence in lines 5 to 7, and no full turn of 0")
    return numbers


def _type(line: str, path: Path) -> tuple[int, str]:
    sequence, _, kind = line.partition(",")
    if not sequence.strip().isdecimal() or not kind.strip():
        raise ValueError(f"{path / 'types.csv'}: {line!r} is not a sequence and a type")
    return int(sequence), kind.strip()


def arrays_or_folders(file: str, parts: Sequence[str], *kinds: tuple[str, str, str]) -> Callable[[Path], Opened]:
    """Return a layout: images in the arrays of one ``.npz`` file, or in folders.

    ``parts`` are the values of the part "set". ``kinds`` has (array name, folder, class) for each class, with {} for
    the part.
    """
    table = [(key.format(part), folder.format(part), part, name) for part in parts for key, folder, name in kinds]

    def open_either(path: Path) -> Opened:
        if (path / file).exists():
            arrays = read_npz(path / file)
            groups = [row for row in table if row[0] in arrays]
            names = [f"{key}/{i:05d}" for key, *_ in groups for i in range(len(arrays[key]))]
            sizes = [len(arrays[row[0]]) for row in groups]
            images: ImageSet = ImageItems(np.concatenate([arrays[row[0]] for row in groups]), names)
        else:
            groups = [row for row in table if (path / row[1]).is_dir()]
            images, sizes = _joined(path, [row[1] for row in groups])
        images.classes, images.labels = encode_labels(np.repeat([row[3] for row in groups], sizes), missing=True)
        return images, {"set": lambda: np.repeat([row[2] for row in groups], sizes)}

    return open_either


def detection(roles: Sequence[tuple[str, str, int]], boxes: str) -> Callable[[Path], Opened]:
    """Return a layout: photographs and windows for detection, with the boxes of people.

    ``roles`` has (folder, value of the part "role", 1 if it shows people) for each group. ``boxes`` is a JSON file
    {image: {"boxes": [[x0, y0, x1, y1], ...]}}; if it is missing, an .idl file with lines "image": (x0, y0, x1, y1)
    is read.
    """

    def open_detection(path: Path) -> Opened:
        groups = [row for row in roles if (path / row[0]).is_dir()]
        images, sizes = _joined(path, [row[0] for row in groups])
        images.labels = np.repeat([row[2] for row in groups], sizes).astype(np.int64)
        images.classes = np.array(["no person", "person"])

        def read_boxes() -> list[NDArray[np.float64]]:
            known = _boxes(path / boxes)
            return [known.get(name.rsplit("/", 1)[-1], np.empty((0, 4))) for name in images.names]

        return images, {"role": lambda: np.repeat([row[1] for row in groups], sizes), "boxes": read_boxes}

    return open_detection


def _boxes(path: Path) -> dict[str, NDArray[np.float64]]:
    if path.exists():
        try:
            content = json.loads(path.read_text())
            return {name: np.array(entry["boxes"], float).reshape(-1, 4) for name, entry in content.items()}
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise ValueError(f'{path}: expected {{image: {{"boxes": [[x0, y0, x1, y1], ...]}}}} ({error})') from error
    files = sorted(path.parent.glob("*.idl"))
    if not files:
        raise DataAbsent(f"{path} is missing, and so is an .idl file beside it")
    known = {}
    for line in files[0].read_text().splitlines():
        named = re.match(r'\s*"([^"]+)"', line)
        if named:
            numbers = re.findall(r"\(([^)]*)\)", line)
            try:
                rows = np.array([[float(v) for v in row.split(",")] for row in numbers]).reshape(-1, 4)
            except ValueError as error:
                raise ValueError(f"{files[0]}: {line!r} has a box that is not four numbers") from error
            # The corners are in any order.
            rows = np.column_stack([np.minimum(rows[:, :2], rows[:, 2:]), np.maximum(rows[:, :2], rows[:, 2:])])
            known[named[1].rsplit("/", 1)[-1]] = rows
    return known


def mnist(path: Path) -> Opened:
    """Open the four IDX files of MNIST, plain or gzipped, in the folder or in ``data``."""
    arrays = {}
    parts, kinds = ("train", "t10k"), ("images-idx3", "labels-idx1")
    for part in parts:
        for kind in kinds:
            name = f"{part}-{kind}-ubyte"
            places = [path / folder / (name + ending) for folder in (".", "data") for ending in ("", ".gz")]
            found = [place for place in places if place.exists()]
            if not found:
                raise DataAbsent(f"{path / name} is missing, and so is {name}.gz")
            arrays[part, kind] = read_idx(found[0])
    pixels, labels = (np.concatenate([arrays[part, kind] for part in parts]) for kind in kinds)
    return _train_and_test(pixels, labels, len(arrays["train", "images-idx3"]))


CIFAR_BYTES = 1 + 3 * 32 * 32  # a label, then the red, green and blue values


def cifar10(path: Path) -> Opened:
    """Open the binary version of CIFAR-10: five training batches and a test batch of 32 x 32 colour images."""
    folder = _inner(path, "cifar-10-batches-bin")
    parts = []
    for name in (*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"):
        file = folder / name
        if not file.exists():
            raise DataAbsent(f"{file} is missing")
        values = np.fromfile(file, dtype=np.uint8)
        if not len(values) or len(values) % CIFAR_BYTES:
            raise ValueError(f"{file} has {len(values)} bytes: expected a multiple of {CIFAR_BYTES}")
        parts.append(values.reshape(-1, CIFAR_BYTES))
    rows = np.concatenate(parts)
    pixels = rows[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return _train_and_test(np.ascontiguousarray(pixels), rows[:, 0].astype(np.int64), len(rows) - len(parts[-1]))


def digits(path: Path) -> Opened:
    """Open scikit-learn's digits, 8 x 8, values 0..16 scaled to 0..1; the last 597 are the test."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    pixels = (X.reshape(-1, 8, 8) / 16).astype(np.float32)
    return _train_and_test(pixels, y, 1200, [f"{i:04d}" for i in range(len(X))])


def _train_and_test(
    pixels: NDArray[Any], labels: NDArray[Any], n_train: int, names: Sequence[str] | None = None
) -> Opened:
    """Return images in memory, of which the first ``n_train`` train and the others test."""
    sizes = [n_train, len(pixels) - n_train]
    if names is None:
        names = [f"{part}/{i:05d}" for part, size in zip(("train", "test"), sizes) for i in range(size)]
    images = ImageItems(pixels, names)
    images.classes, images.labels = encode_labels(labels, missing=True)
    return images, {"set": lambda: np.repeat(["train", "test"], sizes)}


def _inner(path: Path, *folders: str) -> Path:
    return next((path / folder for folder in folders if (path / folder).is_dir()), path)


def _joined(root: Path, folders: Sequence[str]) -> tuple[ImageFiles, list[int]]:
    """Return the images of several folders as one set, and how many each folder has."""
    sets = [ImageFolder(root / folder, labelled=False) for folder in folders]
    names = Names(
        folder.encode() + b"/" + files.names.raw(i) for folder, files in zip(folders, sets) for i in range(len(files))
    )
    return ImageFiles(root, names), [len(files) for files in sets]
