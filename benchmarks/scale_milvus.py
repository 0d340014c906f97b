"""A million learned codes of 128 bits in a real Milvus server, compared with the embedded index.

Measured: recall at 10 of the weighted re-rank against the exact index, for 10 to 1,000 candidates, with the times of
both. Claims: a kill -9 of the server in the middle of the insertion loses nothing that was acknowledged, and removed
ids stay removed after another one.

The coder has penalty="l1", under which weights differ; where they are equal, the nearest by Hamming distance are the
answer already. Exponentially distributed weights on the same codes are the hard case.

Finished steps are kept in the raw results, so an interrupted run continues; the server is filled each time.

    python -m benchmarks.scale_milvus [codes, default 1,000,000] [folder]
"""

import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.milvus_server import VERSION, MilvusServer
from benchmarks.results import Steps
from cbid import CBID, CodeIndex
from cbid.search.stores import MilvusStore

WIDTH, N_CLASSES, PARTS, N_BITS, SAMPLE, QUERIES = 64, 50, 2, 128, 4_000, 200
CANDIDATES = (10, 20, 50, 100, 200, 500, 1000)
TARGETS = (0.9, 0.95, 0.99)
BLOCK = 100_000


def vectors(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """n vectors of 50 classes that overlap; each is two groups around centres that lie anywhere."""
    centres = 0.7 * np.random.default_rng(0).standard_normal((N_CLASSES, PARTS, WIDTH), dtype=np.float32)
    rng = np.random.default_rng([1, seed])
    y, part = rng.integers(0, N_CLASSES, n), rng.integers(0, PARTS, n)
    return centres[y, part] + rng.standard_normal((n, WIDTH), dtype=np.float32), y


def timed(act) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def best(act, repeats: int = 3) -> float:
    return min(timed(act) for _ in range(repeats))


class Made:
    """Learned coder, codes and labels of the database, codes of further vectors as queries, and the exact index."""

    def __init__(self, n: int) -> None:
        X, y = vectors(SAMPLE, 1)
        self.coder = CBID(likeness=0, kernel="linear", n_bits=N_BITS, penalty="l1", nu=1e-3, random_state=0).fit(X, y)
        blocks = [(min(BLOCK, n - start), 100 + start) for start in range(0, n, BLOCK)]
        made = [(self.coder.encode(X), y) for X, y in (vectors(size, seed) for size, seed in blocks)]
        self.codes = np.concatenate([codes for codes, _ in made])
        self.labels = np.concatenate([y for _, y in made])
        self.ids = np.random.default_rng(2).permutation(2 * n)[:n]  # in no order
        further, self.query_labels = vectors(QUERIES, 2)
        self.queries = self.coder.encode(further)
        self.index = CodeIndex(N_BITS, self.coder.weights_, n_threads=1)
        self.index.add(self.codes, self.ids, self.labels)


def filled(server: MilvusServer, made: Made) -> dict:
    """Insert all, the server killed when half is acknowledged and started again five seconds later."""
    n = len(made.ids)
    half = n // 2
    with MilvusStore.create(
        server.address("codes"), N_BITS, made.coder.weights_, labels="int", overwrite=True, timeout=300
    ) as store:
        first = timed(lambda: store.upsert(made.codes[:half], made.ids[:half], made.labels[:half]))

        def second() -> None:
            killer = threading.Timer(first / 4, server.kill)
            killer.start()
            starting = threading.Timer(first / 4 + 5, server.start, kwargs={"wait": False})
            starting.start()
            store.upsert(made.codes[half:], made.ids[half:], made.labels[half:])
            killer.join()
            starting.join()

        second_seconds = timed(second)
        flush = timed(store.flush)
        found = store.ids
    return {
        "codes": n,
        "codes_per_second": half / first,
        "second_half_with_a_kill_seconds": second_seconds,
        "flush_seconds": flush,
        "lost": int(np.setdiff1d(made.ids, found).size),
        "twice_or_unknown": int(len(found) - np.isin(found, made.ids).sum() + len(found) - np.unique(found).size),
    }


def recall(server: MilvusServer, made: Made, weights: np.ndarray | None) -> dict:
    own = made.coder.weights_ if weights is None else weights
    with MilvusStore.open(server.address("codes"), timeout=120) as store:
        measured = store.measure_recall(made.queries, 10, CANDIDATES, weights=weights, exact=made.index)
    return {
        "recall_at_10": {str(c): r for c, r in measured.items()},
        "candidates_for_recall": {
            str(t): min((c for c, r in measured.items() if r >= t), default=None) for t in TARGETS
        },
        "deviation_of_weights_to_their_mean": float(own.std() / own.mean()),
    }


def times(server: MilvusServer, made: Made, consistency: str) -> dict:
    """Seconds of one query alone, and for each of a batch."""
    found = {}
    with MilvusStore.open(server.address("codes"), timeout=120, consistency=consistency) as store:
        store.search(made.queries[0], candidates=10)
        for c in CANDIDATES:
            alone = [timed(lambda q=q, c=c: store.search(q, candidates=c)) for q in made.queries[:20]]
            batch = best(lambda c=c: store.search(made.queries, candidates=c), 2)
            found[str(c)] = {"one_query_seconds": float(np.median(alone)), "of_a_batch_seconds": batch / QUERIES}
    return found


def exact_times(made: Made) -> dict:
    made.index.search(made.queries)
    alone = [timed(lambda q=q: made.index.search(q)) for q in made.queries[:20]]
    batch = best(lambda: made.index.search(made.queries)) / QUERIES
    votes = [np.bincount(labels, minlength=N_CLASSES).argmax() for labels in made.index.search(made.queries).labels]
    return {
        "one_query_seconds": float(np.median(alone)),
        "of_a_batch_seconds": batch,
        "accuracy_of_the_10_nearest": float(np.mean(votes == made.query_labels)),
    }


def removed(server: MilvusServer, made: Made) -> dict:
    """Remove a hundredth, kill the server at once, start it again, and look for them."""
    gone = made.ids[:: max(1, len(made.ids) // 10_000)]
    asked = made.codes[:: max(1, len(made.ids) // 10_000)][:1000]
    with MilvusStore.open(server.address("codes"), timeout=300) as store:
        seconds = timed(lambda: store.remove(gone))
        before = int(np.isin(store.search(asked, 10, candidates=10).ids, gone).sum())
        server.kill()
        server.start()
        after = int(np.isin(store.search(asked, 10, candidates=10).ids, gone).sum())
        left = store.ids
    return {
        "removed": len(gone),
        "remove_seconds": seconds,
        "found_before_the_kill": before,
        "found_after_it": after,
        "stored_after_it": int(np.isin(left, gone).sum()),
        "lost": int(np.setdiff1d(np.setdiff1d(made.ids, gone), left).size),
    }


def main() -> int:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    steps = Steps("scale_milvus", {"codes": n, "n_bits": N_BITS, "width": WIDTH, "milvus": VERSION})
    with (
        threadpool_limits(1),
        tempfile.TemporaryDirectory(dir=sys.argv[2] if len(sys.argv) > 2 else None) as folder,
        MilvusServer(Path(folder)) as server,
    ):
        made = Made(n)
        steps.pop("filled", None)  # the server is empty
        steps.once("filled", lambda: filled(server, made))
        hard = np.random.default_rng(3).exponential(size=N_BITS)
        steps.once("recall, learned weights", lambda: recall(server, made, None))
        steps.once("recall, exponential weights", lambda: recall(server, made, hard))
        steps.once("embedded index, one thread", lambda: exact_times(made))
        for consistency in ("Bounded", "Strong"):
            steps.once(f"Milvus, {consistency}", lambda c=consistency: times(server, made, c))
        steps.once("removed", lambda: removed(server, made))
    claims = {
        "nothing_acknowledged_is_lost": steps["filled"]["lost"] == steps["removed"]["lost"] == 0,
        "nothing_removed_comes_back": steps["removed"]["found_after_it"] == steps["removed"]["stored_after_it"] == 0,
    }
    steps.claim(claims)
    return 0 if all(claims.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
