"""Learning and encoding 5 million x 128 float32 (2.6 GB, mapped) under ``max_memory="2GB"``.

Claims: the measured peak of the process stays below it, for learning and for encoding; 5-NN accuracy on held-out
vectors is within half a point of the fit in memory on the same sample.

Each step runs in a process of its own; finished ones are kept in the raw results.

    python -m benchmarks.scale_memory [rows, default 5,000,000] [budget, default 2GB] [folder] [largest sample]
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.results import Steps

WIDTH, CLASSES, BLOCK, HELD_OUT, N_BITS = 128, 100, 100_000, 5_000, 64


def drawn(rng: np.random.Generator, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Vectors in 100 classes, each of five groups, whose centres are near one another."""
    centres = np.random.default_rng(1).normal(scale=0.9, size=(CLASSES * 5, WIDTH)).astype(np.float32)
    group = rng.integers(0, len(centres), size)
    return centres[group] + rng.standard_normal((size, WIDTH), dtype=np.float32), group // 5


def made(folder: Path, n: int) -> None:
    if (folder / "y.npy").exists():
        return
    X = np.lib.format.open_memmap(folder / "x.npy", mode="w+", dtype=np.float32, shape=(n, WIDTH))
    y = np.empty(n, np.int64)
    for start in range(0, n, BLOCK):
        stop = min(start + BLOCK, n)
        X[start:stop], y[start:stop] = drawn(np.random.default_rng([2, start]), stop - start)
    X.flush()
    np.save(folder / "y.npy", y)  # last: it marks both files as complete


def peak() -> int:
    """The most bytes that this process has held; its mapped files included."""
    return 1024 * int(re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[1])


def accuracy(coder, sample: tuple[np.ndarray, np.ndarray]) -> float:
    from cbid import CodeKNeighborsClassifier

    X, y = sample
    queries, wanted = drawn(np.random.default_rng(3), HELD_OUT)
    model = CodeKNeighborsClassifier(5, packed=True).fit(coder.encode(X), y)
    return float((model.predict(coder.encode(queries)) == wanted).mean())


def learn(folder: Path, budget: str, most: int | None) -> dict:
    from cbid import CBID
    from cbid.scale import fit_from

    report = fit_from(
        folder / "x.npy",
        CBID(likeness=0, kernel="linear", n_bits=N_BITS),
        labels=folder / "y.npy",
        max_memory=budget,
        max_sample=most,
    )
    found = {
        "peak": peak(),
        "budget": report.max_memory,
        "rows": report.n_rows,
        "sample": report.n_sample,
        "bytes_per_row": report.bytes_per_row,
    }
    report.coder.save(folder / "streamed.cbid")
    np.save(folder / "sample.npy", report.rows)
    return found


def encode(folder: Path, budget: str, most: int | None) -> dict:
    from cbid import load
    from cbid.scale import encode_to

    codes = encode_to(
        folder / "x.npy", load(folder / "streamed.cbid"), folder / "codes.npy", max_memory=budget, overwrite=True
    )
    return {"peak": peak(), "codes": len(codes)}


def compare(folder: Path, budget: str, most: int | None) -> dict:
    """The same sample in memory, without a budget; both coders judged on vectors that neither saw."""
    from cbid import CBID, load

    rows = np.load(folder / "sample.npy")
    X = np.load(folder / "x.npy", mmap_mode="r")[rows]
    y = np.load(folder / "y.npy")[rows]
    coder = CBID(likeness=0, kernel="linear", n_bits=N_BITS).fit(X, y)
    some = slice(0, 100_000)
    return {
        "streamed": accuracy(load(folder / "streamed.cbid"), (X[some], y[some])),
        "in_memory": accuracy(coder, (X[some], y[some])),
        "peak_in_memory": peak(),
    }


ACTS = {"learn": learn, "encode": encode, "compare": compare}


def in_fresh_process(act: str, folder: Path, budget: str, most: int | None) -> dict:
    command = [sys.executable, "-m", "benchmarks.scale_memory", "--act", act, str(folder), budget, json.dumps(most)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> int:
    if sys.argv[1:2] == ["--act"]:
        act, folder, budget, most = sys.argv[2:]
        print(json.dumps(ACTS[act](Path(folder), budget, json.loads(most))))
        return 0
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 5_000_000
    budget = sys.argv[2] if len(sys.argv) > 2 else "2GB"
    folder = Path(sys.argv[3] if len(sys.argv) > 3 else tempfile.gettempdir()) / f"cbid_scale_memory_{n}"
    most = int(sys.argv[4]) if len(sys.argv) > 4 else None
    folder.mkdir(parents=True, exist_ok=True)
    steps = Steps("scale_memory", {"rows": n, "width": WIDTH, "n_bits": N_BITS, "budget": budget, "most": most})
    made(folder, n)
    for act in ACTS:
        steps.once(act, lambda act=act: in_fresh_process(act, folder, budget, most))
    limit = steps["learn"]["budget"]
    claims = {
        "learning_stays_below": steps["learn"]["peak"] < limit,
        "encoding_stays_below": steps["encode"]["peak"] < limit,
        "accuracy_within_half_a_point": abs(steps["compare"]["streamed"] - steps["compare"]["in_memory"]) <= 0.005,
    }
    steps.claim(claims)
    return 0 if all(claims.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
