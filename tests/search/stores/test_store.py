"""The store on an embedded Milvus, beside the exact index: with all codes as candidates, the same answers."""

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from cbid.search import CodeIndex, UnknownIdError
from cbid.search.stores import MilvusError, MilvusStore
from tests.search.stores.conftest import NAMES, same

ALL = 600


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"weighted": False},
        {"labels": [NAMES[0]]},
        {"labels": NAMES[[1, 2]]},
        {"labels": [NAMES[3]]},
        {"labels": [NAMES[4]]},
        {"labels": [""]},
        {"labels": ["of no code"]},
        {"labels": []},
        {"weights": np.arange(61.0)},
        {"weights": np.random.default_rng(3).random((9, 61))},
    ],
)
def test_the_answers_of_the_exact_index(filled, stored, how):
    queries = stored.codes[:9] ^ np.uint8(0b01000000)
    same(filled.search(queries, 12, candidates=ALL, **how), stored.index().search(queries, 12, **how))


def test_more_than_there_are(filled, stored):
    same(filled.search(stored.codes[0], 700), stored.index().search(stored.codes[0], 700))


def test_few_candidates_are_the_nearest_by_hamming_distance(filled, stored):
    """Of 30 candidates the weighted nearest are among the 30 nearest under plain Hamming distance."""
    found = filled.search(stored.codes[:5], 10, candidates=30)
    plain = stored.index().search(stored.codes[:5], ALL, weighted=False)
    exact = stored.index().search(stored.codes[:5], ALL)
    for query in range(5):
        distance = dict(zip(plain.ids[query].tolist(), plain.distances[query].tolist()))
        weighted = dict(zip(exact.ids[query].tolist(), exact.distances[query].tolist()))
        assert max(distance[id] for id in found.ids[query].tolist()) <= plain.distances[query, 29]
        assert [weighted[id] for id in found.ids[query].tolist()] == found.distances[query].tolist()


def test_what_there_is(filled, stored):
    assert len(filled) == 600
    np.testing.assert_array_equal(filled.ids, np.sort(stored.ids))
    np.testing.assert_array_equal(filled.reconstruct(stored.ids[[5, 2, 5]]), stored.codes[[5, 2, 5]])
    assert int(stored.ids[0]) in filled
    assert 9000 not in filled
    assert -10 not in filled
    assert "5" not in filled
    np.testing.assert_array_equal(filled.weights, stored.weights)
    same(filled.to_index().search(stored.codes[:3]), stored.index().search(stored.codes[:3]))


@pytest.mark.parametrize("kind", ["int", "bool", None])
def test_other_labels(lite, stored, kind):
    labels = {"int": stored.ids % 5 - 2, "bool": stored.ids % 2 == 1, None: None}[kind]
    index = CodeIndex(61, n_threads=1)
    index.add(stored.codes, stored.ids, labels)
    with MilvusStore.create(lite + "other_labels", 61, labels=kind, overwrite=True) as store:
        store.add(stored.codes, stored.ids, labels)
        same(store.search(stored.codes[:4], candidates=ALL), index.search(stored.codes[:4]))
        if kind is not None:
            only = labels[:1]
            same(
                store.search(stored.codes[:4], 5, candidates=ALL, labels=only),
                index.search(stored.codes[:4], 5, labels=only),
            )
        else:
            with pytest.raises(ValueError, match="labels is given"):
                store.search(stored.codes[:4], labels=[1])


def test_weights_for_each_class(lite, stored):
    classes = np.sort(NAMES)
    by_class = np.random.default_rng(1).random((61, len(classes)))
    with MilvusStore.create(lite + "by_class", 61, by_class, classes=classes) as store:
        assert store.labels == "str"
        store.add(stored.codes, stored.ids, stored.labels)
        index = stored.index(weights=by_class, classes=classes)
        same(store.search(stored.codes[:4], candidates=ALL), index.search(stored.codes[:4]))
        same(store.to_index().search(stored.codes[:4]), index.search(stored.codes[:4]))


def test_remove_add_and_open_again(lite, stored):
    address = lite + "changed"
    index = stored.index()
    with MilvusStore.create(address, 61, stored.weights, labels="str", made_by="a test") as store:
        store.add(stored.codes, stored.ids, stored.labels)
        gone = stored.ids[:200]
        store.remove(gone)
        index.remove(gone)
        same(store.search(stored.codes[:50], candidates=ALL), index.search(stored.codes[:50]))
        with pytest.raises(UnknownIdError, match=f"ids holds {np.sort(gone)[0]} and 1 more"):
            store.remove([*np.sort(gone)[:2], stored.ids[300]])
        assert int(stored.ids[300]) in store
        store.add(stored.codes[:10] ^ np.uint8(128), gone[:10], stored.labels[:10])
        index.add(stored.codes[:10] ^ np.uint8(128), gone[:10], stored.labels[:10])
    with MilvusStore.open(address) as store:
        assert (store.n_bits, store.labels, store.made_by, len(store)) == (61, "str", "a test", 410)
        same(store.search(stored.codes[:50], candidates=ALL), index.search(stored.codes[:50]))


