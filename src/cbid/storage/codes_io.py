"""Files of packed codes, and exports to what other stores read.

A file appears whole or not at all: it is written under a temporary name in the same directory, flushed to the
disk and renamed.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cbid.codes import check_codes, check_n_bits, n_bytes
from cbid.storage.files import DAMAGED_NPY, whole_file

__all__ = ["EXPORTS", "export", "load", "load_parquet", "save", "save_parquet"]

PathLike = str | os.PathLike[str]
Codes = NDArray[np.uint8]
Ids = NDArray[np.int64]

_ROWS = 1 << 16  # codes turned to text or table rows at a time


def save(path: PathLike, codes: Codes) -> None:
    """Codes (n, bytes) to a ``.npy`` file of exactly that name."""
    codes = np.ascontiguousarray(check_codes(codes))
    with whole_file(path) as temporary, temporary.open("wb") as file:
        np.save(file, codes, allow_pickle=False)


def load(path: PathLike, *, mmap: bool = True) -> Codes:
    """Codes of a ``.npy`` file: a read-only memory map, or in memory with ``mmap=False``."""
    try:
        # Mapped in either case, which compares the header with the size; numpy cannot map an array without elements.
        array = np.load(path, mmap_mode=None if _is_empty(path) else "r", allow_pickle=False)
    except DAMAGED_NPY as error:
        raise ValueError(f"{os.fspath(path)} is no .npy file of codes: {error}") from error
    return check_codes(array if mmap else np.array(array), name=f"the array in {os.fspath(path)}")


def save_parquet(path: PathLike, codes: Codes, n_bits: int, ids: ArrayLike | None = None) -> None:
    """Codes to a parquet table: ``id`` (int64, by default the row number) and ``code`` (fixed-size binary).

    The number of bits is kept in the table's metadata.
    """
    arrow, parquet = _pyarrow()
    n_bits = check_n_bits(n_bits)
    codes = np.ascontiguousarray(check_codes(codes, n_bits))
    chosen = np.arange(len(codes)) if ids is None else _check_ids(ids, len(codes))
    schema = arrow.schema(
        [("id", arrow.int64()), ("code", arrow.binary(n_bytes(n_bits)))],
        metadata={"cbid.n_bits": str(n_bits)},
    )
    with whole_file(path) as temporary, parquet.ParquetWriter(temporary, schema) as writer:
        for i in range(0, len(codes), _ROWS):
            part = codes[i : i + _ROWS]
            column = arrow.FixedSizeBinaryArray.from_buffers(
                schema.field("code").type, len(part), [None, arrow.py_buffer(part.tobytes())]
            )
            writer.write_table(arrow.Table.from_arrays([arrow.array(chosen[i : i + _ROWS]), column], schema=schema))


def load_parquet(path: PathLike) -> tuple[Codes, Ids, int]:
    """Codes (n, bytes), ids (n,) and the number of bits of a table that `save_parquet` wrote."""
    arrow, parquet = _pyarrow()
    table = parquet.read_table(path)
    n_bits_text = (table.schema.metadata or {}).get(b"cbid.n_bits")
    if n_bits_text is None or {"id", "code"} - set(table.column_names):
        raise ValueError(
            f"{os.fspath(path)} has columns {table.column_names} and "
            f"{'no' if n_bits_text is None else 'a'} number of bits; a table of codes has columns id and "
            "code, and cbid.n_bits in its metadata"
        )
    if not n_bits_text.isdigit() or not int(n_bits_text):
        raise ValueError(
            f"{os.fspath(path)} has {n_bits_text.decode(errors='replace')!r} for cbid.n_bits in its metadata; an "
            "integer of at least 1 is accepted"
        )
    n_bits = int(n_bits_text)
    column = table.column("code").combine_chunks()
    if column.type != arrow.binary(n_bytes(n_bits)) or column.null_count:
        raise ValueError(
            f"{os.fspath(path)} has a column code of {column.type} with {column.null_count} nulls; "
            f"codes of {n_bits} bits are fixed-size binary of {n_bytes(n_bits)} bytes"
        )
    width = n_bytes(n_bits)
    data = np.frombuffer(column.buffers()[1], np.uint8)[column.offset * width :]
    codes = data[: len(column) * width].reshape(-1, width)
    checked = check_codes(codes, n_bits, name=f"the column code of {os.fspath(path)}")
    return checked, _parquet_ids(arrow, table.column("id"), path), n_bits


def _parquet_ids(arrow: Any, column: Any, path: PathLike) -> Ids:
    name = f"the column id of {os.fspath(path)}"
    if not arrow.types.is_integer(column.type) or column.null_count:
        raise ValueError(
            f"{name} is of {column.type} with {column.null_count} nulls; integers, no null, are accepted"
        )
    return _check_ids(column.to_numpy(), len(column), name)


def export(path: PathLike, codes: Codes, n_bits: int, to: str, ids: ArrayLike | None = None) -> None:
    """Codes to a file that another store reads; ``to`` is one of

    - ``"faiss"``: a binary index for ``faiss.read_index_binary``, `IndexBinaryFlat`, within an
      `IndexBinaryIDMap2` when ids are given. Its width is the padded one; padding bits are zero and add
      nothing to a distance;
    - ``"usearch"``: an index of ``b1`` vectors under Hamming for ``usearch.index.Index.restore``; the key of
      a code is its id, or its row number;
    - ``"pgvector"``: text of 0 and 1, bit 0 first, one code per line, as PostgreSQL's type ``bit(n_bits)``
      takes;
    - ``"hex"``: two hexadecimal digits per byte, one code per line.

    With ids the lines of text are ``id<tab>code``, the format of PostgreSQL's COPY.
    """
    if to not in EXPORTS:
        raise ValueError(f"to is {to!r}; accepted: {', '.join(map(repr, EXPORTS))}")
    n_bits = check_n_bits(n_bits)
    codes = np.ascontiguousarray(check_codes(codes, n_bits))
    chosen = None if ids is None else _check_ids(ids, len(codes))
    with whole_file(path) as temporary:
        EXPORTS[to](temporary, codes, n_bits, chosen)


def _export_faiss(path: Path, codes: Codes, n_bits: int, ids: Ids | None) -> None:
    import faiss

    flat = faiss.IndexBinaryFlat(8 * n_bytes(n_bits))
    if ids is None:
        flat.add(codes)
        faiss.write_index_binary(flat, os.fspath(path))
    else:
        mapped = faiss.IndexBinaryIDMap2(flat)
        mapped.add_with_ids(codes, ids)
        faiss.write_index_binary(mapped, os.fspath(path))


def _export_usearch(path: Path, codes: Codes, n_bits: int, ids: Ids | None) -> None:
    try:
        from usearch.index import Index
    except ImportError as error:
        raise ImportError("export to usearch needs the extra 'stores': pip install 'cbid[stores]'") from error
    keys = np.arange(len(codes)) if ids is None else ids
    if np.any(keys < 0):
        raise ValueError(f"ids has negative entries (least: {keys.min()}); keys of usearch are not negative")
    index = Index(ndim=n_bits, metric="hamming", dtype="b1")
    if len(codes):
        index.add(keys.astype(np.uint64), codes)
    index.save(os.fspath(path))


def _export_text(
    line_of: Callable[[Codes, int], list[str]],
) -> Callable[[Path, Codes, int, Ids | None], None]:
    def write(path: Path, codes: Codes, n_bits: int, ids: Ids | None) -> None:
        with path.open("w", encoding="ascii", newline="\n") as file:
            for i in range(0, len(codes), _ROWS):
                lines = line_of(codes[i : i + _ROWS], n_bits)
                if ids is not None:
                    lines = [f"{key}\t{line}" for key, line in zip(ids[i : i + _ROWS].tolist(), lines)]
                file.writelines(f"{line}\n" for line in lines)

    return write


def _bit_lines(codes: Codes, n_bits: int) -> list[str]:
    digits = np.unpackbits(codes, axis=1, count=n_bits) + np.uint8(ord("0"))
    return [row.tobytes().decode("ascii") for row in digits]


def _hex_lines(codes: Codes, n_bits: int) -> list[str]:
    return [row.tobytes().hex() for row in codes]


EXPORTS: dict[str, Callable[[Path, Codes, int, Ids | None], None]] = {
    "faiss": _export_faiss,
    "usearch": _export_usearch,
    "pgvector": _export_text(_bit_lines),
    "hex": _export_text(_hex_lines),
}


def _is_empty(path: PathLike) -> bool:
    with open(path, "rb") as file:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        return 0 in read(file)[0]


def _check_ids(ids: ArrayLike, n: int, name: str = "ids") -> Ids:
    array = np.asarray(ids)
    if array.dtype.kind not in "iu" or array.shape != (n,):
        raise ValueError(
            f"{name} has shape {array.shape} and dtype {array.dtype}; integers of shape ({n},) are accepted"
        )
    if n and int(array.max()) > np.iinfo(np.int64).max:
        raise ValueError(f"{name} holds {int(array.max())}; integers within 64 signed bits are accepted")
    if len(np.unique(array)) < n:
        raise ValueError(f"{name} has duplicates; each code has an id of its own")
    return array.astype(np.int64, copy=False)


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError("parquet files need the extra 'tables': pip install 'cbid[tables]'") from error
    return pyarrow, pyarrow.parquet
