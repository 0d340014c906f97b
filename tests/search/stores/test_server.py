"""A real server, killed and started again: nothing that it acknowledged is lost, nothing removed comes back."""

import os
import threading
import time

import numpy as np
import pytest

from benchmarks.milvus_server import VARIABLE, MilvusServer, NotInstalled
from cbid.search.stores import MilvusError, MilvusStore
from tests.search.stores.conftest import same

pytestmark = pytest.mark.scale


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Skipped where the server cannot be installed, unless it was asked for by naming its folder."""
    pytest.importorskip("pymilvus", reason="pymilvus is absent: pip install 'cbid[milvus]'")
    try:
        made = MilvusServer(tmp_path_factory.mktemp("server"))
    except NotInstalled as error:
        if VARIABLE in os.environ:
            raise
        pytest.skip(str(error))
    with made:
        yield made


def test_the_answers_of_the_exact_index(server, stored):
    with MilvusStore.create(server.address("filled"), 61, stored.weights, labels="str") as store:
        store.add(stored.codes, stored.ids, stored.labels)
        index, queries = stored.index(), stored.codes[:9] ^ np.uint8(0b01000000)
        for how in ({}, {"weighted": False}, {"labels": np.unique(stored.labels)[1:4]}):
            same(store.search(queries, 12, candidates=600, **how), index.search(queries, 12, **how))
        store.flush()
        same(store.search(queries, 12, candidates=600), index.search(queries, 12))
        chosen = store.choose_candidates(0.9, queries, exact=index)
        store.remove(stored.ids[:100])
        index.remove(stored.ids[:100])
        same(store.search(queries, 12, candidates=600), index.search(queries, 12))
    with MilvusStore.open(server.address("filled"), consistency="Session") as store:
        assert store.candidates == {10: chosen}
        assert len(store) == 500
        np.testing.assert_array_equal(store.ids, np.sort(stored.ids[100:]))
        same(store.search(queries, 12, candidates=600), index.search(queries, 12))


def test_cells(server, stored):
    """With all cells scanned, exact; the number of cells is kept."""
    address = server.address("with_cells")
    with MilvusStore.create(address, 61, stored.weights, labels="str", cells=8, probes=8) as store:
        store.add(stored.codes, stored.ids, stored.labels)
    with MilvusStore.open(address) as store:
        same(store.search(stored.codes[:5], candidates=600), stored.index().search(stored.codes[:5]))


def test_killed_in_the_middle_of_an_insertion(server):
    """kill -9 while batches are written, then a restart: the call continues and ends, and nothing is missing. What
    was removed before stays removed, and what was stored before is still stored."""
    rng = np.random.default_rng(0)
    codes, ids = rng.integers(0, 256, (60_000, 16), dtype=np.uint8), rng.permutation(60_000)
    with MilvusStore.create(server.address("killed"), 128, timeout=120) as store:
        store.add(codes[:10_000], ids[:10_000])
        store.remove(ids[:500])
        written = store._collection.upsert(store._as_rows(codes[10_000:], ids[10_000:], None))
        assert next(written) == 10_000
        server.kill()
        starter = threading.Timer(3, server.start, kwargs={"wait": False})
        starter.start()
        assert sum(written) == 40_000
        starter.join()
        assert len(store) == 59_500
        np.testing.assert_array_equal(store.ids, np.sort(ids[500:]))
        found = store.search(codes[[0, 499, 500, 10_000, 59_999]], 1)
        assert found.ids[2:, 0].tolist() == ids[[500, 10_000, 59_999]].tolist()
        assert found.distances[2:, 0].tolist() == [0, 0, 0]
        assert not np.isin(found.ids[:2], ids[:500]).any()


def test_a_dead_server_is_reported_in_time_and_loses_nothing(server, stored):
    """Killed right after an addition and a removal were acknowledged, with nothing flushed and nothing closed."""
    address = server.address("dying")
    with MilvusStore.create(address, 61, labels="str", timeout=60) as store:
        store.add(stored.codes, stored.ids, stored.labels)
    with MilvusStore.open(address, timeout=3) as store:
        store.remove(stored.ids[:50])
        store.upsert(stored.codes[50:60] ^ np.uint8(128), stored.ids[50:60], stored.labels[50:60])
        server.kill()
        for act in (
            lambda: store.search(stored.codes[:2]),
            lambda: store.upsert(stored.codes[:1], [9999], ["lost"]),
            lambda: store.remove(stored.ids[60:61]),
        ):
            began = time.monotonic()
            with pytest.raises(MilvusError, match=r"/dying: Milvus did not .* within 3 s"):
                act()
            assert time.monotonic() - began < 12
        server.start()
    with MilvusStore.open(address, timeout=120) as store:
        np.testing.assert_array_equal(store.ids, np.sort(stored.ids[50:]))
        np.testing.assert_array_equal(store.reconstruct(stored.ids[50:60]), stored.codes[50:60] ^ np.uint8(128))
        assert not np.isin(store.search(stored.codes[:50], 20).ids, stored.ids[:50]).any()


def test_an_older_server(server, monkeypatch):
    monkeypatch.setattr("pymilvus.MilvusClient.get_server_version", lambda self, **_: "v2.2.16")
    with pytest.raises(MilvusError, match=r"version v2\.2\.16"):
        MilvusStore.open(server.address("filled"))
