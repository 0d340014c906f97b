"""Files of packed codes, and exports to other stores. Every file is written atomically."""

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cbid.codes import check_codes, check_n_bits, n_bytes
from cbid.extras import missing_extra
from cbid.storage.atomic import check_regular, whole_directory, whole_file
from cbid.storage.digests import digest_of
from cbid.storage.store_formats import EXPORTS as EXPORTS
from cbid.storage.store_formats import StoreFormat
from cbid.storage.tensors import DAMAGED_NPY, map_npy

PathLike = str | os.PathLike[str]
Codes = NDArray[np.uint8]
Ids = NDArray[np.int64]

_ROWS = 1 << 16  # rows converted at a time


def save(path: PathLike, codes: Codes) -> None:
    """Write codes (n, bytes) to a ``.npy`` file; no suffix is added to the name."""
    codes = np.ascontiguousarray(check_codes(codes))
    with whole_file(path) as temporary, temporary.open("wb") as file:
        np.save(file, codes, allow_pickle=False)


def load(path: PathLike, *, mmap: bool = True) -> Codes:
    """Return the codes of a ``.npy`` file: a read-only memory map, or an array with ``mmap=False``."""
    try:
        array = map_npy(path)
    except DAMAGED_NPY as error:
        raise ValueError(f"{os.fspath(path)} is not a .npy file of codes: {error}") from error
    return check_codes(array if mmap else np.array(array), name=f"the array in {os.fspath(path)}")


def save_parquet(path: PathLike, codes: Codes, n_bits: int, ids: ArrayLike | None = None) -> None:
    """Write codes to a parquet table with columns ``id`` and ``code``.

    Ids are int64, by default the row number; codes are fixed-size binary. The metadata holds the number of bits and a
    digest of the content, which `load_parquet` compares.
    """
    arrow, parquet = _pyarrow()
    n_bits = check_n_bits(n_bits)
    codes = np.ascontiguousarray(check_codes(codes, n_bits))
    chosen = np.arange(len(codes)) if ids is None else _check_ids(ids, len(codes))
    schema = arrow.schema(
        [("id", arrow.int64()), ("code", arrow.binary(n_bytes(n_bits)))],
        metadata={"cbid.n_bits": str(n_bits), "cbid.blake2b": digest_of(n_bits, codes, np.asarray(chosen, np.int64))},
    )
    with whole_file(path) as temporary, parquet.ParquetWriter(temporary, schema) as writer:
        for i in range(0, len(codes), _ROWS):
            part = codes[i : i + _ROWS]
            column = arrow.FixedSizeBinaryArray.from_buffers(
                schema.field("code").type, len(part), [None, arrow.py_buffer(part.tobytes())]
            )
            writer.write_table(arrow.Table.from_arrays([arrow.array(chosen[i : i + _ROWS]), column], schema=schema))


def load_parquet(path: PathLike) -> tuple[Codes, Ids, int]:
    """Return codes (n, bytes), ids (n,) and the number of bits of a table written by `save_parquet`."""
    arrow, parquet = _pyarrow()
    check_regular(path)
    table = _read_table(parquet, path)
    n_bits_text = (table.schema.metadata or {}).get(b"cbid.n_bits")
    if n_bits_text is None or {"id", "code"} - set(table.column_names):
        raise ValueError(
            f"{os.fspath(path)} is not a table of codes: it has columns {table.column_names} and cbid.n_bits="
            f"{None if n_bits_text is None else n_bits_text.decode(errors='replace')!r}; "
            "expected columns id and code, and cbid.n_bits in the metadata"
        )
    if not n_bits_text.isdigit() or not int(n_bits_text):
        raise ValueError(
            f"{os.fspath(path)} has cbid.n_bits={n_bits_text.decode(errors='replace')!r} in its metadata: "
            "expected an integer of at least 1"
        )
    n_bits = int(n_bits_text)
    column = table.column("code").combine_chunks()
    if column.type != arrow.binary(n_bytes(n_bits)) or column.null_count:
        raise ValueError(
            f"the column code of {os.fspath(path)} has type {column.type} and {column.null_count} nulls: "
            f"expected fixed-size binary of {n_bytes(n_bits)} bytes without nulls"
        )
    width = n_bytes(n_bits)
    data = np.frombuffer(column.buffers()[1], np.uint8)[column.offset * width :]
    codes = data[: len(column) * width].reshape(-1, width)
    checked = check_codes(codes, n_bits, name=f"the column code of {os.fspath(path)}")
    ids = _parquet_ids(arrow, table.column("id"), path)
    digest = table.schema.metadata.get(b"cbid.blake2b")  # files of 0.1.0 have none
    if digest is not None and digest != digest_of(n_bits, checked, ids).encode():
        raise ValueError(f"{os.fspath(path)} is damaged: its digest differs from its content")
    return checked, ids, n_bits