def test_closing_twice_and_two_at_a_time(lite):
    """The process of a file ends with the last that has it open."""
    first, second = MilvusStore.open(lite + "held_open"), MilvusStore.open(lite + "held_open")
    first.close()
    first.close()
    with pytest.raises(ValueError, match="held_open is closed"):
        len(first)
    assert len(second) == 0
    second.close()
    with MilvusStore.open(lite + "held_open") as again:
        assert len(again) == 0


def test_an_upsert_replaces_and_may_be_repeated(lite, stored):
    with MilvusStore.create(lite + "upserted", 61, labels="str") as store:
        for _ in range(2):
            store.upsert(stored.codes, stored.ids, stored.labels)
        assert len(store) == 600
        store.upsert(stored.codes[:1] ^ np.uint8(128), stored.ids[:1], ["new"])
        assert len(store) == 600
        found = store.search(stored.codes[0] ^ np.uint8(128), 1)
        assert (found.ids[0, 0], found.distances[0, 0], found.labels[0, 0]) == (stored.ids[0], 0, "new")
        store.flush()


def test_bad_additions_change_nothing(filled, stored):
    codes, ids, labels = stored.codes[:2], np.array([9001, 9002]), ["a", "b"]
    for wrong, message in [
        ((codes, [9001, stored.ids[0]], labels), f"ids holds {stored.ids[0]}, already stored"),
        ((codes, [9001, 9001], labels), "ids holds 9001 more than once"),
        ((codes, [9001, -1], labels), "ids holds -1"),
        ((codes, [9001], labels), "ids has 1 entries"),
        ((codes, ids, ["a"]), "labels has 1 entries"),
        ((codes, ids), "labels=None"),
        ((codes[:, :5], ids, labels), "codes"),
        ((codes | np.uint8(1), ids, labels), "bits set past bit 61"),
    ]:
        with pytest.raises(ValueError, match=message):
            filled.add(*wrong)
    assert len(filled) == 600
    filled.add(codes[:0], ids[:0], [])
    assert len(filled) == 600


def test_bad_searches(filled, stored):
    for how, message in [
        ({"k": 0}, "k=0"),
        ({"k": 20_000}, "k=20000"),
        ({"candidates": 0}, "candidates=0"),
        ({"candidates": 20_000}, "candidates=20000"),
        ({"weights": np.ones(60)}, "weights has shape"),
        ({"weights": np.ones(61), "weighted": False}, "weighted=False"),
    ]:
        with pytest.raises(ValueError, match=message):
            filled.search(stored.codes[:2], **how)
    with pytest.raises(ValueError, match="codes"):
        filled.search(stored.codes[:, :4])
    with pytest.raises(TypeError, match="labels has values of kind int"):
        filled.search(stored.codes[:2], labels=[3])
    assert filled.search(stored.codes[:0]).ids.shape == (0, 10)


# Recall


def test_recall_grows_to_one_and_is_what_searches_reach(filled, stored):
    index, queries = stored.index(), stored.codes[::20] ^ np.uint8(0b00101000)
    measured = filled.measure_recall(queries, candidates=(10, 30, ALL), exact=index)
    assert list(measured) == [10, 30, ALL]
    assert measured[10] < measured[30] < measured[ALL] == 1
    furthest = index.search(queries).distances[:, -1:]
    for candidates, recall in measured.items():
        found = filled.search(queries, candidates=candidates).distances <= furthest
        assert found.mean() == pytest.approx(recall)
    others = np.random.default_rng(2).random(61)
    other = filled.measure_recall(queries, candidates=[10], weights=others, exact=index)[10]
    exact, found = index.search(queries, weights=others), filled.search(queries, weights=others, candidates=10)
    assert other == pytest.approx((found.distances <= exact.distances[:, -1:]).mean())
    assert filled.measure_recall(30, candidates=[10]) == filled.measure_recall(30, candidates=[10], exact=index)


def test_chosen_candidates_are_kept_with_the_collection(lite, stored):
    address = lite + "chosen"
    with MilvusStore.create(address, 61, stored.weights, labels="str") as store:
        store.add(stored.codes, stored.ids, stored.labels)
        measured = store.measure_recall(50)
        chosen = store.choose_candidates(0.9, 50)
        assert chosen == min(c for c, recall in measured.items() if recall >= 0.9)
        assert chosen < 500
        with pytest.raises(ValueError, match=r"target=1: not reached, 20 candidates have recall 0\.\d+"):
            store.choose_candidates(1, 50, candidates=[10, 20])
        assert store.choose_candidates(0.1, 50, k=20) == 20  # ten would do, but not for 20 answers
        with pytest.raises(ValueError, match=r"candidates=\(10, 15\).*k=20"):
            store.choose_candidates(0.1, 50, k=20, candidates=[10, 15])
        chosen_for_20 = store.choose_candidates(0.9, 50, k=20)
        assert chosen_for_20 > chosen
    with MilvusStore.open(address) as store:
        assert store.candidates == {10: chosen, 20: chosen_for_20}
        assert len(store) == 600  # what is kept is no code, and is never found
        assert store.search(stored.codes[:50], 5, candidates=ALL).ids.min() >= 0
        same(store.search(stored.codes[:9], 7), store.search(stored.codes[:9], 7, candidates=chosen))
        # past the largest k, in proportion
        more = 3 * chosen_for_20
        same(store.search(stored.codes[:9], 60), store.search(stored.codes[:9], 60, candidates=more))


