"""One collection: rows of id, code and label, read and written in batches."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cbid.codes import n_bytes
from cbid.search.milvus.connection import Connection, MilvusError
from cbid.search.milvus.settings import LONGEST_LABEL, Settings

__all__ = ["MOST_ANSWERS", "Collection", "Rows"]

MOST_ANSWERS = 16_384  # rows that Milvus gives for one query
_READ, _WRITTEN = 10_000, 10_000  # rows at a time


class Rows(NamedTuple):
    """Stored items: ids (n,), codes (n, bytes), labels (n,)."""

    ids: NDArray[np.int64]
    codes: NDArray[np.uint8]
    labels: NDArray[Any]

    def taken(self, at: NDArray[np.intp]) -> "Rows":
        """Those at these places, in this order."""
        return Rows(self.ids[at], self.codes[at], self.labels[at])


class Collection:
    """A collection that is there, indexed and loaded.

    Ids of stored codes are >= 0. A row of id -k holds no code: its label is the number of candidates that a search
    for k takes. Every write is an upsert or a deletion, so that writing once more changes nothing.
    """

    def __init__(self, connection: Connection, settings: Settings) -> None:
        self.connection = connection
        self.settings = settings
        self._name = connection.address.collection

    @classmethod
    def create(
        cls, connection: Connection, settings: Settings, *, exist_ok: bool = False, overwrite: bool = False
    ) -> "Collection":
        address, description = connection.address, settings.to_json()
        if settings.cells is not None and address.file is not None:
            raise ValueError(f"cells={settings.cells}: milvus-lite has none, BIN_FLAT alone; leave cells out")
        if connection.describe() is not None:
            if exist_ok:
                try:
                    found = cls.open(connection)
                    if other := settings.other(found.settings):
                        raise ValueError(f"{address} is there already with {other}; overwrite drops it")
                    return found
                except ValueError:  # it is not what was asked for, or not of cbid at all
                    if not overwrite:
                        raise
            elif not overwrite:
                raise ValueError(f"{address} is there already; open it, or overwrite it")
            connection.call(
                "drop the collection", lambda c, left: c.drop_collection(address.collection, timeout=left)
            )

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
    def open(cls, connection: Connection) -> "Collection":
        address = connection.address
        told = connection.describe()
        if told is None:
            raise ValueError(f"{address}: there is no collection of this name")
        try:
            settings = Settings.from_json(told["description"])
        except ValueError as error:
            raise ValueError(f"{address} is no collection of cbid: {error}") from error
        types = _data_types()
        label = types.VARCHAR if settings.labels == "str" else types.INT64
        wanted = {"id": types.INT64, "code": types.BINARY_VECTOR, "label": label}
        fields = {field["name"]: field for field in told["fields"]}
        if {name: field["type"] for name, field in fields.items()} != wanted:
            raise ValueError(f"{address} is no collection of cbid: its fields are {', '.join(fields)}")
        width = int(fields["code"]["params"]["dim"])
        if width != settings.n_dims:
            raise ValueError(f"{address} holds vectors of {width} bits; its codes of {settings.n_bits} take others")
        opened = cls(connection, settings)
        opened._make_ready()
        return opened

    def _make_ready(self) -> None:
        """Indexed and loaded, also where whoever created the collection was stopped in the middle."""
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

    # Reading

    def count(self) -> int:
        answer = self._query("count the codes", "id >= 0", ["count(*)"])
        return int(answer[0]["count(*)"])

    def held(self, ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of these ids are stored."""
        found = [
            row["id"]
            for start in range(0, len(ids), _READ)
            for row in self._query("look up ids", _among(ids[start : start + _READ]), ["id"])
        ]
        return np.isin(ids, np.array(found, dtype=np.int64))

    def fetch(self, ids: NDArray[np.int64], consistency: str = "Strong") -> Rows:
        """The rows of those of these ids that are stored, by ascending id."""
        fields = ["id", "code", "label"]
        rows = [
            row
            for start in range(0, len(ids), _READ)
            for row in self._query("read codes", _among(ids[start : start + _READ]), fields, consistency)
        ]
        return self._as_rows(rows)

    def stream(self) -> Iterator[Rows]:
        """All rows by ascending id, some at a time; a server that restarts in between is waited for."""
        last, iterator = -1, None

        def act(client: Any, left: float) -> list[dict[str, Any]]:
            nonlocal iterator
            try:
                if iterator is None:
                    iterator = client.query_iterator(
                        self._name,
                        batch_size=_READ,
                        filter=f"id > {last}",
                        output_fields=["id", "code", "label"],
                        consistency_level="Strong",
                        timeout=left,
                    )
                return list(iterator.next())
            except BaseException:
                iterator = None  # the next one goes on behind what was read
                raise

        while batch := self.connection.call("read codes", act):
            rows = self._as_rows(batch)
            last = int(rows.ids[-1])
            yield rows

    def search(
        self, queries: NDArray[np.uint8], limit: int, labels: NDArray[Any] | None, consistency: str, n_kept: int
    ) -> list[NDArray[np.int64]]:
        """Ids of up to ``limit`` codes nearest to each query by Hamming distance, nearest first.

        n_kept: rows of negative ids, which may come up among the answers and are left out.
        """
        probes = self.settings.probes
        params = {"metric_type": "HAMMING", "params": {} if probes is None else {"nprobe": probes}}
        answer = self.connection.call(
            "search",
            lambda client, left: client.search(
                self._name,
                data=[query.tobytes() for query in queries],
                anns_field="code",
                limit=min(limit + n_kept, MOST_ANSWERS),
                filter="" if labels is None else f"label in {_literal(labels)}",
                search_params=params,
                consistency_level=consistency,
                timeout=left,
            ),
        )
        found = [np.array(hits.ids, dtype=np.int64) for hits in answer]
        return [ids[ids >= 0][:limit] for ids in found]

    def kept_candidates(self) -> dict[int, int]:
        """Numbers of candidates by k, as they were kept."""
        rows = self._query("read its settings", "id < 0", ["id", "label"])
        return {-row["id"]: int(row["label"]) for row in rows}

    # Writing

    def upsert(self, rows: Rows) -> Iterator[int]:
        """Write rows in batches; after each one that Milvus has acknowledged, its size."""
        labels = rows.labels.tolist()
        for start in range(0, len(rows.ids), _WRITTEN):
            ids = rows.ids[start : start + _WRITTEN].tolist()
            batch = [
                {"id": id, "code": code.tobytes(), "label": label}
                for id, code, label in zip(ids, rows.codes[start:], labels[start:])
            ]

            def act(client: Any, left: float, batch: list[dict[str, Any]] = batch) -> int:
                told = client.upsert(self._name, batch, timeout=left)
                return int(told["upsert_count"])

            done = self.connection.call("store codes", act)
            if done != len(batch):
                raise MilvusError(f"{self.connection.address}: Milvus stored {done} of {len(batch)} codes")
            yield done

    def keep_candidates(self, k: int, candidates: int) -> None:
        label = np.array([candidates])
        row = Rows(
            np.array([-k]),
            np.zeros((1, n_bytes(self.settings.n_bits)), dtype=np.uint8),
            label.astype(str) if self.settings.labels == "str" else label,
        )
        list(self.upsert(row))

    def delete(self, ids: NDArray[np.int64]) -> None:
        for start in range(0, len(ids), _WRITTEN):
            batch = ids[start : start + _WRITTEN].tolist()

            def act(client: Any, left: float, batch: list[int] = batch) -> None:
                client.delete(self._name, ids=batch, timeout=left)

            self.connection.call("remove codes", act)

    def flush(self) -> None:
        self.connection.call("flush", lambda client, left: client.flush(self._name, timeout=left))

    # Helpers

    def _query(
        self, doing: str, condition: str, fields: list[str], consistency: str = "Strong"
    ) -> list[dict[str, Any]]:
        return self.connection.call(
            doing,
            lambda client, left: client.query(
                self._name,
                filter=condition,
                output_fields=fields,
                consistency_level=consistency,
                timeout=left,
            ),
        )

    def _as_rows(self, rows: list[dict[str, Any]]) -> Rows:
        width = n_bytes(self.settings.n_bits)
        ids = np.array([row["id"] for row in rows], dtype=np.int64)
        codes = np.frombuffer(b"".join(row["code"][0] for row in rows), dtype=np.uint8).reshape(-1, width)
        labels = self.settings.decoded([row["label"] for row in rows])
        return Rows(ids, codes, labels).taken(np.argsort(ids))


def _among(ids: NDArray[np.int64]) -> str:
    return f"id in {ids.tolist()}"


def _literal(labels: NDArray[Any]) -> str:
    """A list as both the server and milvus-lite read it in a condition; they agree on these two escapes alone."""
    quoted = (
        repr(v) if isinstance(v, int) else '"' + v.replace("\\", "\\\\").replace('"', '\\"') + '"'
        for v in labels.tolist()
    )
    return f"[{', '.join(quoted)}]"


def _data_types() -> Any:
    from pymilvus import DataType

    return DataType
