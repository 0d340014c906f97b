"""A Milvus collection: its settings, and its rows of id, code and label, read and written in batches."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cbid.codes import check_n_bits, hamming, n_bytes, weighted_hamming
from cbid.search.checks import as_cells, as_weights
from cbid.search.stores.milvus_connection import MilvusConnection, MilvusError
from cbid.search.vocabulary import as_labels

LARGEST_RESULT = 16_384  # rows that Milvus returns for one query
_BATCH = 10_000  # rows read or written at a time
_FORMAT = 1
_FIELDS = ["id", "code", "label"]
_KINDS = (None, "int", "str", "bool")
_MOST_BYTES = 1_000_000  # of a description; Milvus keeps it in etcd, which takes 1.5 MB
_MISSING = {None: 0, "int": -1, "str": "", "bool": False}
LONGEST_LABEL = 1024  # bytes of UTF-8


class StoredRows(NamedTuple):
    """Stored codes: ids (n,), codes (n, bytes), labels (n,)."""

    ids: NDArray[np.int64]
    codes: NDArray[np.uint8]
    labels: NDArray[Any]

    def at(self, places: NDArray[np.intp]) -> "StoredRows":
        """Return the rows at ``places``, in this order."""
        return StoredRows(self.ids[places], self.codes[places], self.labels[places])


@dataclass(frozen=True, eq=False)
class CollectionSettings:
    """The properties of a collection, fixed when it is created and stored in its description as JSON.

    weights: None, (n_bits,) or (n_bits, n_classes); ``classes`` are the labels of the columns.
    labels: the kind of the labels, "int", "str" or "bool"; None without labels.
    cells: of the Milvus index BIN_IVF_FLAT, of which a search scans ``probes``; None for BIN_FLAT.
    made_by: any text, such as a digest of the coder.
    """

    n_bits: int
    weights: NDArray[np.float64] | None = None
    classes: NDArray[Any] | None = None
    labels: str | None = None
    cells: int | None = None
    probes: int | None = None
    made_by: str = ""

    @classmethod
    def checked(
        cls,
        n_bits: int,
        weights: ArrayLike | None,
        classes: ArrayLike | None,
        labels: str | None,
        cells: int | None,
        probes: int | None,
        made_by: str,
    ) -> "CollectionSettings":
        """Check the arguments and fill in defaults."""
        n_bits = check_n_bits(n_bits)
        if labels not in _KINDS:
            raise ValueError(f"labels={labels!r}: expected the kind of labels: 'int', 'str', 'bool' or None")
        own = None if weights is None else as_weights(weights, n_bits)
        names = None
        if own is not None and own.ndim == 2:
            names, kind = as_labels(np.arange(own.shape[1]) if classes is None else classes, "classes")
            if len(names) != own.shape[1] or len(np.unique(names)) != len(names):
                found, wanted = len(np.unique(names)), own.shape[1]
                raise ValueError(f"classes has {found} distinct names; expected one per column of weights, {wanted}")
            if labels is not None and labels != kind:
                raise ValueError(f"labels={labels!r}: expected {kind!r}, the kind of classes")
            labels = kind
        elif classes is not None:
            raise ValueError("classes is given, but weights is not; expected weights of shape (n_bits, n_classes)")
        n_cells, n_probes = as_cells(cells, probes, at_most=65_536)
        return cls(n_bits, own, names, labels, n_cells, n_probes, made_by)

    @property
    def n_dims(self) -> int:
        """Bits of a vector in Milvus: whole bytes, padded with zeros."""
        return 8 * n_bytes(self.n_bits)

    def to_json(self) -> str:
        """Return the description of a collection."""
        values = {name: v.tolist() if isinstance(v, np.ndarray) else v for name, v in vars(self).items()}
        text = json.dumps({"cbid": _FORMAT, **values})
        if len(text) > _MOST_BYTES:
            raise ValueError(
                f"weights and classes have {len(text):,} bytes as text; the description of a collection has at most "
                f"{_MOST_BYTES:,}"
            )
        return text

    @classmethod
    def from_json(cls, text: str) -> "CollectionSettings":
        """Read a description; raise ValueError if it is not one of cbid."""
        try:
            given = json.loads(text)
            if given["cbid"] != _FORMAT:
                raise ValueError(f"its description has format {given['cbid']}; this release reads format {_FORMAT}")
            return cls.checked(**{field.name: given[field.name] for field in fields(cls)})
        except (KeyError, TypeError, RecursionError, json.JSONDecodeError) as error:
            raise ValueError("its description was not written by cbid") from error

    def difference(self, found: "CollectionSettings") -> str:
        """Describe the first difference that changes results; empty without one.

        If no cells are requested, the other may have any.
        """
        if self.n_bits != found.n_bits:
            return f"codes of {found.n_bits} bits, not {self.n_bits}"
        if self.labels != found.labels:
            return f"labels of kind {found.labels}, not {self.labels}"
        if not (_equal(self.weights, found.weights) and _equal(self.classes, found.classes)):
            return "different weights"
        if self.cells is not None and (self.cells, self.probes) != (found.cells, found.probes):
            there = "no cells" if found.cells is None else f"{found.probes} of {found.cells} cells probed"
            return f"{there}, not {self.probes} of {self.cells}"
        return "" if self.made_by == found.made_by else "codes of a different coder"

    # Labels

    def as_labels(self, labels: ArrayLike | None, n: int | None = None) -> NDArray[Any]:
        """Return labels (n,) as Milvus stores them, int64 or str; zeros if the collection has none."""
        if self.labels is None:
            if labels is not None:
                raise ValueError("labels is given, but this collection has no labels; expected None")
            return np.zeros(n or 0, dtype=np.int64)
        if labels is None:
            raise ValueError(f"labels=None: expected one label of kind {self.labels} per code")
        array, kind = as_labels(labels, "labels")
        if n is not None and len(array) != n:
            raise ValueError(f"labels has {len(array)} entries; expected one per code, {n}")
        if len(array) and kind != self.labels:
            raise TypeError(f"labels has values of kind {kind}; expected kind {self.labels}")
        if n is not None and self.classes is not None and not np.isin(array, self.classes).all():
            other = array[~np.isin(array, self.classes)][0]
            raise ValueError(f"labels holds {other.item()!r}; expected one of the classes of the weights")
        if kind == "str":
            distinct = set(array.tolist())
            longest = max((len(label.encode()) for label in distinct), default=0)
            if longest > LONGEST_LABEL:
                raise ValueError(f"labels holds one of {longest} bytes; expected at most {LONGEST_LABEL}")
            if any("\n" in label or "\r" in label for label in distinct):
                raise ValueError("labels holds one of several lines; expected one line, as Milvus filters by it")
            return array
        return array.astype(np.int64)

    def decoded(self, stored: list[Any]) -> NDArray[Any]:
        """Convert labels from Milvus to their original type; without labels, zeros."""
        return np.array(stored, dtype={"str": str, "bool": bool}.get(self.labels or "int", np.int64))

    @property
    def missing(self) -> Any:
        """The label of a missing match."""
        return _MISSING[self.labels]

    def distances(
        self, query: NDArray[np.uint8], rows: StoredRows, weights: NDArray[np.float64] | None
    ) -> NDArray[np.float32]:
        """Return the distances (n,) of one query (bytes,) to ``rows``.

        ``weights``: None for plain Hamming distance, (n_bits,), or (n_bits, n_classes) with a column for each of
        ``classes``.
        """
        if weights is None:
            return np.asarray(hamming(query, rows.codes), dtype=np.float32)
        if weights.ndim == 1:
            return np.asarray(weighted_hamming(query, rows.codes, weights), dtype=np.float32)
        assert self.classes is not None
        distances = np.empty(len(rows.ids), dtype=np.float32)
        for label in np.unique(rows.labels):
            of_class = rows.labels == label
            column = weights[:, np.flatnonzero(self.classes == label)[0]]
            distances[of_class] = weighted_hamming(query, rows.codes[of_class], column)
        return distances


def _equal(a: NDArray[Any] | None, b: NDArray[Any] | None) -> bool:
    return (a is None) == (b is None) and (a is None or b is None or np.array_equal(a, b))


class MilvusCollection:
    """An existing collection, indexed and loaded.

    Ids of codes are >= 0. A row with id -k holds no code: its label is the number of candidates of a search for k.
    Every write is an upsert or a deletion, so repeating it changes nothing.
    """

    def __init__(self, connection: MilvusConnection, settings: CollectionSettings) -> None:
        self.connection = connection
        self.settings = settings
        self._name = connection.address.collection

    @classmethod
    def create(
        cls,
        connection: MilvusConnection,
        settings: CollectionSettings,
        *,
        exist_ok: bool = False,
        overwrite: bool = False,
    ) -> "MilvusCollection":
        """Create a collection; see `MilvusStore.create`."""
        address, description = connection.address, settings.to_json()
        if settings.cells is not None and address.file is not None:
            raise ValueError(f"cells={settings.cells}: milvus-lite only has BIN_FLAT; expected None")
        if connection.describe() is not None:
            if exist_ok:
                try:
                    found = cls.open(connection)
                    if difference := settings.difference(found.settings):
                        raise ValueError(f"{address} already exists with {difference}; use overwrite to replace it")
                    return found
                except ValueError:  # different settings, or not a collection of cbid
                    if not overwrite:
                        raise
            elif not overwrite:
                raise ValueError(f"{address} already exists; open or overwrite it")
            connection.request("drop the collection", "drop_collection")

        def act(client: Any, left: float) -> None:
            types = _data_types()
            schema = client.create_schema(auto_id=False, description=description)
            schema.add_field("id", types.INT64, is_primary=True)
            schema.add_field("code", types.BINARY_VECTOR, dim=settings.n_dims)
            if settings.labels == "str":
                schema.add_field("label", types.VARCHAR, max_length=LONGEST_LABEL)
            else:
                schema.add_field("label", types.INT64)
            client.create_collection(address.collection, schema=schema, consistency_level="Strong", timeout=left)

        connection.call("create the collection", act)
        made = cls(connection, settings)
        made._make_ready()
        return made

    @classmethod
    def open(cls, connection: MilvusConnection) -> "MilvusCollection":
        """Open a collection that `create` made."""
        address = connection.address
        found = connection.describe()
        if found is None:
            raise ValueError(f"{address}: the collection does not exist")
        try:
            settings = CollectionSettings.from_json(found["description"])
        except ValueError as error:
            raise ValueError(f"{address} is not a collection of cbid: {error}") from error
        types = _data_types()
        label = types.VARCHAR if settings.labels == "str" else types.INT64
        wanted = {"id": types.INT64, "code": types.BINARY_VECTOR, "label": label}
        fields = {field["name"]: field for field in found["fields"]}
        if {name: field["type"] for name, field in fields.items()} != wanted:
            raise ValueError(f"{address} is not a collection of cbid: its fields are {', '.join(fields)}")
        width = int(fields["code"]["params"]["dim"])
        if width != settings.n_dims:
            raise ValueError(f"{address} has vectors of {width} bits; expected {settings.n_dims} for its codes")
        opened = cls(connection, settings)
        opened._make_ready()
        return opened

    def _make_ready(self) -> None:
        """Index and load the collection, also if its creation was interrupted."""
        cells = self.settings.cells

        def act(client: Any, left: float) -> None:
            if not client.list_indexes(self._name, timeout=left):
                index = client.prepare_index_params()
                if cells is None:
                    index.add_index("code", index_type="BIN_FLAT", metric_type="HAMMING")
                else:
                    params = {"nlist": cells}
                    index.add_index("code", index_type="BIN_IVF_FLAT", metric_type="HAMMING", params=params)
                client.create_index(self._name, index, timeout=left)
            client.load_collection(self._name, timeout=left)

        self.connection.call("load the collection", act)

    # Read

    def count(self) -> int:
        """Return the number of stored codes."""
        return int(self._query("count the codes", "id >= 0", ["count(*)"])[0]["count(*)"])

    def held(self, ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which of these ids are stored."""
        found = [row["id"] for row in self._rows_of(ids, "look up ids", ["id"])]
        return np.isin(ids, np.array(found, dtype=np.int64))

    def fetch(self, ids: NDArray[np.int64], consistency: str = "Strong") -> StoredRows:
        """Return the stored rows of these ids, by ascending id; unknown ids are skipped."""
        return self._as_rows(self._rows_of(ids, "read codes", _FIELDS, consistency))

    def stream(self) -> Iterator[StoredRows]:
        """Yield all rows by ascending id, in batches; waits for a server that restarts."""
        last, iterator = -1, None

        def act(client: Any, left: float) -> list[dict[str, Any]]:
            nonlocal iterator
            try:
                if iterator is None:
                    iterator = client.query_iterator(
                        self._name,
                        batch_size=_BATCH,
                        filter=f"id > {last}",
                        output_fields=_FIELDS,
                        consistency_level="Strong",
                        timeout=left,
                    )
                return list(iterator.next())
            except BaseException:
                iterator = None  # the next iterator continues after the last row
                raise

        while batch := self.connection.call("read codes", act):
            rows = self._as_rows(batch)
            last = int(rows.ids[-1])
            yield rows

    def search(
        self, queries: NDArray[np.uint8], limit: int, labels: NDArray[Any] | None, consistency: str, n_kept: int
    ) -> list[NDArray[np.int64]]:
        """Return ids of up to ``limit`` codes nearest to each query by Hamming distance, nearest first.

        n_kept: number of rows with negative ids, which may be among the results and are dropped.
        """
        probes = self.settings.probes
        params = {"metric_type": "HAMMING", "params": {} if probes is None else {"nprobe": probes}}
        answer = self.connection.request(
            "search",
            "search",
            data=[query.tobytes() for query in queries],
            anns_field="code",
            limit=min(limit + n_kept, LARGEST_RESULT),
            filter="" if labels is None else f"label in {_literal(labels)}",
            search_params=params,
            consistency_level=consistency,
        )
        found = [np.array(hits.ids, dtype=np.int64) for hits in answer]
        return [ids[ids >= 0][:limit] for ids in found]

    def kept_candidates(self) -> dict[int, int]:
        """Return the stored numbers of candidates by k."""
        rows = self._query("read its settings", "id < 0", ["id", "label"])
        return {-row["id"]: int(row["label"]) for row in rows}

    # Write

    def upsert(self, rows: StoredRows) -> Iterator[int]:
        """Write rows in batches; yield the size of each batch that Milvus has acknowledged."""
        labels = rows.labels.tolist()
        for start in range(0, len(rows.ids), _BATCH):
            ids = rows.ids[start : start + _BATCH].tolist()
            batch = [
                {"id": id, "code": code.tobytes(), "label": label}
                for id, code, label in zip(ids, rows.codes[start:], labels[start:])
            ]
            done = int(self.connection.request("store codes", "upsert", batch)["upsert_count"])
            if done != len(batch):
                raise MilvusError(f"{self.connection.address}: Milvus stored {done} of {len(batch)} codes")
            yield done

    def keep_candidates(self, k: int, candidates: int) -> None:
        """Store the number of candidates of a search for k."""
        label = np.array([candidates])
        row = StoredRows(
            np.array([-k]),
            np.zeros((1, n_bytes(self.settings.n_bits)), dtype=np.uint8),
            label.astype(str) if self.settings.labels == "str" else label,
        )
        list(self.upsert(row))

    def delete(self, ids: NDArray[np.int64]) -> None:
        """Delete rows."""
        for start in range(0, len(ids), _BATCH):
            self.connection.request("remove codes", "delete", ids=ids[start : start + _BATCH].tolist())

    def flush(self) -> None:
        """Write the log of Milvus into segments."""
        self.connection.request("flush", "flush")

    # Helpers

    def _query(
        self, doing: str, condition: str, fields: list[str], consistency: str = "Strong"
    ) -> list[dict[str, Any]]:
        return self.connection.request(
            doing, "query", filter=condition, output_fields=fields, consistency_level=consistency
        )

    def _rows_of(
        self, ids: NDArray[np.int64], doing: str, fields: list[str], consistency: str = "Strong"
    ) -> list[dict[str, Any]]:
        batches = [ids[start : start + _BATCH].tolist() for start in range(0, len(ids), _BATCH)]
        return [row for batch in batches for row in self._query(doing, f"id in {batch}", fields, consistency)]

    def _as_rows(self, rows: list[dict[str, Any]]) -> StoredRows:
        width = n_bytes(self.settings.n_bits)
        ids = np.array([row["id"] for row in rows], dtype=np.int64)
        codes = np.frombuffer(b"".join(row["code"][0] for row in rows), dtype=np.uint8).reshape(-1, width)
        labels = self.settings.decoded([row["label"] for row in rows])
        return StoredRows(ids, codes, labels).at(np.argsort(ids))


def _literal(labels: NDArray[Any]) -> str:
    """A list in a condition; the server and milvus-lite both accept these two escapes, and no other."""
    quoted = (
        repr(v) if isinstance(v, int) else '"' + v.replace("\\", "\\\\").replace('"', '\\"') + '"'
        for v in labels.tolist()
    )
    return f"[{', '.join(quoted)}]"


def _data_types() -> Any:
    from pymilvus import DataType

    return DataType