def test_recall_of_nothing(lite, filled, stored):
    with (
        MilvusStore.create(lite + "empty", 61) as store,
        pytest.raises(ValueError, match="sample has 0 queries for 0 codes"),
    ):
        store.measure_recall()
    with pytest.raises(ValueError, match="candidates is empty"):
        filled.measure_recall(candidates=[])
    with pytest.raises(ValueError, match="exact has codes of 8 bits"):
        filled.measure_recall(exact=CodeIndex(8))


# Opening


def test_what_cannot_be_opened_or_created(lite, tmp_path):
    with pytest.raises(ValueError, match="absent: the collection does not exist"):
        MilvusStore.open(lite + "absent")
    with pytest.raises(FileNotFoundError, match=r"the file .* does not exist"):
        MilvusStore.open(f"milvus://{tmp_path}/none.db/photos")
    with pytest.raises(FileNotFoundError, match=r"the folder .* does not exist"):
        MilvusStore.create(f"milvus://{tmp_path}/none/none.db/photos", 8)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ValueError, match="already exists"):
        MilvusStore.create(lite + "held_open", 8)
    with pytest.raises(ValueError, match="cells="):
        MilvusStore.create(lite + "with_cells", 8, cells=16)
    with pytest.raises(ValueError, match="consistency='weak'"):
        MilvusStore.open(lite + "held_open", consistency="weak")
    with pytest.raises(ValueError, match="timeout=0"):
        MilvusStore.open(lite + "held_open", timeout=0)


def test_a_collection_of_another_program(lite):
    from pymilvus import DataType, MilvusClient

    client = MilvusClient(lite.removeprefix("milvus://").removesuffix("/"), dedicated=True)
    with MilvusStore.open(lite + "held_open") as store:
        ours = client.describe_collection("held_open")["description"]
        assert store.n_bits == 8
    for name, description, vectors, width, message in [
        ("foreign", "theirs", DataType.BINARY_VECTOR, 8, "its description was not written by cbid"),
        ("other_fields", ours, DataType.FLOAT_VECTOR, 8, "its fields are id, code, label"),
        ("other_width", ours, DataType.BINARY_VECTOR, 64, "has vectors of 64 bits"),
    ]:
        schema = client.create_schema(auto_id=False, description=description)
        schema.add_field("id", DataType.INT64, is_primary=True)
        schema.add_field("code", vectors, dim=width)
        schema.add_field("label", DataType.INT64)
        client.create_collection(name, schema=schema)
        with pytest.raises(ValueError, match=message):
            MilvusStore.open(lite + name)
    client.close()


def test_a_creation_that_was_stopped_in_the_middle_is_finished_by_opening(lite, stored, monkeypatch):
    from cbid.search.stores.milvus_collection import MilvusCollection

    with monkeypatch.context() as patch:
        patch.setattr(MilvusCollection, "_make_ready", lambda self: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            MilvusStore.create(lite + "half_made", 61)
    with MilvusStore.open(lite + "half_made") as store:
        store.add(stored.codes, stored.ids)
        assert store.search(stored.codes[:2], 1).ids.ravel().tolist() == stored.ids[:2].tolist()


def test_a_file_that_another_process_has_open(lite):
    script = f"from cbid.scale import MilvusStore; MilvusStore.open({lite + 'held_open'!r}, timeout=5)"
    lock = Path(lite.removeprefix("milvus://")).parent / ".codes.db.lock"
    assert lock.exists()
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "another process has the file open" in done.stderr
    assert lock.exists()  # the next one is refused as well


def test_an_unreachable_server_is_reported_in_time(monkeypatch):
    pytest.importorskip("pymilvus", reason="pymilvus is absent: pip install 'cbid[milvus]'")
    monkeypatch.setenv("CBID_MILVUS_TOKEN", "me:secret")
    began = time.monotonic()
    with pytest.raises(MilvusError, match=r"milvus://127.0.0.1:9/photos: Milvus did not answer within 1 s") as caught:
        MilvusStore.open("milvus://127.0.0.1:9/photos", timeout=1)
    assert time.monotonic() - began < 5
    assert isinstance(caught.value, ConnectionError)
    assert "secret" not in str(caught.value)


def test_milvus_lite_of_another_version(lite, monkeypatch):
    monkeypatch.setattr("cbid.search.stores.milvus_connection.metadata.version", lambda name: "3.1")
    with pytest.raises(MilvusError, match=r"milvus-lite 3.1 .*milvus-lite==2.5.1"):
        MilvusStore.open(lite + "held_open")


def test_without_pymilvus(monkeypatch):
    monkeypatch.setitem(sys.modules, "pymilvus", None)
    with pytest.raises(ImportError, match="pip install 'pymilvus"):
        MilvusStore.open("milvus://127.0.0.1:9/photos")
