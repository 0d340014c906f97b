"""Encode more vectors than memory holds to a file; in this process or on the workers of a cluster."""

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from cbid.checks import check_integer
from cbid.coders.base import Coder
from cbid.scale.memory import as_bytes, used_budget
from cbid.scale.parts import IDS, Job, id_file, stored_ids
from cbid.scale.running import n_threads, run
from cbid.scale.sources import MemoryRows, RowSource, open_rows
from cbid.storage import code_files
from cbid.storage.digests import digest_of
from cbid.storage.models import model_digest
from cbid.storage.tensors import Arrays

_ROWS = 1 << 16  # rows of a part, if memory allows them
_SLICE_BYTES = 3 * 64 * 2**20  # what a coder needs to project one slice


@dataclass(frozen=True)
class Encode:
    """Codes and ids of a span of rows."""

    rows: RowSource
    coder: Coder

    def __call__(self, start: int, stop: int) -> tuple[Arrays, list[Any]]:
        """Return the arrays and the notes of one span."""
        codes = self.coder.encode(self.rows.read(start, stop))
        return {"codes": codes, IDS: stored_ids(self.rows.ids_of(start, stop))}, []


def encode_to(
    source: Any,
    coder: Coder,
    out: str | os.PathLike[str],
    *,
    ids: ArrayLike | None = None,
    scheduler: Any = None,
    n_jobs: int | None = None,
    max_memory: int | str = "2GB",
    part_rows: int | None = None,
    timeout: float = 30.0,
    overwrite: bool = False,
    verbose: int = 0,
) -> NDArray[np.uint8]:
    """Encode all rows of a source to the ``.npy`` file ``out`` and return the codes, mapped from it.

    The file is written atomically. Until then ``OUT.parts`` holds finished parts, and a run that was killed or lost
    its cluster continues from them. ``OUT.json`` records what the codes were made of. The bytes are those of
    ``coder.encode`` with one thread, in this process and on a cluster.

    Parameters
    ----------
    source
        An array (n, d), mapped or not; a ``.npy`` or ``.npz`` file of one; one or several parquet files, or a folder
        of them. For a cluster, files that the workers see under the same path.
    coder
        A fitted coder.
    out
        The file to write, in a folder that the workers see too. Ids of the source go to ``OUT`` with ``.ids.npy``
        for ``.npy``.
    ids
        Integers or strings (n,), instead of those of the source.
    scheduler
        None for this process; the address of a Dask scheduler, or a ``distributed.Client``.
    n_jobs
        Threads in this process, each with its own part.
    max_memory
        The limit for this process, or for each worker in addition to what it uses at the start.
    part_rows
        Rows of a part. None: 65,536, or as many as ``max_memory`` allows; a continued run keeps its parts.
    timeout
        Seconds to wait for the scheduler and its workers.
    overwrite
        Whether to replace results or parts of another plan. The old result stays until the new one is complete.
    verbose
        1 shows progress.
    """
    check_is_fitted(coder)
    rows = open_rows(source, ids=ids)
    if rows.shape[1] != coder.n_features_in_:
        raise ValueError(f"source has vectors of {rows.shape[1]} values; coder was fitted to {coder.n_features_in_}")
    if scheduler is not None and isinstance(rows, MemoryRows):
        raise ValueError(
            "source is an array in the memory of this process, which the workers cannot read; save it as .npy and "
            "give the path or the mapped array"
        )
    if part_rows is not None:
        check_integer("part_rows", part_rows, 1)
    budget = as_bytes(max_memory)
    target = Path(os.path.abspath(out))
    if target.suffix != ".npy":
        raise ValueError(f"out={os.fspath(out)!r}: expected the name of a .npy file")
    outputs = {"codes": target}
    plan = {"what": "codes", "coder": model_digest(coder), "source": rows.identity()}
    if rows.ids is not None:
        outputs[IDS] = id_file(target)
        plan[IDS] = digest_of(stored_ids(rows.ids))
    job = Job(
        task=Encode(rows.without_labels(), coder),
        spans=[] if part_rows is None else rows.spans(part_rows),
        outputs=outputs,
        record=target.with_name(f"{target.name}.json"),
        plan=plan,
        sources=rows.files(),
        ids_file=id_file(target) if rows.ids is None else None,
        fixed=part_rows is not None,
    ).with_earlier_spans()
    if part_rows is None and not (job.spans and job.is_done(overwrite=overwrite)):
        size = _part_rows(rows, coder, budget, 1 if scheduler is not None else n_jobs)
        job = replace(job, spans=job.spans or rows.spans(size))
    run(job, scheduler=scheduler, n_jobs=n_jobs, timeout=timeout, overwrite=overwrite, verbose=verbose)
    return code_files.load(target)


def _part_rows(rows: RowSource, coder: Coder, budget: int, n_jobs: int | None) -> int:
    """Return the number of rows of a part that the budget allows."""
    left = (budget - used_budget()) // n_threads(n_jobs) - _SLICE_BYTES
    # For each row: the vector, a float copy for the coder if it holds integers, and the code.
    allowed = left // (rows.row_bytes + 8 * rows.shape[1] * (rows.dtype.kind != "f") + coder.n_bits_ + 64)
    if allowed < 1:
        raise ValueError(f"max_memory={budget:,} bytes is too small to encode any row; give more")
    cut = coder.slice_rows()  # a span that starts at a multiple of it has the codes of the whole array
    most = max(min(allowed, _ROWS) // cut * cut, min(allowed, cut))
    largest = max((stop - start for start, stop in rows.spans(most)), default=0)
    if largest > allowed:
        raise ValueError(
            f"max_memory={budget:,} bytes allows parts of {allowed} rows; a row group of the source has {largest}. "
            "Give more memory, or write the parquet files with smaller row groups"
        )
    return int(most)
