"""Inputs found by coverage, for every reader. Expected: a result, or a ValueError or OSError; never anything else.

    python -m attacks.reader_fuzz                      the same 200 random mutations for each reader, every time
    python -m attacks.reader_fuzz SECONDS [READER ...] guided by coverage, SECONDS for each reader

Guiding needs atheris (the extra fuzz), which has wheels for Linux on x86_64. Without it, mutations are random.

A reader gets bytes. Checksums would stop every mutant at the door, so readers of sealed files get the content, and
the right checksum is put on it: this is what the author of a hostile file would do. Half of the mutations of JSON
change values and keep the syntax. Seeds are the sound files of `attacks.formats`. An input that fails is kept in
`attacks/corpus/READER`; those are always tried first.
"""

import contextlib
import copy
import functools
import hashlib
import json
import random
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from attacks.file_mutants import mutated
from attacks.formats import FORMATS

CORPUS = Path(__file__).parent / "corpus"
_SAMPLE = 200  # inputs for each reader without arguments
_LONGEST = 20.0  # seconds for one input
_MOST = 1 << 16  # bytes of an input

Read = Callable[[bytes], Any]


@functools.cache
def _made(name: str) -> Path:
    """Return a folder with sound files of a format. It lives as long as the process."""
    folder = tempfile.TemporaryDirectory(prefix="cbid-fuzz-")
    _KEPT.append(folder)
    FORMATS[name].make(Path(folder.name))
    return Path(folder.name)


_KEPT: list[Any] = []


@functools.cache
def _file(format: str, pattern: str) -> Path:
    return next(path for path in sorted(_made(format).rglob(pattern)) if path.is_file())


def _plain(format: str, pattern: str) -> tuple[Callable[[], list[bytes]], Read]:
    """A reader of a file as it is."""

    def read(data: bytes) -> None:
        path = _file(format, pattern)
        sound = path.read_bytes()
        path.write_bytes(data)
        try:
            FORMATS[format].read(_made(format))
        finally:
            path.write_bytes(sound)

    return lambda: [_file(format, pattern).read_bytes()], read


_NUMBERS = (-1, 0, 1, 2, 7, 2**31, 2**32, 2**63 - 1, 2**63, 2**64, -(2**63), 10**400)
_FLOATS = (0.5, -0.0, 1e308, float("nan"), float("inf"))
_TEXTS = ("", "x", "0", "../x", "/etc/passwd", "a\0b", "\ud800", "f" * 300)
_VALUES: tuple[Any, ...] = (None, True, False, *_NUMBERS, *_FLOATS, *_TEXTS, [], [0], [[]], {}, {"x": 1})


def mutated_json(data: bytes, rng: random.Random) -> bytes:
    """Replace, remove, repeat or move values of a JSON document; change bytes if it is none."""
    try:
        root = [json.loads(data)]
    except (ValueError, RecursionError):
        return mutated(data, rng)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        places = _places(root)
        holder, key = rng.choice(places)
        kind = rng.randrange(8)
        if kind == 0 and holder is not root:
            del holder[key]
        elif kind == 1 and isinstance(holder[key], list):
            holder[key] *= rng.choice((2, 3))
        elif kind == 2:
            other, place = rng.choice(places)
            holder[key] = copy.deepcopy(other[place])
        elif kind == 3 and isinstance(holder[key], int):
            holder[key] += rng.choice((-1, 1, -8, 8, 256))
        elif kind == 4 and isinstance(holder[key], str):
            holder[key] = mutated(holder[key].encode(errors="replace"), rng).decode(errors="replace")
        else:
            holder[key] = copy.deepcopy(rng.choice(_VALUES))
    return json.dumps(root[0]).encode()


def _places(root: list[Any]) -> list[tuple[Any, Any]]:
    """Return every value inside as the list or dictionary that holds it, and its place there."""
    found, waiting = [], [root]
    while waiting:
        holder = waiting.pop()
        for key in holder if isinstance(holder, dict) else range(len(holder)):
            found.append((holder, key))
            if isinstance(holder[key], dict | list):
                waiting.append(holder[key])
    return found


def _with_json(data: bytes) -> Any:
    """Return the JSON value of an input; inputs that are none are of no interest here."""
    try:
        return json.loads(data)
    except RecursionError as error:  # `attacks.deep_json` gives such documents to the readers themselves
        raise ValueError("too deep") from error


