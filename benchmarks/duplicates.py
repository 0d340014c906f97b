"""Near-duplicates: the time for a million codes, and precision and recall compared with perceptual hashes.

    python -m benchmarks.duplicates [million] [photographs]

Time: 128-bit codes around a thousand centres, one in ten a copy of another with up to six bits flipped; all pairs
within radius 6, two threads. Photographs: Caltech-101 images below CBID_DATA, each with three copies made here: half
the size, JPEG quality 40, and cropped by 5 % at each side. A pair is right if both images come from one photograph.
Half of the photographs choose the threshold with the best F1 of each method, the other half is measured. `cbid` is
the hash of `cbid duplicates`; the others are those of PyPI's imagehash. `results/duplicates.json` keeps the number of
pairs at each distance.
"""

import io
import os
import sys
import time
from pathlib import Path

import imagehash
import numpy as np
from PIL import Image

from benchmarks.results import load, store
from benchmarks.search_speed import near, random_codes
from cbid.coders import LSH
from cbid.descriptors import HOG
from cbid.search import CodeIndex

KINDS = ("original", "half size", "JPEG 40", "cropped 5 %")
HASHES = {
    "phash 64": lambda image: imagehash.phash(image),
    "dhash 64": lambda image: imagehash.dhash(image),
    "average 64": lambda image: imagehash.average_hash(image),
    "wavelet 64": lambda image: imagehash.whash(image),
    "phash 256": lambda image: imagehash.phash(image, hash_size=16),
}


def million(n=10**6, n_bits=128, radius=6):
    """Seconds of `CodeIndex.pairs`, elapsed and of the processor, by "auto" and by buckets alone."""
    rng = np.random.default_rng(0)
    codes = near(rng, random_codes(rng, 1000, n_bits)[rng.integers(0, 1000, n)])
    copies = rng.choice(n, n // 10, replace=False)
    bits = np.unpackbits(codes[rng.integers(0, n, len(copies))], axis=1)
    for _ in range(radius):
        bits[np.arange(len(copies)), rng.integers(0, n_bits, len(copies))] ^= rng.random(len(copies)) < 0.5
    codes[copies] = np.packbits(bits, axis=1)
    rows = []
    for method in ("auto", "buckets"):
        index = CodeIndex(n_bits, method=method, n_threads=2)
        index.add(codes)
        began, used = time.perf_counter(), time.process_time()
        found = index.pairs(radius)
        row = {"codes": n, "bits": n_bits, "radius": radius, "method": method, "pairs": len(found)}
        row |= {"seconds": time.perf_counter() - began, "processor seconds": time.process_time() - used}
        rows.append({**row, "load": os.getloadavg()[0]})
        print(rows[-1], flush=True)
    assert rows[0]["pairs"] == rows[1]["pairs"]
    return rows


def copies_of(image):
    """The photograph and its three copies."""
    width, height = image.size
    recompressed = io.BytesIO()
    image.save(recompressed, "JPEG", quality=40)
    box = (round(0.05 * width), round(0.05 * height), round(0.95 * width), round(0.95 * height))
    half = image.resize((max(width // 2, 8), max(height // 2, 8)), Image.Resampling.BICUBIC)
    return [image, half, Image.open(recompressed).convert("RGB"), image.crop(box)]


def photographs(n):
    folder = Path(os.environ.get("CBID_DATA", "data")) / "caltech101" / "images"
    paths = sorted(folder.rglob("*.jpg"))
    for i in np.random.default_rng(0).permutation(len(paths))[:n]:
        with Image.open(paths[i]) as image:
            yield image.convert("RGB")


def photo_hashes(n):
    """The codes (n, 4, bytes) of each method for the photographs and their copies."""
    describe = HOG(size=(32, 32))
    vectors, hashes = [], {name: [] for name in HASHES}
    for image in photographs(n):
        made = copies_of(image)
        vectors.append(describe.transform([np.asarray(copy) for copy in made]))
        for name, make in HASHES.items():
            hashes[name].append([np.packbits(make(copy).hash.reshape(-1)) for copy in made])
    flat = np.concatenate(vectors)
    coder = LSH(n_bits=1024, center=False, random_state=0).fit(flat)
    return {"cbid 1024": coder.encode(flat).reshape(len(vectors), 4, -1)} | {
        k: np.array(v) for k, v in hashes.items()
    }


def pair_counts(codes, largest):
    """For each distance up to ``largest``: right pairs by kind of the copy, and wrong pairs."""
    index = CodeIndex(8 * codes.shape[2])
    index.add(codes.reshape(-1, codes.shape[2]))
    found = index.pairs(largest)
    right = found.left // 4 == found.right // 4
    of_original = right & (found.left % 4 == 0)
    distances = found.distances.astype(int)
    counts = {
        kind: np.bincount(distances[of_original & (found.right % 4 == i)], minlength=largest + 1).tolist()
        for i, kind in enumerate(KINDS)
        if i
    }
    counts["right"] = np.bincount(distances[right], minlength=largest + 1).tolist()
    counts["wrong"] = np.bincount(distances[~right], minlength=largest + 1).tolist()
    return counts


def scores(counts, n, radius):
    right, wrong = sum(counts["right"][: radius + 1]), sum(counts["wrong"][: radius + 1])
    precision, recall = right / max(right + wrong, 1), right / (6 * n)
    kinds = {kind: sum(counts[kind][: radius + 1]) / n for kind in KINDS[1:]}
    return {"radius": radius, "precision": precision, "recall": recall, "recall by kind": kinds,
            "f1": 2 * precision * recall / max(precision + recall, 1e-9)}  # fmt: skip


def compare_photographs(n=400):
    rows, half = [], n // 2
    for name, codes in photo_hashes(n).items():
        largest = codes.shape[2] * 8 // 4
        chosen, tested = pair_counts(codes[:half], largest), pair_counts(codes[half:], largest)
        radius = max(range(largest + 1), key=lambda r: scores(chosen, half, r)["f1"])
        row = {"method": name, "photographs": n - half, "best": scores(tested, n - half, radius), "counts": tested}
        if name.startswith("cbid"):
            row["default"] = scores(tested, n - half, 64)
        rows.append(row)
        print({key: value for key, value in row.items() if key != "counts"}, flush=True)
    return rows


if __name__ == "__main__":
    parts = sys.argv[1:] or ["million", "photographs"]
    results = load("duplicates", {})
    if "million" in parts:
        results["million"] = million()
    if "photographs" in parts and any(True for _ in photographs(1)):
        results["photographs"] = compare_photographs()
    store("duplicates", results)
