"""Codes in the layouts of other stores: one writer, one reader and the longest code for each."""

import json
import os
import re
import sqlite3
import struct
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbid.codes import n_bytes
from cbid.extras import missing_extra
from cbid.storage.tensors import map_npy

Codes = NDArray[np.uint8]
Ids = NDArray[np.int64]
Read = tuple[Codes, Ids | None]

_ROWS = 1 << 16  # rows converted at a time
_REQUEST_VALUES = 1 << 20  # numbers in one request to Qdrant
_OFFSET = 128  # "binary" of sentence-transformers is the unsigned byte minus this


@dataclass(frozen=True)
class StoreFormat:
    """``write(path, codes, n_bits, ids)`` and ``read(path, n_bits)``; a directory if the store is one."""

    write: Callable[[Path, Codes, int, Ids | None], None]
    read: Callable[[Path, int], Read]
    most_bits: int | None = None
    directory: bool = False


def _require(module: str, package: str, oldest: tuple[int, int], extra: str) -> Any:
    needed = f"this format with {package} {oldest[0]}.{oldest[1]} or newer"
    try:
        imported = import_module(module)
        found = metadata.version(package)
    except ImportError as error:  # PackageNotFoundError is one too
        raise missing_extra(needed, extra) from error
    numbers = re.match(r"(\d+)\.(\d+)", found)
    if numbers is None or (int(numbers[1]), int(numbers[2])) < oldest:
        raise ImportError(f"{package} has version {found}; {missing_extra(needed, extra)}")
    return imported


def _keys(codes: Codes, ids: Ids | None, *, unsigned_for: str | None = None) -> Ids:
    keys = np.arange(len(codes)) if ids is None else ids
    if unsigned_for is not None and np.any(keys < 0):
        raise ValueError(f"ids holds {keys.min()}: expected no negative integer ({unsigned_for} keys are unsigned)")
    return keys


def _slices(codes: Codes, rows: int | None = None) -> Iterator[slice]:
    rows = rows or _ROWS
    for start in range(0, len(codes), rows):
        yield slice(start, start + rows)


def _rows(values: list[bytes], width: int) -> Codes:
    """Return codes (n, width) of as many bytes each; others raise a ValueError."""
    for i, value in enumerate(values):
        if len(value) != width:
            raise ValueError(f"code {i} has {len(value)} bytes: expected {width}")
    return np.frombuffer(b"".join(values), np.uint8).reshape(-1, width)


# faiss and usearch


def _write_faiss(path: Path, codes: Codes, n_bits: int, ids: Ids | None) -> None:
    import faiss

    flat = faiss.IndexBinaryFlat(8 * n_bytes(n_bits))
    index: faiss.IndexBinary = flat
    if ids is None:
        flat.add(codes)
    else:
        index = faiss.IndexBinaryIDMap2(flat)
        index.add_with_ids(codes, ids)
    with open(path, "wb") as file:  # faiss itself does not raise if the disk is full
        file.write(faiss.serialize_index_binary(index).data)


_FAISS_HEAD = struct.Struct("<4s2iq?i")  # kind, bits, bytes of a code, number of codes, trained, metric
_FAISS_FLAT, _FAISS_MAPS = b"IBxF", (b"IBMp", b"IBM2")


def _read_faiss(path: Path, n_bits: int) -> Read:
    """Read IndexBinaryFlat, also inside an IndexBinaryIDMap; faiss itself allocates what a damaged file asks for."""
    data = _mapped(path)
    kind, bits, width, n, _, _ = _faiss_head(data, 0)
    place = _FAISS_HEAD.size
    is_map = kind in _FAISS_MAPS
    if is_map:
        kind, bits, width, n_inner, _, _ = _faiss_head(data, place)
        place += _FAISS_HEAD.size
        if n_inner != n:
            raise ValueError(f"it has {n} ids for {n_inner} codes: expected one for each")
    if kind != _FAISS_FLAT or (bits, width) != (8 * n_bytes(n_bits), n_bytes(n_bits)):
        found = kind.decode("ascii", "backslashreplace")
        expected = f"'IBxF' (IndexBinaryFlat) of {8 * n_bytes(n_bits)} bits"
        raise ValueError(f"it holds an index {found!r} of {bits} bits: expected {expected}")
    codes, place = _faiss_vector(data, place, np.uint8, n * width)
    ids = None
    if is_map:
        ids, place = _faiss_vector(data, place, np.int64, n)
    if place != len(data):
        raise ValueError(f"it has {len(data) - place} bytes too many")
    return codes.reshape(n, width), ids


def _mapped(path: Path) -> NDArray[np.uint8]:
    """Map a file of any size."""
    return np.memmap(path, np.uint8, "r") if path.stat().st_size else np.empty(0, np.uint8)


