"""Jobs on a cluster of two worker processes give the same bytes, also when workers are killed."""

import os
import signal
import time
from contextlib import contextmanager

import numpy as np
import pytest

from cbid.descriptors import HOG
from cbid.scale import ClusterError, describe_to, encode_to
from cbid.scale.encoding import Encode

pytestmark = [
    pytest.mark.scale,
    # Dask warns about slow steps on a busy machine.
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


def test_everything_gives_the_same_bytes(npy, coder, tmp_path, client):
    images = [np.random.default_rng(i).random((24, 24)) for i in range(4)]
    address = client.scheduler.address
    for folder, scheduler in (("here", None), ("there", client), ("by_address", address)):
        out, on = tmp_path / folder, {"scheduler": scheduler, "timeout": 120}
        out.mkdir()
        encode_to(npy, coder, out / "codes.npy", ids=np.arange(1000) * 7, part_rows=90, **on)
        describe_to(images, HOG(), out / "hog.npy", part_images=2, **on)
    for other in ("there", "by_address"):
        same_files(tmp_path / "here", tmp_path / other)
    np.testing.assert_array_equal(np.load(tmp_path / "there" / "codes.ids.npy"), np.arange(1000) * 7)


class Slow(Encode):
    """Encodes slowly."""

    def __call__(self, start, stop):
        time.sleep(0.15)
        return super().__call__(start, stop)


def worker_pids(client):
    """The ids of both worker processes, once both run: a worker that is killed while it starts stays dead."""
    for _ in range(600):
        nannies = [nanny for nanny in client.cluster.workers.values() if nanny.status.name == "running"]
        if len(nannies) == len(client.nthreads()) == 2:
            return [nanny.pid for nanny in nannies]
        time.sleep(0.1)
    raise TimeoutError("the workers did not come back")


def test_a_worker_is_killed(npy, vectors, coder, tmp_path, client, monkeypatch):
    """kill -9 of one of two workers when three parts of ten are done."""
    monkeypatch.setattr("cbid.scale.encoding.Encode", Slow)
    pids, counts = worker_pids(client), []

    @contextmanager
    def killing(*_, **__):
        def count(n):
            counts.append(n)
            if len(counts) == 4:  # the first call counts the parts that existed before
                os.kill(pids[0], signal.SIGKILL)

        yield count

    monkeypatch.setattr("cbid.scale.running.image_progress", killing)
    codes = encode_to(npy, coder, tmp_path / "codes.npy", part_rows=100, scheduler=client, timeout=120)
    assert len(counts) > 4
    np.testing.assert_array_equal(codes, coder.encode(vectors[0]))
    assert not (tmp_path / "codes.npy.parts").exists()
    assert pids[0] not in worker_pids(client)


def test_an_error_of_the_task_is_raised_and_finished_parts_stay(npy, coder, tmp_path, client):
    X = np.load(npy)
    X[777] = np.nan
    np.save(npy, X)
    with pytest.raises(ValueError, match="contains NaN"):
        encode_to(npy, coder, tmp_path / "codes.npy", part_rows=100, scheduler=client, timeout=120)
    assert not (tmp_path / "codes.npy").exists()
    assert (tmp_path / "codes.npy.parts").exists()


def test_an_unreachable_scheduler_raises_in_time(npy, coder, tmp_path):
    pytest.importorskip("distributed", reason="dask is absent: pip install 'cbid[scale]'")
    began = time.monotonic()
    with pytest.raises(ClusterError, match=r"tcp://127.0.0.1:9"):
        encode_to(npy, coder, tmp_path / "codes.npy", scheduler="tcp://127.0.0.1:9", timeout=1)
    assert time.monotonic() - began < 15
    with pytest.raises(ValueError, match="scheduler=3"):
        encode_to(npy, coder, tmp_path / "codes.npy", scheduler=3)
    assert [path.name for path in tmp_path.iterdir()] == ["x.npy"]


def test_a_scheduler_without_workers(npy, coder, tmp_path):
    distributed = pytest.importorskip("distributed", reason="dask is absent: pip install 'cbid[scale]'")
    with (
        distributed.LocalCluster(n_workers=0, dashboard_address=":0") as cluster,
        pytest.raises(ClusterError, match=r"no workers"),
    ):
        encode_to(npy, coder, tmp_path / "codes.npy", scheduler=cluster.scheduler_address, timeout=0.5)


def test_busy_workers_are_accepted(npy, vectors, coder, tmp_path, client):
    """Each worker is busy for longer than the timeout."""
    busy = [client.submit(time.sleep, 6, workers=[worker], pure=False) for worker in client.nthreads()]
    time.sleep(0.5)
    codes = encode_to(npy, coder, tmp_path / "codes.npy", part_rows=500, scheduler=client, timeout=3)
    np.testing.assert_array_equal(codes, coder.encode(vectors[0]))
    client.gather(busy)


def test_a_worker_of_another_version(npy, coder, tmp_path, client, monkeypatch):
    monkeypatch.setattr("cbid.scale.running.__version__", "9.9")
    with pytest.raises(ClusterError, match=r"has cbid .*9\.9"):
        encode_to(npy, coder, tmp_path / "codes.npy", scheduler=client, timeout=120)
