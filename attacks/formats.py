"""The file formats that the attacks change: how a small sound file is made, and how everything in it is read."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cbid.storage import code_files
from cbid.storage.digests import digest_of

N, D = 40, 6
X = np.random.default_rng(0).normal(size=(N, D)).astype(np.float32)
X[::2] += 3
Y = np.arange(N) % 2
CODES = np.random.default_rng(1).integers(0, 256, (N, 2), dtype=np.uint8)


class Format(NamedTuple):
    """A format: ``make`` writes sound files into an empty folder, ``read`` returns a digest of all their content.

    ``read`` raises a ValueError or OSError if it finds damage. ``has_checksums`` says that it must find all damage.
    """

    make: Callable[[Path], Any]
    read: Callable[[Path], str]
    has_checksums: bool = True


def about() -> dict[str, Any]:
    """Return what every raw result says of itself: machine, defaults and date."""
    from cbid.paper.raw import defaults_fingerprint, describe_machine, today

    return {"machine": describe_machine(), "defaults": defaults_fingerprint(), "made": today()}


# Projects, indexes and models


def make_project(folder: Path) -> None:
    """Write a project of 12 images, one of them added and one relabelled."""
    from PIL import Image

    from cbid.project import Project

    rng = np.random.default_rng(0)
    pictures = [Image.fromarray((rng.integers(0, 99, (16, 16)) + 120 * (i % 2)).astype(np.uint8)) for i in range(12)]
    for i, picture in enumerate(pictures[:11]):
        path = folder / "images" / ("dark", "light")[i % 2] / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        picture.save(path)
    Project.fit(folder / "p.cbid", folder / "images", n_bits=8, coder="LSH", descriptor="pixels").close()
    with Project.open(folder / "p.cbid", write=True) as project:
        ids = project.add([np.asarray(pictures[11])], labels=["light"])
        project.relabel(ids, "dark")
    for path in (folder / "images").rglob("*.png"):
        path.unlink()


def read_project(folder: Path) -> str:
    """Check a project and read all of it."""
    from cbid.project import Project, ProjectError

    path = folder / "p.cbid"
    problems, _ = Project.check(path)
    if problems:
        raise ProjectError(problems[0])
    with Project.open(path) as project:
        ids = project.ids.tolist()
        found = project.search(project.vector(ids[0]), 3)
        return digest_of(
            [project.settings, project.last_fit, project.evaluation, project.confusion],
            [vars(record) for record in project.records(0, 100)],
            [project.thumbnail(id).hex() for id in ids],
            np.stack([project.vector(id) for id in ids]),
            project.index.reconstruct(ids),
            [found.ids.tolist(), found.distances.tolist(), project.n_unlearned],
        )


def make_index(folder: Path) -> None:
    """Write an index with weights, labels, several segments and removed codes."""
    from cbid import CodeIndex

    index = CodeIndex(16, weights=np.linspace(1, 2, 16))
    index.add(CODES, labels=[str(y) for y in Y])
    index.save(folder / "index")
    index.add(CODES[:7], ids=np.arange(100, 107), labels=["x"] * 7)
    index.remove([3, 101])
    index.save()
    index.close()


def read_index(folder: Path) -> str:
    """Open an index, compare the checksums and read it."""
    from cbid import CodeIndex

    with CodeIndex.open(folder / "index", verify=True) as index:
        found, labels = index.search(CODES[:2], 3), index.labels
        values = [] if labels is None else labels.tolist()
        return digest_of(index.ids, index.reconstruct(index.ids), values, found.ids, found.distances)


def make_vectors(folder: Path) -> None:
    """Write an index that keeps vectors."""
    from cbid import CBID, VectorIndex

    index = VectorIndex(CBID(n_bits=8, kernel="linear").fit(X, Y), keep="int8")
    index.add(X, labels=[str(y) for y in Y])
    index.save(folder / "index")
    index.close()


def read_vectors(folder: Path) -> str:
    """Open an index that keeps vectors, compare the checksums and search it."""
    from cbid import VectorIndex

    with VectorIndex.open(folder / "index", verify=True) as index:
        found = index.search(X[:4], 5)
        return digest_of(found.ids, found.distances, found.labels.tolist())


def make_coder(folder: Path) -> None:
    """Write three coders."""
    from cbid import CBID
    from cbid.coders import ITQ

    CBID(n_bits=8, kernel="linear").fit(X, Y).save(folder / "linear")
    CBID(n_bits=8, kernel="rbf").fit(X, [f"class {y}" for y in Y]).save(folder / "rbf")
    ITQ(n_bits=4).fit(X).save(folder / "itq")


def read_coder(folder: Path) -> str:
    """Load all coders of a folder."""
    from cbid import load
    from cbid.storage.models import model_digest

    return digest_of([model_digest(load(path)) for path in sorted(folder.iterdir())])


def _model(make: Callable[[], Any], load: Callable[[Path], Any], answer: Callable[[Any], Any]) -> Format:
    def read(folder: Path) -> str:
        return digest_of(np.asarray(answer(load(folder / "model"))))

    return Format(lambda folder: make().save(folder / "model"), read)


def _nbnn() -> Format:
    bags = [row.reshape(3, 2) for row in X]

    def make() -> Any:
        from cbid import NBNNClassifier

        return NBNNClassifier().fit(bags, Y)

    def load(path: Path) -> Any:
        from cbid import NBNNClassifier

        return NBNNClassifier.load(path)

    return _model(make, load, lambda model: model.predict(bags[:6]))


def _detector() -> Format:
    picture = np.random.default_rng(0).integers(0, 256, (40, 40), dtype=np.uint8)

    def make() -> Any:
        from cbid.coders import LSH
        from cbid.detection import CBIDVerifier, SlidingWindowDetector

        rng = np.random.default_rng(2)
        windows = [rng.integers(100, 256, (16, 16), dtype=np.uint8) for _ in range(8)]
        verifier = CBIDVerifier(coder=LSH(n_bits=8))
        model = SlidingWindowDetector(window=(16, 16), border=0, n_random=10, n_rounds=1, verifier=verifier)
        return model.fit(windows, [rng.integers(0, 160, (40, 40), dtype=np.uint8) for _ in range(2)])

    def load(path: Path) -> Any:
        from cbid.detection import SlidingWindowDetector

        return SlidingWindowDetector.load(path)

    return _model(make, load, lambda model: model.detect(picture).scores)


def _pooling() -> Format:
    bags = [row.reshape(3, 2) for row in X]

    def make() -> Any:
        from cbid.pooling import BagOfWords

        return BagOfWords(n_words=4, pyramid=(1,)).fit(bags)

    def load(path: Path) -> Any:
        from cbid.pooling import load

        return load(path)

    return _model(make, load, lambda model: model.transform(bags[:6]))


def make_cache(folder: Path) -> None:
    """Write a cache of descriptors."""
    from cbid.descriptors import RawPixels
    from cbid.descriptors.cache import DescriptorCache

    values = DescriptorCache(folder).open(RawPixels())
    for i in range(5):
        values.put(bytes([i]) * 16, X[i])
    values.commit()


def read_cache(folder: Path) -> str:
    """Read a cache. Damaged values are missing, so that they are computed again."""
    from cbid.descriptors import RawPixels
    from cbid.descriptors.cache import DescriptorCache

    values = DescriptorCache(folder).open(RawPixels())
    found = [values.get(bytes([i]) * 16) for i in range(5)]
    if any(value is None for value in found):
        raise ValueError("values are missing")
    return digest_of(np.stack([value for value in found if isinstance(value, np.ndarray)]))


def _tensors() -> Format:
    from cbid.storage.tensors import FileKind

    kind = FileKind("cbid-attack", 1, "attack", ValueError)

    def read(folder: Path) -> str:
        content, arrays = kind.read(folder / "file")
        return digest_of(content, *(part for name in sorted(arrays) for part in (name, arrays[name])))

    return Format(lambda folder: kind.write(folder / "file", {"a": [1, "x"]}, {"X": X, "codes": CODES, "y": Y}), read)


# Files of codes and vectors, which other programs read too


def read_parquet(folder: Path) -> str:
    """Read a table of codes."""
    codes, ids, n_bits = code_files.load_parquet(folder / "codes.parquet")
    return digest_of(codes, ids, n_bits)


def _export(to: str) -> Format:
    def read(folder: Path) -> str:
        codes, ids = code_files.load_export(folder / "codes", 16, to)
        return digest_of(codes, [] if ids is None else ids)

    ids = None if to == "ubinary" else 3 * np.arange(N)
    return Format(lambda folder: code_files.export(folder / "codes", CODES, 16, to, ids), read, has_checksums=False)


def _source(suffix: str, make: Callable[[Path], Any]) -> Format:
    def read(folder: Path) -> str:
        from cbid.data import open_source
        from cbid.data.tables import VectorTable

        source = open_source(folder / f"source{suffix}")
        if isinstance(source, VectorTable):
            return digest_of(*(np.asarray(rows, dtype=np.float64) for rows in source.batches()))
        return digest_of([*source.names], *(np.asarray(source[i]) for i in range(min(3, len(source)))))

    return Format(lambda folder: make(folder / f"source{suffix}"), read, has_checksums=False)


def _make_table(path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    table = pyarrow.table({"id": list(range(N)), "label": [str(y) for y in Y], "vector": X.tolist()})
    pyarrow.parquet.write_table(table, path)


def _make_list(path: Path) -> None:
    from PIL import Image

    for i in range(2):
        Image.fromarray(np.full((4, 4), 50 * i, np.uint8)).save(path.parent / f"{i}.png")
    path.write_text('path,labels\n0.png,"a;b"\n1.png,c\n')


def _make_idx(path: Path) -> None:
    path.write_bytes(b"\0\0\x08\x03" + np.array([N, 2, 1], ">i4").tobytes() + CODES.tobytes())


FORMATS: dict[str, Format] = {
    "project": Format(make_project, read_project),
    "index": Format(make_index, read_index),
    "vector index": Format(make_vectors, read_vectors),
    "coder": Format(make_coder, read_coder),
    "nbnn": _nbnn(),
    "detector": _detector(),
    "pooling": _pooling(),
    "descriptor cache": Format(make_cache, read_cache),
    "tensors": _tensors(),
    "codes.parquet": Format(
        lambda folder: code_files.save_parquet(folder / "codes.parquet", CODES, 16), read_parquet
    ),
    "codes.npy": Format(
        lambda folder: code_files.save(folder / "codes.npy", CODES),
        lambda folder: digest_of(code_files.load(folder / "codes.npy")),
        has_checksums=False,
    ),
    **{f"export {to}": _export(to) for to in code_files.EXPORTS if to not in ("lance", "opensearch", "binary")},
    "source .npy": _source(".npy", lambda path: np.save(path, X)),
    "source .npz": _source(".npz", lambda path: np.savez(path, X=X, y=Y)),
    "source .parquet": _source(".parquet", _make_table),
    "source .csv": _source(".csv", _make_list),
    "source .idx": _source(".idx3-ubyte", _make_idx),
}


def main() -> None:
    """Make and read every format once: two readings give the same."""
    import tempfile

    for name, format in FORMATS.items():
        with tempfile.TemporaryDirectory() as folder:
            format.make(Path(folder))
            assert format.read(Path(folder)) == format.read(Path(folder)), name
            print(json.dumps({name: [p.name for p in Path(folder).rglob("*") if p.is_file()]}))


if __name__ == "__main__":
    main()