def _faiss_head(data: NDArray[np.uint8], place: int) -> tuple[Any, ...]:
    try:
        return _FAISS_HEAD.unpack_from(data.data, place)
    except struct.error as error:
        raise ValueError(f"it is not a faiss index, or incomplete: {error}") from error


def _faiss_vector(data: NDArray[np.uint8], place: int, dtype: type[Any], n: int) -> tuple[NDArray[Any], int]:
    """Return a stored vector, which must have n values, and where it ends."""
    start, size = place + 8, n * np.dtype(dtype).itemsize
    declared = int.from_bytes(data[place:start].tobytes(), "little")
    if n < 0 or declared != n or start + size > len(data):
        raise ValueError(f"it declares {declared} values at byte {start}: expected {n}, and {size} bytes for them")
    stored_as = np.dtype(dtype).newbyteorder("<")
    return np.frombuffer(data[start : start + size], stored_as).astype(dtype), start + size


def _write_usearch(path: Path, codes: Codes, n_bits: int, ids: Ids | None) -> None:
    usearch = _require("usearch.index", "usearch", (2, 15), "stores")
    keys = _keys(codes, ids, unsigned_for="usearch")
    index = usearch.Index(ndim=n_bits, metric="hamming", dtype="b1")
    if len(codes):
        index.add(keys.astype(np.uint64), codes)
    with open(path, "wb") as file:  # usearch itself does not raise if the disk is full
        file.write(index.save())


_USEARCH_HEAD = struct.Struct("<7s6x4B3Q?")  # magic, kinds of metric, scalar, key and slot, present, deleted, bits
_USEARCH_GRAPH = struct.Struct("<5Q")  # nodes, links of a node at upper levels and at the lowest, two more
_B1, _U64, _U32 = 1, 14, 15
_DELETED = np.uint64(2**64 - 1)


def _read_usearch(path: Path, n_bits: int) -> Read:
    """Read codes and keys; usearch's own loader follows damaged links out of its memory."""
    data = _mapped(path)
    try:
        n, width = struct.unpack_from("<2I", data.data)
        codes = np.frombuffer(data, np.uint8, n * width, 8).reshape(n, width)
        place = 8 + codes.size
        magic, _, scalar, key, slot, present, _, bits, _ = _USEARCH_HEAD.unpack_from(data.data, place)
        place += 64
        nodes, upper, lowest, _, _ = _USEARCH_GRAPH.unpack_from(data.data, place)
        place += _USEARCH_GRAPH.size
        levels = np.frombuffer(data, "<i2", n, place).astype(np.int64)
    except (struct.error, ValueError, OverflowError) as error:
        raise ValueError(f"it is not a usearch index with vectors, or incomplete: {error}") from error
    if magic != b"usearch" or nodes != n:
        raise ValueError("it is not a usearch index with vectors")
    if (scalar, key, slot, bits, width) != (_B1, _U64, _U32, n_bits, n_bytes(n_bits)):
        raise ValueError(f"it holds {bits} numbers of type {scalar}: expected {n_bits} bits (b1) with integer keys")
    # A node is its key, its level and for each level a count and the links. Floats cannot overflow.
    ends = np.cumsum(10 + 4.0 * (1 + lowest) + levels * 4.0 * (1 + upper), dtype=np.float64)
    place += 2 * n
    if np.any(levels < 0) or place + (ends[-1] if n else 0) != len(data):
        raise ValueError("its graph is damaged or incomplete")
    starts = place + np.concatenate([[0], ends[:-1]]).astype(np.int64)[:n]
    keys = data[starts[:, None] + np.arange(8)].view("<u8")[:, 0]
    kept = np.flatnonzero(keys != _DELETED)
    if len(kept) != present or np.any(keys[kept] > np.iinfo(np.int64).max):
        raise ValueError(f"it holds {len(kept)} keys of int64 or {present} codes: expected the same number of both")
    kept = kept[np.argsort(keys[kept])]
    return codes[kept], keys[kept].astype(np.int64)


# Lines of text: PostgreSQL's bit(n) for pgvector, and hexadecimal digits


