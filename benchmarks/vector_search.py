"""Recall, memory and speed of `VectorIndex`, compared with what people use today for vectors as bits with re-ranking.

    python -m benchmarks.vector_search [--only speed,queries,guarantee] [--sets clustered-128,...] [--thousands 1000]
                                       [--methods NAME,...] [--cache FOLDER] [--build]

- speed: sets of unit vectors, so cosine: clustered in 128 and 768 dimensions (1,000 centres), SIFT descriptors of the
  Caltech-101 photographs, and their EfficientNet embeddings (both below CBID_DATA). Each method finds candidates in
  its compressed index, then ranks them again by the original vectors: by faiss's own compiled loops over float32
  vectors, and by float16 vectors in `VectorIndex`. The number of candidates is the smallest of a list whose mean
  recall at 10 reaches the target on validation queries; with cells (IVF), probes and candidates are those that take
  the least time there. Recall and speed are those of other queries. One thread, processor time, 100 queries at once,
  the methods one after the other in random order. Bytes are those of the compressed index in memory, without the
  original vectors, which all methods need for the second look.
- queries: recall of exact cosine search, with the queries as bits and as real values.
- guarantee: 200 calibrations on fresh queries; how often the mean recall of 2,000 others is below the promise.

``--cache`` keeps the graphs, which take minutes to build; ``--build`` only builds them. ``--methods`` runs only
those whose name contains one of these texts, and keeps the other rows.
`results/vector_search.json`, `vector_queries.json` and `vector_guarantee.json` keep all.
"""

import argparse
import os
import time
from functools import partial
from pathlib import Path
from tempfile import gettempdir

import faiss
import numpy as np
from PIL import Image
from sklearn.datasets import load_digits
from threadpoolctl import threadpool_limits
from usearch.index import Index as UsearchIndex
from usearch.index import MetricKind, ScalarKind

from benchmarks.results import load, store
from benchmarks.search_speed import interleaved
from cbid import CBID, VectorIndex
from cbid.coders import ITQ, LSH
from cbid.search.scan import thread_count

TARGETS = (0.95, 0.99)
COUNTS = (10, 20, 30, 50, 80, 120, 200, 300, 500, 800, 1200, 2000, 4000, 8000)
K = 10
SETS = ("clustered-128", "clustered-768", "sift", "caltech101")
N_QUERIES = 100  # for validation, and as many for the test
CELLS = 1024
PROBES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64)


# ---- sets ----


def unit(X):
    X = np.asarray(X, np.float32)
    return X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-12)


def clustered(n, d=128, n_queries=2 * N_QUERIES):
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((1000, d), dtype=np.float32)
    X = np.empty((n + n_queries, d), np.float32)
    for first in range(0, len(X), 100_000):
        part = X[first : first + 100_000]
        part[:] = unit(centres[rng.integers(0, 1000, len(part))] + rng.standard_normal(part.shape, dtype=np.float32))
    return X[:n], X[n:]


def data_folder():
    return Path(os.environ.get("CBID_DATA", "data"))


def embeddings(name):
    """Unit vectors and classes of the images of a set below CBID_DATA, in random order; None if it is absent."""
    path = data_folder() / name / "embeddings_efficientnet_lite0.npz"
    if not path.exists():
        return None
    with np.load(path) as file:
        X, classes = unit(file["features"]), np.array([str(path).split("/")[0] for path in file["paths"]])
    order = np.random.default_rng(0).permutation(len(X))
    return X[order], classes[order]


def sift(n):
    """SIFT descriptors of the Caltech-101 photographs; queries are of other photographs."""
    from cbid.descriptors import DenseSIFT

    paths = sorted((data_folder() / "caltech101" / "images").glob("*/*.jpg"))
    if not paths:
        return None
    rng, describe = np.random.default_rng(0), DenseSIFT(step=6, sides=(24,), low_contrast="drop").describe
    values = []
    for i in rng.permutation(len(paths)):
        with Image.open(paths[i]) as image:
            values.append(describe(np.asarray(image.convert("L")))[0])
        if sum(map(len, values)) >= n + 40 * N_QUERIES:
            break
    X = np.concatenate(values)
    queries = X[: 40 * N_QUERIES][rng.permutation(40 * N_QUERIES)[: 2 * N_QUERIES]]
    return unit(X[40 * N_QUERIES : 40 * N_QUERIES + n]), unit(queries)


