"""Encoding with two Dask workers, compared with numpy with two threads; and while workers are killed.

Claims: 2 million x 512 float32 with two workers give the bytes of one process, at .8 of the speed of ``coder.encode``
with two BLAS threads or more; kill -9 of a worker at ten random moments changes neither, each time.

Finished steps are kept in the raw results, so an interrupted run continues.

    python -m benchmarks.scale_encode [rows, default 2,000,000] [kills, default 10] [folder for 4 GB]
"""

import hashlib
import os
import random
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.results import Steps
from cbid.coders import ITQ
from cbid.scale import encode_to
from cbid.storage import code_files

WIDTH, N_BITS, BLOCK = 512, 128, 50_000


def made(path: Path, n: int) -> Path:
    """n vectors in 1,000 groups, written block by block."""
    if not path.exists():
        rng = np.random.default_rng(0)
        centres = rng.standard_normal((1000, WIDTH), dtype=np.float32)
        unfinished = path.with_suffix(".unfinished")
        X = np.lib.format.open_memmap(unfinished, mode="w+", dtype=np.float32, shape=(n, WIDTH))
        for start in range(0, n, BLOCK):
            size = min(BLOCK, n - start)
            X[start : start + size] = centres[rng.integers(0, 1000, size)]
            X[start : start + size] += rng.standard_normal((size, WIDTH), dtype=np.float32)
        X.flush()
        del X
        unfinished.rename(path)
    return path


def digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def removed(out: Path) -> Path:
    for path in (out, out.with_name(f"{out.name}.json")):
        path.unlink(missing_ok=True)
    return out


def timed(act) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def numpy_two_threads(source: Path, coder: ITQ, out: Path) -> dict:
    """Read from the mapped file, encoded at once, saved: what one writes without this library's streams."""
    with threadpool_limits(2, user_api="blas"):
        seconds = timed(lambda: code_files.save(removed(out), coder.encode(np.load(source, mmap_mode="r"))))
    return {"seconds": seconds, "sha256": digest(out)}


def one_process(source: Path, coder: ITQ, out: Path) -> dict:
    seconds = timed(lambda: encode_to(source, coder, removed(out)))
    return {"seconds": seconds, "sha256": digest(out)}


def two_workers(client, source: Path, coder: ITQ, out: Path) -> dict:
    seconds = timed(lambda: encode_to(source, coder, removed(out), scheduler=client))
    return {"seconds": seconds, "sha256": digest(out)}


def worker_pids(client) -> list[int]:
    """The ids of both worker processes, once both are at work; one that is killed as it starts stays dead, and
    another takes its place."""
    while True:
        client.cluster.scale(2)
        nannies = [nanny for nanny in client.cluster.workers.values() if nanny.status.name == "running"]
        if len(nannies) == len(client.nthreads()) == 2:
            return [nanny.pid for nanny in nannies]
        time.sleep(0.2)


def with_a_kill(client, source: Path, coder: ITQ, out: Path, number: int, usual: float) -> dict:
    """One of the two workers is killed at a random moment of the run."""
    rng = random.Random(number)
    moment, pick = rng.uniform(0.02, 0.9) * usual, rng.randrange(2)
    killed: list[int] = []

    pid = worker_pids(client)[pick]

    def kill() -> None:
        os.kill(pid, signal.SIGKILL)
        killed.append(pick)

    timer = threading.Timer(moment, kill)
    timer.start()
    found = two_workers(client, source, coder, out)
    timer.cancel()
    return {**found, "killed_after_seconds": moment, "killed": len(killed)}


def main() -> int:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000_000
    kills = int(sys.argv[2]) if len(sys.argv) > 2 else 10
    folder = Path(sys.argv[3] if len(sys.argv) > 3 else tempfile.gettempdir()) / "cbid_scale_encode"
    folder.mkdir(parents=True, exist_ok=True)
    import distributed

    steps = Steps("scale_encode", {"rows": n, "width": WIDTH, "n_bits": N_BITS})
    source, out = made(folder / f"{n}.npy", n), folder / "codes.npy"
    coder = ITQ(n_bits=N_BITS).fit(np.load(source, mmap_mode="r")[:20_000])
    steps.once("one process", lambda: one_process(source, coder, out))
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):
        two_workers(client, made(folder / "warm.npy", 100_000), coder, folder / "warm_codes.npy")
        for repeat in range(3):  # in turn: other load affects both
            steps.once(f"numpy, two threads, {repeat}", lambda: numpy_two_threads(source, coder, out))
            steps.once(f"two workers, {repeat}", lambda: two_workers(client, source, coder, out))
        usual = min(steps[f"two workers, {repeat}"]["seconds"] for repeat in range(3))
        for number in range(kills):
            steps.once(
                f"a worker killed, {number}", lambda k=number: with_a_kill(client, source, coder, out, k, usual)
            )
    ratios = [
        steps[f"numpy, two threads, {repeat}"]["seconds"] / steps[f"two workers, {repeat}"]["seconds"]
        for repeat in range(3)
    ]
    everything = [step for step in steps.values() if "sha256" in step]
    claims = {
        "same_bytes_everywhere": len({step["sha256"] for step in everything}) == 1,
        "speed_of_two_workers_to_numpy_with_two_threads": sorted(ratios)[1],
        "at_least_four_fifths": sorted(ratios)[1] >= 0.8,
        "workers_killed": sum(step.get("killed", 0) for step in everything),
    }
    steps.claim(claims)
    return 0 if claims["same_bytes_everywhere"] and claims["at_least_four_fifths"] else 1


if __name__ == "__main__":
    sys.exit(main())