def _text_format(
    lines_of: Callable[[Codes, int], list[str]], code_of: Callable[[str, int], bytes], most_bits: int | None
) -> StoreFormat:
    def write(path: Path, codes: Codes, n_bits: int, ids: Ids | None) -> None:
        with path.open("w", encoding="ascii", newline="\n") as file:
            for part in _slices(codes):
                lines = lines_of(codes[part], n_bits)
                if ids is not None:
                    lines = [f"{key}\t{line}" for key, line in zip(ids[part].tolist(), lines)]
                file.writelines(f"{line}\n" for line in lines)

    def read(path: Path, n_bits: int) -> Read:
        keys, values = [], []
        for number, line in enumerate(path.read_text(encoding="ascii").splitlines(), 1):
            key, tab, code = line.rpartition("\t")
            try:
                values.append(code_of(code, n_bits))
                keys += [int(key)] if tab else []
            except ValueError as error:
                raise ValueError(f"line {number} is {line[:80]!r}: {error}") from error
        if keys and len(keys) != len(values):
            raise ValueError(f"it has {len(keys)} ids for {len(values)} codes: expected one in each line, or none")
        return _rows(values, n_bytes(n_bits)), np.array(keys, np.int64) if keys else None

    return StoreFormat(write, read, most_bits)


def _bit_lines(codes: Codes, n_bits: int) -> list[str]:
    digits = np.unpackbits(codes, axis=1, count=n_bits) + np.uint8(ord("0"))
    return [row.tobytes().decode("ascii") for row in digits]


def _from_bits(text: str, n_bits: int) -> bytes:
    if len(text) != n_bits or set(text) - {"0", "1"}:
        raise ValueError(f"expected {n_bits} digits 0 and 1")
    return np.packbits(np.frombuffer(text.encode("ascii"), np.uint8) - ord("0")).tobytes()


def _hex_lines(codes: Codes, n_bits: int) -> list[str]:
    return [row.tobytes().hex() for row in codes]


# SQLite: an ordinary table of blobs, which sqlite-vec reads with vec_bit


def _write_sqlite(path: Path, codes: Codes, n_bits: int, ids: Ids | None) -> None:
    keys = _keys(codes, ids).tolist()
    try:
        with closing(sqlite3.connect(path)) as database:
            database.execute("PRAGMA journal_mode = OFF")  # the file gets its name when it is complete
            with database:
                database.execute("CREATE TABLE codes (id INTEGER PRIMARY KEY, code BLOB NOT NULL)")
                blobs = (row.tobytes() for row in codes)
                database.executemany("INSERT INTO codes VALUES (?, ?)", zip(keys, blobs))
    except sqlite3.Error as error:
        raise OSError(f"SQLite cannot write the table codes (id, code): {error}") from error


def _read_sqlite(path: Path, n_bits: int) -> Read:
    if not path.exists():  # SQLite would create it
        raise FileNotFoundError(2, os.strerror(2), str(path))
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
            rows = database.execute("SELECT id, code FROM codes ORDER BY id").fetchall()
    except sqlite3.Error as error:
        raise ValueError(f"SQLite cannot read the table codes (id, code): {error}") from error
    return _rows([bytes(code) for _, code in rows], n_bytes(n_bits)), np.array([key for key, _ in rows], np.int64)


# Lance: a directory with a table of fixed-size lists of uint8


def _write_lance(path: Path, codes: Codes, n_bits: int, ids: Ids | None) -> None:
    lance = _require("lance", "pylance", (14, 0), "lance")
    import pyarrow

    width = n_bytes(n_bits)
    schema = pyarrow.schema([("id", pyarrow.int64()), ("code", pyarrow.list_(pyarrow.uint8(), width))])
    keys = _keys(codes, ids)

    def batches() -> Iterator[Any]:
        for part in _slices(codes):
            column = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(codes[part].ravel()), width)
            yield pyarrow.record_batch([pyarrow.array(keys[part]), column], schema=schema)

    lance.write_dataset(batches(), os.fspath(path), schema=schema)


def _read_lance(path: Path, n_bits: int) -> Read:
    lance = _require("lance", "pylance", (14, 0), "lance")
    try:
        table = lance.dataset(os.fspath(path)).to_table(columns=["id", "code"])
    except (OSError, ValueError) as error:
        raise ValueError(f"Lance cannot read the columns id and code: {str(error)[:200]}") from error
    column, width = table.column("code").combine_chunks(), n_bytes(n_bits)
    if str(column.type.value_type) != "uint8" or column.type.list_size != width:
        raise ValueError(f"its column code has type {column.type}: expected lists of {width} uint8")
    return column.flatten().to_numpy().reshape(-1, width), table.column("id").to_numpy().astype(np.int64)


# Qdrant: requests in JSON. It has no bits: ±1 numbers under the dot product, t - 2 (Hamming distance)