def _model(format: str, pattern: str) -> tuple[Callable[[], list[bytes]], Read]:
    """A reader of a model whose JSON content is the input, with the right checksum."""
    from cbid.storage.tensors import FileKind

    def kind(path: Path) -> FileKind:
        header = json.loads(path.read_bytes()[8 : 8 + int.from_bytes(path.read_bytes()[:8], "little")])
        return FileKind(header["__metadata__"]["format"], int(header["__metadata__"]["version"]), "file", ValueError)

    def seeds() -> list[bytes]:
        path = _file(format, pattern)
        return [json.dumps(kind(path).read(path)[0]).encode()]

    def read(data: bytes) -> None:
        content, path = _with_json(data), _file(format, pattern)
        sound, made = path.read_bytes(), kind(path)
        try:
            made.write(path, content, made.read(path)[1])
            FORMATS[format].read(_made(format))
        finally:
            path.write_bytes(sound)

    return seeds, read


def _manifest(format: str, pattern: str, seal: Callable[[Any], bytes]) -> tuple[Callable[[], list[bytes]], Read]:
    """A reader of a manifest whose content is the input, with the right checksum."""

    def read(data: bytes) -> None:
        content, path = _with_json(data), _file(format, pattern)
        sound = path.read_bytes()
        try:
            path.write_bytes(seal(content))
            FORMATS[format].read(_made(format))
        finally:
            path.write_bytes(sound)

    return lambda: [_file(format, pattern).read_bytes()], read


def _sealed_index(outer: Any) -> bytes:
    from cbid.search.manifest import _stamp, _text

    if isinstance(outer, dict) and isinstance(outer.get("manifest"), dict):
        outer = {**outer, "blake2b": _stamp(outer["manifest"])}
    return _text(outer)


def _sealed_project(content: Any) -> bytes:
    from cbid.project.files import _sealed_text

    return _sealed_text(content) if isinstance(content, dict) else json.dumps(content).encode()


def _evaluation() -> tuple[Callable[[], list[bytes]], Read]:
    """A reader of an evaluation that project.json names with the right checksum."""
    from cbid.project import Project
    from cbid.storage.digests import digest_text

    def read(data: bytes) -> None:
        path, manifest = _file("project", "evaluation-*"), _file("project", "project.json")
        sound, sealed = path.read_bytes(), manifest.read_bytes()
        content = json.loads(sealed)
        content["checksums"][path.name] = digest_text(data)
        try:
            path.write_bytes(data)
            manifest.write_bytes(_sealed_project(content))
            with Project.open(manifest.parent) as project:
                json.dumps([project.evaluation, project.confusion])
        finally:
            path.write_bytes(sound)
            manifest.write_bytes(sealed)

    return lambda: [_file("project", "evaluation-*").read_bytes()], read


def _image() -> tuple[Callable[[], list[bytes]], Read]:
    import io

    from PIL import Image

    from cbid.data import read_image

    def seeds() -> Iterable[bytes]:
        for kind in ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM"):
            buffer = io.BytesIO()
            Image.effect_noise((9, 7), 50).convert("RGB").save(buffer, kind)
            yield buffer.getvalue()

    return lambda: list(seeds()), lambda data: read_image(data, max_pixels=10**6)


def _headers() -> tuple[Callable[[], list[bytes]], Read]:
    from cbid.web.middleware import _cookie_of, _is_session, session_cookie

    key = "a key of many letters"
    return (
        lambda: [b"a=b; cbid_session=" + session_cookie(key, 10**10).encode(), b'x="\\"; y'],
        lambda data: _is_session(_cookie_of([(b"cookie", part) for part in data.split(b"\n")]), key),
    )


def _given(name: str, seed: bytes, read: Callable[[Path], Any]) -> tuple[Callable[[], list[bytes]], Read]:
    """A reader of a file that a user writes or gets from others."""

    @functools.cache
    def folder() -> Path:
        _KEPT.append(tempfile.TemporaryDirectory(prefix="cbid-fuzz-"))
        return Path(_KEPT[-1].name)

    def write(data: bytes) -> None:
        (folder() / name).write_bytes(data)
        read(folder() / name)

    return lambda: [seed], write


_COCO = {
    "images": [{"id": 1, "file_name": "a.png", "height": 9, "width": 9}, {"id": 2, "file_name": "b.png"}],
    "categories": [{"id": 3, "name": "x"}],
    "annotations": [
        {"id": 1, "image_id": 1, "category_id": 3, "bbox": [1, 1, 4, 5.5]},
        {"id": 2, "image_id": 2, "category_id": 3, "bbox": [0, 0, 2, 2], "iscrowd": 1},
    ],
}
_PREPROCESSING = {
    "size": [32, 24], "fit": "stretch", "crop": 0.5, "interpolation": "bicubic", "scale": 0.1, "mean": [1, 2, 3],
    "std": 2, "channels": "BGR", "layout": "NHWC", "output": "x", "pooling": "first", "l2": False,
}  # fmt: skip


def _annotations(path: Path) -> None:
    from cbid.detection.boxes import read_coco

    read_coco(path, path.parent, category="x", on_error="skip")


