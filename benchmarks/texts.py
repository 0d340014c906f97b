"""Do learned bits help with texts? The data of examples/texts.py in five random splits.

1,203 first paragraphs of SciPy's documentation (of the version in constraints.txt), embedded by WordLlama (256
floats, unit length). 70 % are learned from and searched; the rest are queries. Measured: the share of the ten nearest
that are of the package of the query, and the accuracy of the nearest. Settings are defaults, not tuned on these data.

    python -m benchmarks.texts
"""

import runpy
import time
from pathlib import Path

import numpy as np
from sklearn.model_selection import train_test_split

from benchmarks.results import store
from cbid import CBID
from cbid.coders import ITQ, SignEmbedding
from cbid.integrations import EmbeddingQuantizer

SEEDS = range(5)
PAIRS = 2_000
EXAMPLE = Path(__file__).parents[1] / "examples" / "texts.py"


def same_package(y, rng):
    """Return pairs of rows of the same package."""
    left = rng.integers(0, len(y), PAIRS)
    right = np.array([rng.choice(np.flatnonzero(y == y[i])) for i in left])
    return np.stack([left, right], axis=1)[left != right]


def methods(X, y, seed):
    """Yield name, bytes for a text, and the fitted quantiser."""
    pairs = same_package(y, np.random.default_rng(seed))
    yield "signs", 32, lambda: EmbeddingQuantizer(SignEmbedding()).fit(X)
    yield "ITQ", 8, lambda: EmbeddingQuantizer(ITQ(n_bits=64)).fit(X)
    yield "ITQ", 32, lambda: EmbeddingQuantizer(ITQ(n_bits=256)).fit(X)
    yield "CBID, no labels", 8, lambda: EmbeddingQuantizer(CBID(n_bits=64)).fit(X)
    yield "CBID, pairs", 8, lambda: EmbeddingQuantizer(CBID(n_bits=64)).fit(X, pairs=pairs)
    yield "CBID, labels", 8, lambda: EmbeddingQuantizer(CBID(n_bits=64)).fit(X, y)


def main():
    example = runpy.run_path(str(EXAMPLE))
    texts, y = example["summaries"]()
    X = example["embed"](texts)
    results = []
    for seed in SEEDS:
        rows, test = train_test_split(np.arange(len(y)), test_size=0.3, random_state=seed, stratify=y)

        def measure(name, n_bytes, found, seconds, seed=seed, rows=rows, test=test):
            same = y[rows][found] == y[test][:, None]
            result = {"seed": seed, "method": name, "bytes": n_bytes, "texts": len(rows), "queries": len(test)}
            result |= {"p10": same.mean(), "nearest": same[:, 0].mean(), "fit_seconds": seconds}
            results.append(result)

        measure("floats", 1024, np.argsort(-X[test] @ X[rows].T, axis=1, kind="stable")[:, :10], 0.0)
        for name, n_bytes, fit in methods(X[rows], y[rows], seed):
            start = time.process_time()
            quantizer = fit()
            seconds = time.process_time() - start
            hits = quantizer.semantic_search(X[test], quantizer.quantize(X[rows]), top_k=10)
            measure(name, n_bytes, np.array([[hit["corpus_id"] for hit in row] for row in hits]), seconds)
    store("texts", results)
    for key in dict.fromkeys((r["method"], r["bytes"]) for r in results):
        of = [r for r in results if (r["method"], r["bytes"]) == key]
        p10, nearest = ([r[name] for r in of] for name in ("p10", "nearest"))
        print(
            f"{key[0]:16} {key[1]:5} bytes  P@10 {np.mean(p10):.3f} ± {np.std(p10):.3f}"
            f"  nearest {np.mean(nearest):.3f}  fit {np.mean([r['fit_seconds'] for r in of]):.1f} s of the processor"
        )


if __name__ == "__main__":
    main()
