"""kill -9 at random moments of add, remove and save: what was committed is there, and right.

A child process changes an index on disk and acknowledges every save over a pipe; it is killed without
warning. What the next process opens must be the state of the last acknowledged save, or of the one in flight.
The steps are drawn from (seed, step) alone, so both sides know every state. Claim: 200 kills, no failure.

    python -m benchmarks.index_durability [kills]
"""

import json
import os
import signal
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

from cbid.codes import weighted_hamming
from cbid.search import CodeIndex

N_BITS = 48
WEIGHTS = np.arange(1, N_BITS + 1) / 8
RESULTS = Path(__file__).parent / "results" / "index_durability.json"

Held = dict[int, tuple[bytes, int]]  # id: (code, label)


def step_of(seed: int, step: int, held: Held) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """What step ``step`` removes (ids) and adds (ids, codes, labels), given what is held before it."""
    rng = np.random.default_rng([seed, step])
    ids = np.fromiter(sorted(held), dtype=np.int64, count=len(held))
    # Few or many, so that commits append, merge and rewrite segments; about 3,000 codes in the long run.
    gone = rng.choice(ids, int(len(ids) * rng.choice([0, 0.01, 0.3])), replace=False)
    n = int(rng.choice([1, 20, 400, 3000], p=[0.3, 0.3, 0.3, 0.1]))
    return (
        gone,
        step * 10_000 + rng.permutation(5000)[:n],
        rng.integers(0, 256, (n, 6), dtype=np.uint8),
        np.arange(n),
    )


def after(held: Held, change: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]) -> Held:
    gone, ids, codes, labels = change
    removed = set(gone.tolist())
    kept = {id: item for id, item in held.items() if id not in removed}
    return kept | {id: (code.tobytes(), label) for id, code, label in zip(ids.tolist(), codes, labels.tolist())}


def fork() -> int:
    """os.fork, which from Python 3.12 on warns where there are threads; the child calls none of theirs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def write_until_killed(path: Path, seed: int, step: int, held: Held, acknowledge: int) -> None:
    index = CodeIndex.open(path, writable=True)
    while True:
        change = step_of(seed, step, held)
        gone, ids, codes, labels = change
        index.remove(gone)
        index.add(codes, ids, labels)
        index.save()
        os.write(acknowledge, step.to_bytes(8, "little"))
        held, step = after(held, change), step + 1


def check(path: Path, states: list[Held]) -> int | None:
    """Which of ``states`` the directory holds, with right answers to searches; None if it is none of them."""
    index = CodeIndex.open(path)
    index.verify()
    ids, codes, labels = index.ids, index.reconstruct(index.ids), index.labels
    found = {id: (code.tobytes(), label) for id, code, label in zip(ids.tolist(), codes, labels.tolist())}
    if found not in states:
        return None
    queries = np.random.default_rng(0).integers(0, 256, (3, 6), dtype=np.uint8)
    matches = index.search(queries, 10)
    table = weighted_hamming(queries, codes, WEIGHTS)
    for row, d in enumerate(table):
        order = np.lexsort((ids, d))[:10]
        if matches.ids[row, : len(order)].tolist() != ids[order].tolist():
            return None
    return states.index(found)


def run(n_kills: int, seed: int = 0) -> dict:
    """Kill ``n_kills`` writers of one index; count what each left behind."""
    rng = np.random.default_rng(seed)
    counts = {
        "kills": 0,
        "last_acknowledged": 0,
        "in_flight": 0,
        "failures": 0,
        "commits": 0,
        "killed_before_any": 0,
    }
    failures: list[str] = []
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "index"
        held: Held = {}
        index = CodeIndex(N_BITS, WEIGHTS)
        index.add(np.zeros((1, 6), np.uint8), labels=[0])
        index.save(path)
        held[0] = (bytes(6), 0)
        step = 1
        for kill in range(n_kills):
            reading, writing = os.pipe()
            child = fork()
            if child == 0:
                try:
                    write_until_killed(path, seed, step, held, writing)
                finally:
                    os._exit(1)  # only an error leads here
            os.close(writing)
            time.sleep(rng.exponential(0.15))
            os.kill(child, signal.SIGKILL)
            status = os.waitpid(child, 0)[1]
            with os.fdopen(reading, "rb") as pipe:
                acknowledged = len(pipe.read()) // 8
            counts["kills"] += 1
            counts["commits"] += acknowledged
            counts["killed_before_any"] += acknowledged == 0
            for _ in range(acknowledged):
                held, step = after(held, step_of(seed, step, held)), step + 1
            following = after(held, step_of(seed, step, held))
            try:
                which = check(path, [held, following])
            except (OSError, ValueError) as error:
                failures.append(f"kill {kill}: {error!r}")
                which = None
            if os.WIFEXITED(status):
                failures.append(f"kill {kill}: the writer ended before the kill")
                which = None
            if which is None:
                counts["failures"] += 1
                break
            counts["in_flight" if which else "last_acknowledged"] += 1
            if which:
                held, step = following, step + 1
        counts["codes_at_the_end"] = len(held)
        index = CodeIndex.open(path, writable=True)
        index.remove(index.ids[:1])
        index.save()
        manifest = json.loads((path / "manifest.json").read_text())["manifest"]
        per_segment = sum(record["removed"] is not None for record in manifest["segments"])
        expected = 3 + 4 * len(manifest["segments"]) + per_segment
        counts["files_left_over"] = len(list(path.iterdir())) - expected
        index.close()
    return {**counts, "messages": failures}


def main() -> int:
    n_kills = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    began = time.perf_counter()
    results = [run(n_kills // 4, seed) for seed in range(4)]
    totals = {name: sum(result[name] for result in results) for name in results[0] if name != "messages"}
    record = {
        "claim": "200 kill -9: always opens, never a wrong answer, nothing committed lost",
        "totals": totals,
        "seconds": round(time.perf_counter() - began, 1),
        "runs": results,
    }
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(record, indent=1) + "\n")
    print(json.dumps(totals))
    return 1 if totals["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