def _preprocessing(path: Path) -> None:
    from cbid.descriptors.deep import Preprocessing

    Preprocessing.read(path)


def _sidecar(path: Path) -> None:
    from PIL import Image

    from cbid.data import open_source

    if not (path.parent / "1.png").exists():
        Image.new("L", (4, 4)).save(path.parent / "1.png")
    open_source(path.parent)


def _collection() -> tuple[Callable[[], list[bytes]], Read]:
    from cbid.search.stores.milvus_collection import CollectionSettings

    seed = CollectionSettings.checked(
        n_bits=16, weights=[[1.0, 0.5]] * 16, classes=["a", "b"], labels="str", cells=8, probes=2, made_by="x"
    )
    return lambda: [seed.to_json().encode()], lambda data: CollectionSettings.from_json(data.decode())


def _plan() -> tuple[Callable[[], list[bytes]], Read]:
    from cbid.scale.parts import Job, _text

    @functools.cache
    def job() -> Job:
        _KEPT.append(tempfile.TemporaryDirectory(prefix="cbid-fuzz-"))
        folder = Path(_KEPT[-1].name)
        return Job(lambda start, stop: ({}, []), [(0, 4)], {"X": folder / "x.npy"}, folder / "x.json", fixed=False)

    def read(data: bytes) -> None:
        job().record.write_bytes(data)
        job().folder.mkdir(exist_ok=True)
        (job().folder / "plan.json").write_bytes(data)
        job().with_earlier_spans().is_done(overwrite=False)
        job().open(overwrite=False)
        job().notes()

    return lambda: [_text({"spans": [[0, 2], [2, 4]], "notes": [1]}).encode()], read


def _documents() -> tuple[Callable[[], list[bytes]], Read]:
    import numpy as np
    from langchain_core.embeddings import DeterministicFakeEmbedding

    from cbid.integrations.langchain import CodeVectorStore

    embedding = DeterministicFakeEmbedding(size=16)

    @functools.cache
    def folder() -> Path:
        _KEPT.append(tempfile.TemporaryDirectory(prefix="cbid-fuzz-"))
        texts = [str(i) for i in range(12)]
        metadata = [{"i": i} for i in range(12)]
        CodeVectorStore.from_texts(texts, embedding, metadata).save(Path(_KEPT[-1].name) / "store")
        return Path(_KEPT[-1].name) / "store"

    def read(data: bytes) -> None:
        (folder() / "documents.jsonl").write_bytes(data.replace(b"}, {", b"}\n{").strip(b"[]"))
        store = CodeVectorStore.load(folder(), embedding)
        store.similarity_search("1", k=2)
        assert np.isfinite(len(store))

    def seeds() -> list[bytes]:
        lines = (folder() / "documents.jsonl").read_text().splitlines()
        return [json.dumps([json.loads(line) for line in lines]).encode()]

    return seeds, read


def readers() -> dict[str, tuple[Callable[[], list[bytes]], Read]]:
    """Return seeds and reader by name."""
    return {
        "tensors": _plain("tensors", "file"),
        "coder": _model("coder", "linear"),
        "nbnn": _model("nbnn", "model"),
        "detector": _model("detector", "model"),
        "pooling": _model("pooling", "model"),
        "index": _manifest("index", "manifest.json", _sealed_index),
        "vector-index": _manifest("vector index", "manifest.json", _sealed_index),
        "project": _manifest("project", "project.json", _sealed_project),
        "evaluation": _evaluation(),
        "table": _plain("project", "images.sqlite"),
        "vectors": _plain("project", "vectors.f32"),
        "codes-npy": _plain("codes.npy", "*.npy"),
        "codes-parquet": _plain("codes.parquet", "*.parquet"),
        **{f"export-{to.partition(' ')[2]}": _plain(to, "codes") for to in FORMATS if to.startswith("export ")},
        **{f"source-{to.partition('.')[2]}": _plain(to, "source*") for to in FORMATS if to.startswith("source ")},
        "cache": _plain("descriptor cache", "*"),
        "annotations": _given("coco.json", json.dumps(_COCO).encode(), _annotations),
        "preprocessing": _given("network.json", json.dumps(_PREPROCESSING).encode(), _preprocessing),
        "labels": _given("labels.csv", b'name,labels\n1.png,"a;b"\n', _sidecar),
        "collection": _collection(),
        "plan": _plan(),
        "documents": _documents(),
        "image": _image(),
        "headers": _headers(),
    }