def vectors_of(name, n):
    """Stored vectors and queries of a set, or None if it is absent."""
    if name == "sift":
        return sift(n)
    if name == "caltech101":
        found = embeddings(name)
        return None if found is None else (found[0][2 * N_QUERIES :], found[0][: 2 * N_QUERIES])
    return clustered(n, int(name.split("-")[1]))


def cached(path, make, read, write):
    """Read a file, or make its content and write it."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write(make(), path)
    return read(path)


# ---- methods ----


class Original:
    """The original vectors, in memory once, and faiss's second look at candidates."""

    def __init__(self, X):
        self.flat = faiss.IndexFlatIP(X.shape[1])
        self.flat.add(X)
        self.X = faiss.rev_swig_ptr(self.flat.get_xb(), X.size).reshape(X.shape)

    def second_look(self, queries, ids):
        """The K nearest of candidates (q, c) by the original vectors; -1 is a missing candidate."""
        ids = np.ascontiguousarray(ids, np.int64)
        scores = np.empty(ids.shape, np.float32)
        pointers = (faiss.swig_ptr(a) for a in (queries, scores, ids))
        x, distances, labels = pointers
        self.flat.compute_distance_subset(len(queries), x, ids.shape[1], distances, labels)
        best = np.argpartition(-scores, K - 1, axis=1)[:, :K] if ids.shape[1] > K else slice(None)
        return ids if isinstance(best, slice) else np.take_along_axis(ids, best, axis=1)

    def refined(self, index):
        """Search(queries, candidates) of a faiss index with faiss's refinement."""
        made = faiss.IndexRefine(index, self.flat)

        def search(queries, count, probes):
            own = None if probes is None else faiss.SearchParametersIVF(nprobe=probes)
            params = faiss.IndexRefineSearchParameters(k_factor=count / K, base_index_params=own)
            return made.search(queries, K, params=params)[1]

        return search


def as_bits(X, mean):
    return np.packbits(mean < X, axis=1)


def size_of(index):
    """Bytes of a faiss index as it would be written: an upper bound of what searching needs."""
    write = faiss.serialize_index_binary if isinstance(index, faiss.IndexBinary) else faiss.serialize_index
    return len(write(index))


def build_hnsw(bits):
    graph = faiss.IndexBinaryHNSW(bits.shape[1] * 8, 16)
    faiss.omp_set_num_threads(thread_count(None))  # to build it; searches have one
    graph.add(bits)
    faiss.omp_set_num_threads(1)
    return graph


def build_usearch(bits):
    made = UsearchIndex(ndim=bits.shape[1] * 8, metric=MetricKind.Hamming, dtype=ScalarKind.B1)
    made.add(np.arange(len(bits)), bits, threads=thread_count(None))
    return made


def hnsw_of(bits, folder):
    """The graph of faiss over sign bits, from the folder or built."""
    return cached(
        folder / "hnsw", lambda: build_hnsw(bits),
        lambda path: faiss.read_index_binary(str(path)), lambda made, path: faiss.write_index_binary(made, str(path)),
    )  # fmt: skip


def usearch_of(bits, folder):
    """The graph of usearch over sign bits, from the folder or built."""
    return cached(
        folder / "usearch", lambda: build_usearch(bits),
        lambda path: UsearchIndex.restore(str(path)), lambda made, path: made.save(str(path)),
    )  # fmt: skip


