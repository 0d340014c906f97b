"""Search texts by 8 bytes each: summaries of SciPy's functions, embedded by WordLlama, learned from their packages.

python examples/texts.py [texts.png]

The weights of the embedding model are inside the package: pip install wordllama. Nothing is downloaded.
"""

import importlib
import inspect
import sys
from pathlib import Path

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import numpy as np
import wordllama
from sklearn.model_selection import train_test_split

from cbid import CBID
from cbid.coders import ITQ, SignEmbedding
from cbid.integrations import EmbeddingQuantizer

PACKAGES = ["fft", "integrate", "interpolate", "io", "linalg", "ndimage"]
PACKAGES += ["optimize", "signal", "sparse", "spatial", "special", "stats"]
QUESTION = "smooth noisy measurements"


def summaries() -> tuple[list[str], np.ndarray]:
    """Return the first paragraph of each public function of SciPy, and the package that it belongs to."""
    found = {}
    for package in PACKAGES:
        module = importlib.import_module(f"scipy.{package}")
        for name in module.__all__:
            function = getattr(module, name)
            paragraphs = (inspect.getdoc(function) or "").split("\n\n") if callable(function) else []
            text = next((" ".join(p.split()) for p in paragraphs if not p.startswith(f"{name}(")), "")
            if len(text) >= 20:
                found.setdefault(text, package)
    return list(found), np.array(list(found.values()))


def embed(texts: list[str]) -> np.ndarray:
    """Return one vector (256,) for each text; the files of the model come with the package."""
    model = wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)
    return model.embed(texts, norm=True)


def precision(quantizer: EmbeddingQuantizer, X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray):
    """Return the share of the ten nearest texts, by code, that are of the package of the query."""
    hits = quantizer.semantic_search(X_test, quantizer.quantize(X), top_k=10)
    return float(np.mean(y[[[hit["corpus_id"] for hit in row] for row in hits]] == y_test[:, None]))


def main(picture: str = "texts.png") -> None:
    texts, y = summaries()
    X = embed(texts)
    rows, test = train_test_split(np.arange(len(y)), test_size=0.3, random_state=0, stratify=y)
    data = X[rows], y[rows], X[test], y[test]
    floats = np.argsort(-X[test] @ X[rows].T, axis=1)[:, :10]
    shares = {"256 floats, 1,024 bytes": np.mean(y[rows][floats] == y[test][:, None])}
    shares["their signs, 32 bytes"] = precision(EmbeddingQuantizer(SignEmbedding()).fit(X[rows]), *data)
    shares["ITQ, 8 bytes"] = precision(EmbeddingQuantizer(ITQ(n_bits=64)).fit(X[rows]), *data)

    learned = EmbeddingQuantizer(CBID(n_bits=64)).fit(X[rows], y[rows])
    lengths = [8, 16, 24, 32, 48, 64]
    curve = [precision(EmbeddingQuantizer(learned.coder.truncate(n)), *data) for n in lengths]
    shares["learned bits, 8 bytes"] = curve[-1]
    print(f"{len(rows):,} texts learned from, {len(test)} queries: the ten nearest are of the same package")
    for name, share in shares.items():
        print(f"{name:24} {share:.1%}")

    codes = learned.quantize(X)
    print(f"\n{QUESTION}:")
    for hit in learned.semantic_search(embed([QUESTION]), codes, top_k=3, corpus_embeddings=X)[0]:
        print(f"  {hit['score']:.2f} scipy.{y[hit['corpus_id']]}: {texts[hit['corpus_id']][:80]}")

    figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
    axes.plot(lengths, [100 * share for share in curve], "o-", color="#00798c", label="learned bits")
    for (name, share), style in zip(list(shares.items())[:3], (":", "--", "-.")):
        axes.axhline(100 * share, color="k", lw=0.8, ls=style, label=name)
    axes.set(xlabel="bits", ylabel="precision of the ten nearest, %", title=f"{len(texts):,} texts of SciPy")
    axes.legend(frameon=False, loc="center right")
    figure.savefig(picture, dpi=90)


if __name__ == "__main__":
    main(*sys.argv[1:])
