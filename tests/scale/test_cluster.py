"""The same work on a cluster of two worker processes: the same bytes, also when workers are killed."""

import os
import signal
import time
from contextlib import contextmanager

import numpy as np
import pytest

from cbid.codes import pack
from cbid.descriptors import HOG
from cbid.scale import ClusterError, describe_to, encode_to, evaluate_to, mine_to
from cbid.scale.encoding import Encode

pytestmark = [
    pytest.mark.scale,
    # On a busy machine Dask tells of all that takes it long.
    pytest.mark.filterwarnings("ignore:Creating scratch directories is taking"),
]


@pytest.fixture
def npy(tmp_path, vectors):
    np.save(tmp_path / "x.npy", vectors[0])
    return tmp_path / "x.npy"


def same_files(here, there):
    names = sorted(path.name for path in here.glob("*.npy"))
    assert names
    assert names == sorted(path.name for path in there.glob("*.npy"))
    for name in names:
        assert (here / name).read_bytes() == (there / name).read_bytes()


def test_the_command(npy, vectors, tmp_path, client, capsys):
    from cbid.cli import run

    X, y = vectors
    np.savez(tmp_path / "v.npz", X=X, y=y)
    fit = ["fit", tmp_path / "v.npz", "--bits", "16", "--out", tmp_path / "p.cbid", "-q"]
    assert run([str(word) for word in fit]) == 0
    for name, more in (("here", []), ("there", ["--scheduler", client.scheduler.address])):
        encode = ["encode", npy, "--project", tmp_path / "p.cbid", "--out", tmp_path / f"{name}.npy", "-q", *more]
        assert run([str(word) for word in encode]) == 0, capsys.readouterr().err
    assert (tmp_path / "here.npy").read_bytes() == (tmp_path / "there.npy").read_bytes()


def test_everything_gives_the_same_bytes(npy, vectors, coder, tmp_path, client):
    X, y = vectors
    for name, part in (("queries", X[:50]), ("database", X)):
        np.save(tmp_path / f"{name}.npy", pack(part))
    images = [np.random.default_rng(i).random((24, 24)) for i in range(4)]
    address = client.scheduler.address
    for folder, scheduler in (("here", None), ("there", client), ("by_address", address)):
        out, on = tmp_path / folder, {"scheduler": scheduler, "timeout": 120}
        out.mkdir()
        encode_to(npy, coder, out / "codes.npy", ids=np.arange(1000) * 7, part_rows=90, **on)
        mine_to(npy, out / "near", labels=y, n_hits=2, n_misses=2, part_rows=300, **on)
        describe_to(images, HOG(), out / "hog.npy", part_images=2, **on)
        evaluate_to(
            tmp_path / "queries.npy",
            tmp_path / "database.npy",
            out / "retrieval",
            query_labels=y[:50],
            labels=y,
            n_bits=12,
            k=10,
            part_rows=20,
            **on,
        )
    for other in ("there", "by_address"):
        for part in (".", "near", "retrieval"):
            same_files(tmp_path / "here" / part, tmp_path / other / part)
    np.testing.assert_array_equal(np.load(tmp_path / "there" / "codes.ids.npy"), np.arange(1000) * 7)


class Slow(Encode):
    """The codes, after a while."""

    def __call__(self, start, stop):
        time.sleep(0.15)
        return super().__call__(start, stop)


def worker_pids(client):
    """The ids of both worker processes, once both are at work: one that is killed as it starts stays dead."""
    for _ in range(600):
        nannies = [nanny for nanny in client.cluster.workers.values() if nanny.status.name == "running"]
        if len(nannies) == len(client.nthreads()) == 2:
            return [nanny.pid for nanny in nannies]
        time.sleep(0.1)
    raise TimeoutError("the workers did not come back")


def test_a_worker_is_killed(npy, vectors, coder, tmp_path, client, monkeypatch):
    """kill -9 of one of two workers when three parts of ten are done."""
    monkeypatch.setattr("cbid.scale.encoding.Encode", Slow)
    pids, told = worker_pids(client), []

    @contextmanager
    def killing(*_, **__):
        def count(n):
            told.append(n)
            if len(told) == 4:  # the first time it is told how many were there before
                os.kill(pids[0], signal.SIGKILL)

        yield count

    monkeypatch.setattr("cbid.scale.cluster.image_progress", killing)
    codes = encode_to(npy, coder, tmp_path / "codes.npy", part_rows=100, scheduler=client, timeout=120)
    assert len(told) > 4
    np.testing.assert_array_equal(codes, coder.encode(vectors[0]))
    assert not (tmp_path / "codes.npy.parts").exists()
    assert pids[0] not in worker_pids(client)


def test_an_error_of_the_task_is_told_and_what_is_done_is_kept(npy, coder, tmp_path, client):
    X = np.load(npy)
    X[777] = np.nan
    np.save(npy, X)
    with pytest.raises(ValueError, match="contains NaN"):
        encode_to(npy, coder, tmp_path / "codes.npy", part_rows=100, scheduler=client, timeout=120)
    assert not (tmp_path / "codes.npy").exists()
    assert (tmp_path / "codes.npy.parts").exists()


def test_an_unreachable_scheduler_is_told_in_time(npy, coder, tmp_path):
    pytest.importorskip("distributed", reason="dask is absent: pip install 'cbid[scale]'")
    began = time.monotonic()
    with pytest.raises(ClusterError, match=r"no Dask scheduler answers at tcp://127.0.0.1:9 within 1 s"):
        encode_to(npy, coder, tmp_path / "codes.npy", scheduler="tcp://127.0.0.1:9", timeout=1)
    assert time.monotonic() - began < 15
    with pytest.raises(ValueError, match="scheduler=3 is not accepted"):
        encode_to(npy, coder, tmp_path / "codes.npy", scheduler=3)
    assert [path.name for path in tmp_path.iterdir()] == ["x.npy"]


def test_a_scheduler_without_workers(npy, coder, tmp_path):
    distributed = pytest.importorskip("distributed", reason="dask is absent: pip install 'cbid[scale]'")
    with (
        distributed.LocalCluster(n_workers=0, dashboard_address=":0") as cluster,
        pytest.raises(ClusterError, match=r"has no workers within 0.5 s; start some: dask worker"),
    ):
        encode_to(npy, coder, tmp_path / "codes.npy", scheduler=cluster.scheduler_address, timeout=0.5)


def test_busy_workers_are_not_refused(npy, vectors, coder, tmp_path, client):
    """Each at work for longer than the time in which it must answer."""
    busy = [client.submit(time.sleep, 6, workers=[worker], pure=False) for worker in client.nthreads()]
    time.sleep(0.5)
    codes = encode_to(npy, coder, tmp_path / "codes.npy", part_rows=500, scheduler=client, timeout=3)
    np.testing.assert_array_equal(codes, coder.encode(vectors[0]))
    client.gather(busy)


def test_a_worker_of_another_version(npy, coder, tmp_path, client, monkeypatch):
    monkeypatch.setattr("cbid.scale.cluster.__version__", "9.9")
    with pytest.raises(ClusterError, match=r"has cbid .*, this process 9.9; they must be the same"):
        encode_to(npy, coder, tmp_path / "codes.npy", scheduler=client, timeout=120)
