"""Retrieval measured for many queries: in parts, by the workers of a cluster."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cbid.checks import check_integer
from cbid.codes import check_codes, check_n_bits, check_weights, hamming, weighted_hamming
from cbid.data.arrays import read_npy
from cbid.evaluation.metrics import average_precision, precision_at
from cbid.scale.parts import IDS, Job, stored_ids
from cbid.scale.running import run
from cbid.scale.sources import HeldRows, RowSource, open_rows
from cbid.storage.digests import digest_of
from cbid.storage.tensorfile import Arrays

__all__ = ["Evaluation", "evaluate_to"]

_PAIRS = 2**23  # of a query and a code, compared at a time


@dataclass(frozen=True)
class Evaluation:
    """Of each query, (q,): expected average precision (nan where nothing is relevant) and precision at k."""

    average_precision: NDArray[np.float64]
    precision: NDArray[np.float64]

    @property
    def mean_average_precision(self) -> float:
        return float(np.nanmean(self.average_precision))

    @property
    def mean_precision(self) -> float:
        return float(self.precision.mean())


@dataclass(frozen=True)
class Evaluate:
    """Both metrics of a span of queries against all codes of the database."""

    queries: RowSource
    wanted: NDArray[np.int64]
    database: RowSource
    labels: NDArray[np.int64]
    n_bits: int
    weights: NDArray[np.float64] | None
    k: int

    def __call__(self, start: int, stop: int) -> tuple[Arrays, list[Any]]:
        queries = check_codes(self.queries.read(start, stop), self.n_bits, name="queries")
        database = check_codes(self.database.read(0, len(self.database)), self.n_bits, name="database")
        average, precision = np.empty(len(queries)), np.empty(len(queries))
        step = max(1, _PAIRS // len(database))
        for first in range(0, len(queries), step):
            part = slice(first, first + step)
            distances: Any
            if self.weights is None:
                distances = hamming(queries[part], database)
            else:
                distances = weighted_hamming(queries[part], database, self.weights)
            relevant = self.wanted[start:stop][part, None] == self.labels
            average[part] = average_precision(distances, relevant)
            precision[part] = precision_at(distances, relevant, self.k)
        ids = stored_ids(self.queries.ids_of(start, stop))
        return {"average_precision": average, "precision": precision, IDS: ids}, []


def evaluate_to(
    queries: Any,
    database: Any,
    out: str | os.PathLike[str],
    *,
    query_labels: ArrayLike,
    labels: ArrayLike,
    n_bits: int,
    weights: ArrayLike | None = None,
    k: int = 100,
    scheduler: Any = None,
    n_jobs: int | None = None,
    part_rows: int = 1024,
    timeout: float = 30.0,
    overwrite: bool = False,
    verbose: int = 0,
) -> Evaluation:
    """Average precision, and precision at k, of every query; ``.npy`` files of both in the folder ``out``.

    queries, database
        Packed codes (q, bytes) and (n, bytes): arrays or ``.npy`` files, such as ``encode_to`` writes.
    query_labels, labels
        (q,) and (n,); a code is relevant to a query of the same label.
    weights
        (n_bits,) for weighted Hamming distance, None for plain.

    Items at one distance count in random order (``cbid.evaluation``). The other arguments are those of ``encode_to``.
    """
    asked, stored = open_rows(queries, name="queries"), open_rows(database, name="database")
    n_bits = check_n_bits(n_bits)
    check_integer("k", k, 1, len(stored))
    check_integer("part_rows", part_rows, 1)
    if scheduler is not None and (isinstance(asked, HeldRows) or isinstance(stored, HeldRows)):
        raise ValueError("queries and database must be files that the workers can read; save the arrays as .npy")
    for name, rows in (("queries", asked), ("database", stored)):
        check_codes(rows.read(0, 1), n_bits, name=name)
    for name, given, rows in (("query_labels", query_labels, asked), ("labels", labels, stored)):
        if np.shape(given) != (len(rows),):
            raise ValueError(f"{name} has shape {np.shape(given)}; there are {len(rows)} codes")
    _, numbers = np.unique(np.concatenate([np.asarray(query_labels), np.asarray(labels)]), return_inverse=True)
    wanted, of_stored = numbers[: len(asked)], numbers[len(asked) :]
    per_bit = None if weights is None else check_weights(weights, n_bits)
    target = Path(os.path.abspath(out))
    outputs = {name: target / f"{name}.npy" for name in ("average_precision", "precision")}
    job = Job(
        task=Evaluate(asked.without_labels(), wanted, stored.without_labels(), of_stored, n_bits, per_bit, k),
        spans=asked.spans(part_rows),
        outputs=outputs,
        record=target.with_name(f"{target.name}.json"),
        plan={
            "what": "retrieval",
            "queries": asked.identity(),
            "database": stored.identity(),
            "labels": digest_of(numbers),
            "weights": None if per_bit is None else digest_of(per_bit),
            "n_bits": n_bits,
            "k": k,
        },
        sources=[*asked.files(), *stored.files()],
    )
    run(job, scheduler=scheduler, n_jobs=n_jobs, timeout=timeout, overwrite=overwrite, verbose=verbose)
    return Evaluation(*(read_npy(path) for path in outputs.values()))