def methods(original, folder, wanted):
    """Yield the name, bytes per vector, search(queries, candidates, probes) -> ids, and the probes of each method.

    ``wanted`` are texts, one of which a name contains. Methods with cells are for large sets.
    """
    X = original.X
    n, d = X.shape
    mean = X.mean(axis=0)
    bits = as_bits(X, mean)
    n_bits = d if d <= 256 else 256

    def asked(name):
        return any(text in name for text in wanted)

    for cells in (None, CELLS):
        name = f"VectorIndex, ITQ {n_bits} bits" + ("" if cells is None else f", {cells} cells")
        if asked(name) and (cells is None or n >= 100 * cells):
            index = VectorIndex(
                ITQ(n_bits=n_bits, random_state=0).fit(X[:20_000]), keep="float16", n_threads=1, cells=cells
            )
            index.add(X)
            index.search(X[:1])  # trains the cells

            def search(queries, count, probes, index=index):
                return index.search(queries, K, candidates=count, probes=probes).ids

            yield name, index.codes.nbytes / n, search, (None,) if cells is None else PROBES
    if asked("sign bits, faiss binary flat"):
        flat = faiss.IndexBinaryFlat(bits.shape[1] * 8)
        flat.add(bits)

        def by_scan(queries, count, probes):
            return original.second_look(queries, flat.search(as_bits(queries, mean), count)[1])

        yield "sign bits, faiss binary flat", size_of(flat) / n, by_scan, (None,)
    for name, make in (
        ("faiss RaBitQ", lambda: faiss.IndexRaBitQ(d, faiss.METRIC_INNER_PRODUCT)),
        ("faiss RaBitQ FastScan", lambda: faiss.IndexRaBitQFastScan(d, faiss.METRIC_INNER_PRODUCT)),
        ("faiss PQ FastScan", lambda: faiss.IndexPQFastScan(d, n_bits // 4, 4, faiss.METRIC_INNER_PRODUCT)),
    ):
        if asked(name):
            made = make()
            made.train(X[:50_000])
            made.add(X)
            yield name, size_of(made) / n, original.refined(made), (None,)
    if asked("faiss IVF PQ FastScan") and n >= 100 * CELLS:
        made = faiss.index_factory(d, f"IVF{CELLS},PQ{n_bits // 4}x4fs", faiss.METRIC_INNER_PRODUCT)
        made.train(X[:50_000])
        made.add(X)
        yield f"faiss IVF PQ FastScan, {CELLS} cells", size_of(made) / n, original.refined(made), PROBES
    if asked("sign bits, faiss binary HNSW"):
        graph = hnsw_of(bits, folder)

        def by_graph(queries, count, probes):
            graph.hnsw.efSearch = count
            return original.second_look(queries, graph.search(as_bits(queries, mean), count)[1])

        yield "sign bits, faiss binary HNSW", size_of(graph) / n, by_graph, (None,)
    if asked("sign bits, usearch b1"):
        small = usearch_of(bits, folder)

        def by_usearch(queries, count, probes):
            small.expansion_search = count
            found = small.search(as_bits(queries, mean), count, threads=1).keys
            return original.second_look(queries, np.asarray(found, np.int64).reshape(len(queries), -1))

        yield "sign bits, usearch b1", small.memory_usage / n, by_usearch, (None,)


# ---- speed at a recall ----


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


def fastest_setting(search, all_probes, queries, true, target, most):
    """Candidates and probes with this recall that take the least time; the largest and False if none has it."""
    best = None
    for probes in all_probes:
        run = partial(search, probes=probes)
        count, reached = smallest_count(run, queries, true, target, most)
        if not reached:
            continue
        if len(all_probes) == 1:
            return count, probes, True
        times = interleaved({"": partial(run, queries, count)}, 3)[""]
        best = min(best or (np.inf,), (min(times), count, probes))
    return (count, all_probes[-1], False) if best is None else (*best[1:], True)


def compare(name, X, queries, folder, wanted, repeats=5):
    faiss.omp_set_num_threads(1)
    original = Original(X)
    del X
    true = original.flat.search(queries, K)[1]
    validation, test = queries[:N_QUERIES], queries[N_QUERIES:]
    rows, sides = [], {}
    n, d = original.X.shape
    for method, size, search, all_probes in methods(original, folder, wanted):
        for target in TARGETS:
            count, probes, reached = fastest_setting(search, all_probes, validation, true[:N_QUERIES], target, n // 2)
            tested = recall(search(test, count, probes), true[N_QUERIES:])
            row = {"data": name, "n": n, "d": d, "method": method, "target": target, "candidates": count}
            rows.append({**row, "probes": probes, "reached": reached, "recall": tested, "bytes": size})
            sides[f"{method}, {target}"] = partial(search, test, count, probes)
            print(rows[-1], flush=True)
    times = interleaved(sides, repeats)
    for row in rows:
        row["seconds"] = times[f"{row['method']}, {row['target']}"]
        row["queries per second"] = N_QUERIES / float(np.median(row["seconds"]))
    return rows


def speed(names, n, folder, wanted):
    rows = load("vector_search", [])
    for name in names:
        given = vectors_of(name, n)
        if given is None:
            print(f"{name} is absent")
            continue
        with threadpool_limits(1, user_api="blas"):
            made = compare(name, *given, folder / f"{name}-{n}", wanted)
        new = {(row["data"], row["method"]) for row in made}
        rows = [row for row in rows if (row["data"], row["method"]) not in new] + made
        store("vector_search", rows)
    for row in rows:
        probes = "" if row.get("probes") is None else f"{row['probes']} probes, "
        print(
            f"{row['data']:14} {row['method']:38} recall {row['target']}: {row['recall']:.4f} with "
            f"{row['candidates']:5} candidates, {probes}{row['bytes']:6.1f} bytes, "
            f"{row['queries per second']:8.0f} queries/s" + ("" if row["reached"] else "  (target not reached)")
        )


def build(names, n, folder):
    for name in names:
        given = vectors_of(name, n)
        if given is not None:
            bits = as_bits(given[0], given[0].mean(axis=0))
            for make in (hnsw_of, usearch_of):
                began = time.perf_counter()
                make(bits, folder / f"{name}-{n}")
                print(f"{name} {make.__name__}: {time.perf_counter() - began:.0f} s", flush=True)


# ---- real-valued queries, and the guarantee ----


def compare_queries(n_queries=300):
    """Recall at K of bits and of real values against stored bits, alone and within 50 candidates, and classes."""
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    sets = {"digits": (unit(X[order]), y[order].astype(str)), "scene15": embeddings("scene15")}
    rows = []
    for name, given in sets.items():
        if given is None:
            continue
        X, y = given
        flat = faiss.IndexFlatIP(X.shape[1])
        flat.add(X[n_queries:])
        true = flat.search(X[:n_queries], K)[1]
        for coder in (CBID(n_bits=64, kernel="linear"), ITQ(n_bits=32, random_state=0), LSH(n_bits=256)):
            coder.fit(X[n_queries:], y[n_queries:])
            for asymmetric in (False, True):
                index = VectorIndex(coder, asymmetric=asymmetric, n_threads=1)
                index.add(X[n_queries:])
                found = index.search(X[:n_queries], 50).ids
                row = {"data": name, "coder": type(coder).__name__, "bits": coder.n_bits_, "real": asymmetric}
                row["recall"] = recall(found[:, :K], true)
                row["within 50"] = recall(found, true)
                row["same class"] = float(np.mean(y[n_queries:][found[:, :K]] == y[:n_queries, None]))
                rows.append(row)
                print(row, flush=True)
    store("vector_queries", rows)


def guarantee(n_calibrations=200, n=2000, n_tests=2000, delta=0.05):
    """Calibrate on fresh queries again and again; the recall of other queries is what was promised or not."""
    X, queries = clustered(n, 32, n_tests + n_calibrations * 100)
    index = VectorIndex(LSH(n_bits=64, random_state=0).fit(X), keep="float16", n_threads=1)
    index.add(X)
    test, rest = queries[:n_tests], queries[n_tests:].reshape(n_calibrations, 100, -1)
    true = index.search(test, K, candidates=n).ids
    at, rows = {}, []
    for target in (0.8, 0.9):
        chosen = [index.calibrate(target, K, given, delta=delta).candidates for given in rest]
        for count in set(chosen) - set(at):
            at[count] = recall(index.search(test, K, candidates=count).ids, true)
        broken = sum(at[count] < target for count in chosen)
        rows.append({"recall": target, "delta": delta, "queries": 100, "n": n, "tests": n_tests, "broken": broken})
        rows[-1] |= {"candidates": chosen, "recalls": [at[count] for count in chosen]}
        print(f"recall {target}, delta {delta}: {broken} of {n_calibrations} promises broken", flush=True)
    store("vector_guarantee", rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="speed,queries,guarantee")
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--thousands", type=int, default=1000, help="vectors of the large sets")
    parser.add_argument("--cache", type=Path, default=Path(gettempdir()) / "cbid-vector-search")
    parser.add_argument("--methods", default="", help="texts, one of which the name of a method contains")
    parser.add_argument("--build", action="store_true", help="only build the graphs")
    arguments = parser.parse_args()
    names, size = arguments.sets.split(","), 1000 * arguments.thousands
    if arguments.build:
        build(names, size, arguments.cache)
    else:
        parts = {
            "speed": partial(speed, names, size, arguments.cache, arguments.methods.split(",")),
            "queries": compare_queries,
        }
        for part in arguments.only.split(","):
            {**parts, "guarantee": guarantee}[part]()
