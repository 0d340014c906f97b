"""Recall, memory and speed of `VectorIndex` beside what people use today for vectors as bits with a second look.

    python -m benchmarks.vector_search [--thousands 200]

Data: vectors around 1,000 centres in 128 dimensions, and the Caltech-101 embeddings below CBID_DATA; unit length, so
cosine. Each method first finds candidates in its compressed index, then ranks them again by the original vectors
(float32; float16 in `VectorIndex`). The number of candidates is the smallest of a list whose mean recall at 10
reaches the target on validation queries; recall and speed are those of other queries. One thread, processor time, 100
queries at once, the methods one after the other in random order. Bytes are those of the compressed index in memory,
without the original vectors, which all methods need for the second look. `results/vector_search.json` keeps them all.
"""

import argparse
import os
from functools import partial
from pathlib import Path

import faiss
import numpy as np
from usearch.index import Index as UsearchIndex
from usearch.index import MetricKind, ScalarKind

from benchmarks.results import store
from benchmarks.search_speed import interleaved
from cbid import VectorIndex
from cbid.coders import ITQ

TARGETS = (0.95, 0.99)
COUNTS = (10, 20, 30, 50, 80, 120, 200, 300, 500, 800, 1200, 2000, 4000)
K = 10


def unit(X):
    return np.ascontiguousarray(X / np.linalg.norm(X, axis=1, keepdims=True), np.float32)


def clustered(n, d=128, n_queries=400):
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(1000, d))
    X = centres[rng.integers(0, 1000, n + n_queries)] + rng.normal(size=(n + n_queries, d))
    return unit(X[:n]), unit(X[n:])


def caltech(n_queries=400):
    path = Path(os.environ.get("CBID_DATA", "data")) / "caltech101" / "embeddings_efficientnet_lite0.npz"
    if not path.exists():
        return None
    with np.load(path) as file:
        X = next(file[name] for name in file.files if file[name].ndim == 2)
    X = unit(X.astype(np.float32))[np.random.default_rng(0).permutation(len(X))]
    return X[n_queries:], X[:n_queries]


def second_look(X, queries, ids):
    """The K nearest of candidates (q, c) by the original vectors."""
    scores = np.einsum("qcd,qd->qc", X[ids], queries)
    return np.take_along_axis(ids, np.argsort(-scores, axis=1)[:, :K], axis=1)


def as_bits(X, mean):
    return np.packbits(mean < X, axis=1)


def size_of(index):
    """Bytes of a faiss index as it would be written: an upper bound of what searching needs."""
    write = faiss.serialize_index_binary if isinstance(index, faiss.IndexBinary) else faiss.serialize_index
    return len(write(index))


def methods(X):
    """Yield the name, bytes per vector, and search(queries, candidates) -> ids of each method."""
    n, d = X.shape
    mean = X.mean(axis=0)
    bits = as_bits(X, mean)
    n_bits = d if d <= 256 else 256
    index = VectorIndex(ITQ(n_bits=n_bits, random_state=0).fit(X[:20_000]), keep="float16", n_threads=1)
    index.add(X)
    index.search(X[:1], K)
    yield (
        f"VectorIndex, ITQ {n_bits} bits",
        index.codes.nbytes / n,
        lambda queries, count: index.search(queries, K, candidates=count).ids,
    )
    flat = faiss.IndexBinaryFlat(bits.shape[1] * 8)
    flat.add(bits)
    yield (
        "sign bits, faiss binary flat",
        size_of(flat) / n,
        lambda queries, count: second_look(X, queries, flat.search(as_bits(queries, mean), count)[1]),
    )
    for name, made in (
        ("faiss RaBitQ", faiss.IndexRaBitQ(d, faiss.METRIC_INNER_PRODUCT)),
        ("faiss RaBitQ FastScan", faiss.IndexRaBitQFastScan(d, faiss.METRIC_INNER_PRODUCT)),
        ("faiss PQ FastScan", faiss.IndexPQFastScan(d, n_bits // 4, 4, faiss.METRIC_INNER_PRODUCT)),
    ):
        made.train(X[:50_000])
        made.add(X)
        yield (
            name,
            size_of(made) / n,
            lambda queries, count, made=made: second_look(X, queries, np.maximum(made.search(queries, count)[1], 0)),
        )
    graph = faiss.IndexBinaryHNSW(bits.shape[1] * 8, 16)
    graph.add(bits)

    def by_graph(queries, count):
        graph.hnsw.efSearch = count
        return second_look(X, queries, np.maximum(graph.search(as_bits(queries, mean), count)[1], 0))

    yield "sign bits, faiss binary HNSW", size_of(graph) / n, by_graph
    small = UsearchIndex(ndim=bits.shape[1] * 8, metric=MetricKind.Hamming, dtype=ScalarKind.B1)
    small.add(np.arange(n), bits, threads=1)

    def by_usearch(queries, count):
        small.expansion_search = count
        found = small.search(as_bits(queries, mean), count, threads=1).keys
        return second_look(X, queries, np.asarray(found, np.int64).reshape(len(queries), -1))

    yield "sign bits, usearch b1", small.memory_usage / n, by_usearch


def recall(found, true):
    return float(np.mean([len(np.intersect1d(a, b)) / K for a, b in zip(found, true)]))


def smallest_count(search, queries, true, target, most):
    """The smallest number of candidates, by bisection, with this recall; the largest and False if none has it."""
    counts = [count for count in COUNTS if count <= most]
    low, high = 0, len(counts) - 1
    if recall(search(queries, counts[high]), true) < target:
        return counts[high], False
    while low < high:
        middle = (low + high) // 2
        if recall(search(queries, counts[middle]), true) >= target:
            high = middle
        else:
            low = middle + 1
    return counts[low], True


def compare(data, X, queries, repeats):
    faiss.omp_set_num_threads(1)
    exact = faiss.IndexFlatIP(X.shape[1])
    exact.add(X)
    true = exact.search(queries, K)[1]
    validation, test = queries[: len(queries) // 2], queries[len(queries) // 2 :]
    rows, sides = [], {}
    for name, size, search in methods(X):
        for target in TARGETS:
            count, reached = smallest_count(search, validation, true[: len(validation)], target, len(X) // 2)
            tested = recall(search(test, count), true[len(validation) :])
            row = {"data": data, "n": len(X), "d": X.shape[1], "method": name, "target": target, "candidates": count}
            rows.append({**row, "reached": reached, "recall": tested, "bytes": size})
            sides[name, target] = partial(search, test[:100], count)
            print(rows[-1], flush=True)
    names = {str(key): key for key in sides}
    times = interleaved({name: sides[key] for name, key in names.items()}, repeats)
    for row in rows:
        row["seconds"] = times[str((row["method"], row["target"]))]
        row["queries per second"] = 100 / float(np.median(row["seconds"]))
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--thousands", type=int, default=200, help="vectors of the clustered set")
    n = 1000 * parser.parse_args().thousands
    rows = compare(f"clustered, {n:,} x 128", *clustered(n), repeats=5)
    store("vector_search", rows)
    real = caltech()
    if real is not None:
        rows += compare("Caltech-101 embeddings", *real, repeats=5)
        store("vector_search", rows)
    for row in rows:
        print(
            f"{row['data']:26} {row['method']:30} recall {row['target']}: {row['recall']:.4f} with "
            f"{row['candidates']:5} candidates, {row['bytes']:6.1f} bytes, {row['queries per second']:8.0f} queries/s"
            + ("" if row["reached"] else "  (target not reached)")
        )