def _read_table(parquet: Any, path: PathLike) -> Any:
    try:
        return parquet.read_table(path)
    except (ValueError, OSError):
        raise
    except Exception as error:  # pyarrow raises its own errors, and RuntimeError, for damaged files
        raise ValueError(f"{os.fspath(path)} is not a parquet file, or is damaged: {error}") from error


def _parquet_ids(arrow: Any, column: Any, path: PathLike) -> Ids:
    name = f"the column id of {os.fspath(path)}"
    if not arrow.types.is_integer(column.type) or column.null_count:
        raise ValueError(
            f"{name} has type {column.type} and {column.null_count} nulls: expected integers without nulls"
        )
    return _check_ids(column.to_numpy(), len(column), name)


def export(path: PathLike, codes: Codes, n_bits: int, to: str, ids: ArrayLike | None = None) -> None:
    """Write codes to a file, or a directory, that another store reads.

    Parameters
    ----------
    path : path
        The file to write; an existing one is replaced. For Lance a directory, which must not exist.
    codes : array (n, bytes) of uint8
        Packed codes.
    n_bits : int
        Number of bits of a code. Every format is written as it is or padded with zeros, which change no distance.
    to : str
        ``"faiss"``: a binary index for ``faiss.read_index_binary``: `IndexBinaryFlat`, wrapped in
        `IndexBinaryIDMap2` if ids are given.
        ``"usearch"``: an index of ``b1`` vectors with Hamming distance for ``usearch.index.Index.restore``.
        ``"pgvector"``: one line of 0 and 1 per code, bit 0 first, for PostgreSQL's type ``bit(n_bits)``. With ids,
        lines are ``id<tab>code``, the format of COPY.
        ``"sqlite-vec"``: a SQLite file with a table ``codes (id, code)`` of blobs for ``vec_bit(code)``.
        ``"lance"``: a Lance table with columns ``id`` and ``code``, a list of bytes.
        ``"qdrant"``: JSON lines, the body of the request that creates the collection and those that add points.
        Vectors are -1 and 1 under the dot product, which is n_bits - 2 times the Hamming distance.
        ``"elasticsearch"``, ``"opensearch"``: JSON lines for ``_bulk``; bytes are signed (two's complement).
        ``"ubinary"``, ``"binary"``: the ``.npy`` arrays of sentence-transformers, uint8, or int8 after subtracting
        128. They hold no ids.
        ``"hex"``: one line of hexadecimal digits per code; with ids ``id<tab>code``.
    ids : array (n,) of int64, optional
        By default row numbers.
    """
    format = _store_format(to, "to")
    n_bits = check_n_bits(n_bits)
    if format.most_bits is not None and n_bits > format.most_bits:
        raise ValueError(f"n_bits={n_bits}: {to} takes at most {format.most_bits:,} bits; export a shorter prefix")
    codes = np.ascontiguousarray(check_codes(codes, n_bits))
    chosen = None if ids is None else _check_ids(ids, len(codes))
    with (whole_directory if format.directory else whole_file)(path) as temporary:
        format.write(temporary, codes, n_bits, chosen)


def load_export(path: PathLike, n_bits: int, of: str) -> tuple[Codes, Ids | None]:
    """Return the codes (n, bytes) and ids (n,) of a file that `export` or the store itself wrote.

    Parameters
    ----------
    path : path
    n_bits : int
        Number of bits of a code.
    of : str
        The format, as ``to`` of `export`.

    Returns
    -------
    codes, ids
        The ids are None if the file has none.
    """
    format = _store_format(of, "of")
    n_bits = check_n_bits(n_bits)
    name = f"the codes in {os.fspath(path)}"
    if not format.directory:
        check_regular(path)
    try:
        codes, ids = format.read(Path(path), n_bits)
        return check_codes(codes, n_bits, name=name), None if ids is None else _check_ids(ids, len(codes), "ids")
    except (*DAMAGED_NPY, TypeError, KeyError, IndexError, AttributeError, StopIteration, MemoryError) as error:
        raise ValueError(f"{os.fspath(path)} is not a file of {n_bits}-bit codes for {of}: {error}") from error


def _store_format(name: str, argument: str) -> StoreFormat:
    if name not in EXPORTS:
        raise ValueError(f"{argument}={name!r}: expected one of {', '.join(map(repr, EXPORTS))}")
    return EXPORTS[name]


def _check_ids(ids: ArrayLike, n: int, name: str = "ids") -> Ids:
    array = np.asarray(ids)
    if array.dtype.kind not in "iu" or array.shape != (n,):
        raise ValueError(f"{name} has shape {array.shape} and dtype {array.dtype}: expected integers of shape ({n},)")
    if n and int(array.max()) > np.iinfo(np.int64).max:
        raise ValueError(f"{name} holds {int(array.max())}: expected integers of at most 64 signed bits")
    if len(np.unique(array)) < n:
        raise ValueError(f"{name} has duplicates: expected a different id for each code")
    return array.astype(np.int64, copy=False)


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise missing_extra("a parquet file", "tables") from error
    return pyarrow, pyarrow.parquet