def tried(read: Read, data: bytes) -> None:
    """Read one input; errors that a reader may raise are ignored."""
    with contextlib.suppress(ValueError, OSError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        read(data)


def kept(name: str) -> list[bytes]:
    """Return the inputs that once failed."""
    return [path.read_bytes() for path in sorted((CORPUS / name).glob("*"))]


def sample(n: int = 0, seconds: float = 0.0, names: Iterable[str] = ()) -> None:
    """Try ``n`` random mutations in this process for each reader, or as many as ``seconds`` allow."""
    chosen = set(names)
    for name, (make, read) in readers().items():
        if chosen and name not in chosen:
            continue
        seeds, rng, done, slowest = make(), random.Random(name), 0, 0.0
        read(seeds[0])  # a sound one; compiles and imports what it needs
        inputs, end = iter([*kept(name), *seeds]), time.monotonic() + seconds
        while (data := next(inputs, None)) or done < n or time.monotonic() < end:
            data = data or rng.choice((mutated, mutated_json))(rng.choice(seeds), rng)[:_MOST]
            begun = time.monotonic()
            try:
                tried(read, data)
            except Exception as error:
                raise AssertionError(f"{name}: {data!r:.3000}") from error
            done, slowest = done + 1, max(slowest, time.monotonic() - begun)
        print(f"{name:18}{done:7} inputs, slowest {slowest:.2f} s", flush=True)
        assert slowest < _LONGEST, name


def guided(name: str, seconds: int) -> str:
    """Let atheris look for inputs that reach new lines, in a process of its own.

    Returns "", or how the first input failed; that input is kept.
    """
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "found"
        found.mkdir()
        command = [sys.executable, "-c", _PROGRAM, name, folder, str(seconds)]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        failed = [path for path in Path(folder).iterdir() if path.name.startswith(("crash-", "timeout-", "oom-"))]
        if done.returncode and not failed:  # a signal has ended it
            failed = [Path(folder) / "last"]
        runs = [line for line in done.stderr.splitlines() if line.startswith("Done ")]
        print(f"{name:18}{'; '.join(runs) or 'ended early'}, {len(list(found.iterdir()))} inputs kept", flush=True)
        if not failed and not done.returncode:
            return ""
        for path in filter(Path.exists, failed):
            content = path.read_bytes()
            (CORPUS / name).mkdir(parents=True, exist_ok=True)
            (CORPUS / name / hashlib.sha256(content).hexdigest()[:12]).write_bytes(content)
        return f"{name}: status {done.returncode}\n" + "\n".join(done.stderr.splitlines()[-40:])


# Modules are imported under instrumentation, also those that a reader imports when it is called. Modules of compiled
# functions are not: numba does not know the calls that atheris inserts.
_PROGRAM = """
import importlib.util, pathlib, sys, atheris
package = pathlib.Path(importlib.util.find_spec("cbid").origin).parent
compiled = [
    ".".join(path.relative_to(package.parent).with_suffix("").parts)
    for path in package.rglob("*.py") if path.parent.name == "kernels" or "numba" in path.read_text()
]
with atheris.instrument_imports(include=["cbid"], exclude=compiled):
    from attacks.reader_fuzz import one
    one(*sys.argv[1:])
"""


def one(name: str, folder: str, seconds: str) -> None:
    """Run libFuzzer on one reader; it ends the process. See ``_PROGRAM``."""
    import atheris

    make, read = readers()[name]
    seeds = [*kept(name), *make()]
    for i, data in enumerate(seeds):
        (Path(folder) / "found" / f"seed-{i}").write_bytes(data)
    tried(read, seeds[-1])  # compiles and imports what it needs
    limits = [f"-max_total_time={seconds}", f"-timeout={_LONGEST:.0f}", f"-max_len={_MOST}", "-rss_limit_mb=4096"]
    where = [f"-artifact_prefix={folder}/", f"{folder}/found"]

    def mutate(data: bytes, max_size: int, seed: int) -> bytes:
        rng = random.Random(seed)
        if rng.randrange(2):
            return bytes(atheris.Mutate(data, max_size))
        return rng.choice((mutated, mutated_json))(data, rng)[:max_size]

    def remembered(data: bytes) -> None:
        (Path(folder) / "last").write_bytes(data)
        tried(read, data)

    arguments = [sys.argv[0], *limits, "-print_final_stats=1", *where]
    atheris.Setup(arguments, remembered, custom_mutator=mutate)
    atheris.Fuzz()


def main(*arguments: str) -> None:
    """Run the attack."""
    if arguments and find_spec("atheris") is None:
        print("atheris is not installed: mutations are random")
        sample(seconds=float(arguments[0]), names=arguments[1:])
    elif arguments:
        failures = [guided(name, int(arguments[0])) for name in arguments[1:] or readers()]
        if any(failures):
            raise AssertionError("\n\n".join(filter(None, failures)))
    else:
        sample(_SAMPLE)


if __name__ == "__main__":
    main(*sys.argv[1:])