def _write_qdrant(path: Path, codes: Codes, n_bits: int, ids: Ids | None) -> None:
    keys = _keys(codes, ids, unsigned_for="Qdrant")
    collection = {
        "vectors": {"size": n_bits, "distance": "Dot", "datatype": "float16", "on_disk": True},
        "quantization_config": {"binary": {"always_ram": True}},  # one bit per number in memory, exact for ±1
    }
    with path.open("w", encoding="ascii", newline="\n") as file:
        file.write(json.dumps(collection) + "\n")
        for part in _slices(codes, max(_REQUEST_VALUES // n_bits, 1)):
            signs = np.unpackbits(codes[part], axis=1, count=n_bits).view(np.int8) * 2 - 1
            batch = {"ids": keys[part].tolist(), "vectors": signs.tolist()}
            file.write(json.dumps({"batch": batch}, separators=(",", ":")) + "\n")


def _read_qdrant(path: Path, n_bits: int) -> Read:
    with path.open(encoding="ascii") as file:
        lines = (json.loads(line) for line in file)
        size = next(lines)["vectors"]["size"]
        if size != n_bits:
            raise ValueError(f"it has vectors of {size} numbers: expected {n_bits}")
        keys, parts = [], [np.empty((0, n_bytes(n_bits)), np.uint8)]
        for line in lines:
            keys += line["batch"]["ids"]
            signs = np.array(line["batch"]["vectors"])
            if signs.shape != (len(line["batch"]["ids"]), n_bits) or np.any(np.abs(signs) != 1):
                raise ValueError(f"it has vectors of shape {signs.shape}: expected (n, {n_bits}) of -1 and 1")
            parts.append(np.packbits(signs > 0, axis=1))
    return np.concatenate(parts), np.array(keys, np.int64)


# Elasticsearch and OpenSearch: requests for _bulk. Bytes are signed: two's complement, so 0xff is -1


def _write_bulk(path: Path, codes: Codes, n_bits: int, ids: Ids | None) -> None:
    keys = _keys(codes, ids)
    with path.open("w", encoding="ascii", newline="\n") as file:
        for part in _slices(codes):
            for key, row in zip(keys[part].tolist(), codes[part].view(np.int8).tolist()):
                file.write(f'{{"index":{{"_id":"{key}"}}}}\n{{"code":{json.dumps(row, separators=(",", ":"))}}}\n')


def _read_bulk(path: Path, n_bits: int) -> Read:
    with path.open(encoding="ascii") as file:
        lines = [json.loads(line) for line in file]
    if len(lines) % 2:
        raise ValueError(f"it has {len(lines)} lines: expected an even number")
    keys = [int(action["index"]["_id"]) for action in lines[::2]]
    return _rows([_signed(document["code"]) for document in lines[1::2]], n_bytes(n_bits)), np.array(keys, np.int64)


def _signed(values: list[int]) -> bytes:
    array = np.array(values)
    if array.dtype.kind != "i" or np.any(array != array.astype(np.int8)):
        raise ValueError(f"a code is {values}: expected integers from -128 to 127")
    return array.astype(np.int8).tobytes()


# sentence-transformers: arrays. "ubinary" is the code itself; "binary" is an offset of it, not two's complement


def _write_ubinary(path: Path, codes: Codes, n_bits: int, ids: Ids | None) -> None:
    with path.open("wb") as file:
        np.save(file, codes, allow_pickle=False)


def _write_binary(path: Path, codes: Codes, n_bits: int, ids: Ids | None) -> None:
    with path.open("wb") as file:
        np.save(file, (codes.astype(np.int16) - _OFFSET).astype(np.int8), allow_pickle=False)


def _read_array(dtype: type[np.generic]) -> Callable[[Path, int], Read]:
    def read(path: Path, n_bits: int) -> Read:
        array = map_npy(path)
        if array.dtype != dtype or array.ndim != 2 or array.shape[1] != n_bytes(n_bits):
            expected = f"{np.dtype(dtype)} (n, {n_bytes(n_bits)})"
            raise ValueError(f"it holds an array of {array.dtype} {array.shape}: expected {expected}")
        return (array.astype(np.int16) + (_OFFSET if dtype is np.int8 else 0)).astype(np.uint8), None

    return read


EXPORTS: dict[str, StoreFormat] = {
    "faiss": StoreFormat(_write_faiss, _read_faiss),
    "usearch": StoreFormat(_write_usearch, _read_usearch),
    "pgvector": _text_format(_bit_lines, _from_bits, 64_000),
    "sqlite-vec": StoreFormat(_write_sqlite, _read_sqlite, 8_192),
    "lance": StoreFormat(_write_lance, _read_lance, directory=True),
    "qdrant": StoreFormat(_write_qdrant, _read_qdrant, 65_535),
    "elasticsearch": StoreFormat(_write_bulk, _read_bulk, 4_096),
    "opensearch": StoreFormat(_write_bulk, _read_bulk, 16_000),
    "ubinary": StoreFormat(_write_ubinary, _read_array(np.uint8)),
    "binary": StoreFormat(_write_binary, _read_array(np.int8)),
    "hex": _text_format(_hex_lines, lambda text, n_bits: bytes.fromhex(text), None),
}
