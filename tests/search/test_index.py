"""CodeIndex against brute force: adding, removing, looking up, searching."""

import copy
import pickle
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cbid.search import CodeIndex, Match, collection
from tests.search.reference import distances, nearest, random_codes


def exact_weights(rng, shape):
    """Quarters: sums are exact in float32, so ties here are ties in the index."""
    return rng.integers(0, 9, shape) / 4


@pytest.fixture
def small_tail(monkeypatch):
    """Segments of a few codes, so that small cases meet several."""
    monkeypatch.setattr(collection, "TAIL", 16)


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_search_equals_brute_force(data):
    seed = data.draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    n_bits = data.draw(st.sampled_from([1, 5, 8, 13, 64, 100]))
    n, k = data.draw(st.integers(0, 300)), data.draw(st.integers(1, 40))
    weights = exact_weights(rng, n_bits) if data.draw(st.booleans()) else None
    codes, queries = random_codes(rng, n, n_bits), random_codes(rng, 7, n_bits)
    ids = rng.permutation(10 * n + 1)[:n]
    index = CodeIndex(n_bits, weights)
    for part in np.array_split(np.arange(n), data.draw(st.integers(1, 9))):
        index.add(codes[part], ids[part])
    for given_weights, weighted in ((None, True), (None, False), (exact_weights(rng, (7, n_bits)), True)):
        used = given_weights if given_weights is not None else weights if weighted else None
        table = distances(codes, queries, n_bits, used)
        matches = index.search(queries, k, weights=given_weights, weighted=weighted)
        expected_ids, expected = nearest(ids, table, k)
        np.testing.assert_array_equal(matches.ids, expected_ids)
        np.testing.assert_array_equal(matches.distances, expected)
        assert matches.ids.dtype == np.int64
        assert matches.distances.dtype == np.float32
        assert matches.labels is None
        radius = float(np.median(table)) if table.size else 1.0
        found = index.range_search(queries, radius, weights=given_weights, weighted=weighted)
        for row, one in enumerate(found):
            inside = np.flatnonzero(table[row] <= radius)
            np.testing.assert_array_equal(
                one.ids, nearest(ids[inside], table[row : row + 1, inside], len(inside))[0][0]
            )


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_bits=st.integers(1, 4096),
    n=st.integers(0, 5000),
    k=st.integers(1, 6000),
    scale=st.sampled_from([0, 2.0**-90, 1, 2.0**100]),
    distinct=st.integers(1, 5000),
)
def test_large_cases_and_a_mask_over_all_bits(seed, n_bits, n, k, scale, distinct):
    """Also k above n, weights of zero, huge and tiny, many duplicates; XOR with one mask changes nothing."""
    rng = np.random.default_rng(seed)
    codes = random_codes(rng, distinct, n_bits)[rng.integers(0, distinct, n)]
    queries, mask = random_codes(rng, 3, n_bits), random_codes(rng, 1, n_bits)
    weights = scale * rng.integers(1, 9, n_bits) / 4
    index, masked = CodeIndex(n_bits, weights), CodeIndex(n_bits, weights)
    index.add(codes)
    masked.add(codes ^ mask)
    matches, same = index.search(queries, k), masked.search(queries ^ mask, k)
    expected_ids, expected = nearest(np.arange(n), distances(codes, queries, n_bits, weights), k)
    for found in (matches, same):
        np.testing.assert_array_equal(found.ids, expected_ids)
        np.testing.assert_array_equal(found.distances, expected)


@pytest.mark.parametrize("cells", [None, 4])
def test_weights_per_class_of_the_stored_item(cells):
    rng = np.random.default_rng(0)
    n_bits, names = 24, np.array(["cat", "dog", "eel"])
    weights = exact_weights(rng, (n_bits, 3))
    codes, queries = random_codes(rng, 500, n_bits), random_codes(rng, 9, n_bits)
    classes, ids = rng.integers(0, 3, 500), rng.permutation(900)[:500]
    index = CodeIndex(n_bits, weights, classes=names, cells=cells, probes=cells)
    index.add(codes[:200], ids[:200], names[classes[:200]])
    index.add(codes[200:], ids[200:], names[classes[200:]])
    matches = index.search(queries, 30)
    expected_ids, expected = nearest(ids, distances(codes, queries, n_bits, weights, classes), 30)
    np.testing.assert_array_equal(matches.ids, expected_ids)
    np.testing.assert_array_equal(matches.distances, expected)
    by_id = dict(zip(ids, names[classes]))
    assert [[by_id[i] for i in row] for row in matches.ids] == matches.labels.tolist()
    plain = index.search(queries, 30, weighted=False)
    np.testing.assert_array_equal(plain.ids, nearest(ids, distances(codes, queries, n_bits), 30)[0])
    near = index.range_search(queries, 5.0)
    table = distances(codes, queries, n_bits, weights, classes)
    np.testing.assert_array_equal(np.diff(near.offsets), (table <= 5).sum(axis=1))


def test_ties_go_to_the_smaller_id_across_segments_and_kinds_of_query(small_tail):
    index = CodeIndex(8)
    for ids in ([40, 3, 17], np.arange(100, 140), [1], np.arange(50, 90)):
        index.add(np.zeros((len(ids), 1), np.uint8), ids)
    assert index.search(np.zeros(1, np.uint8), 5).ids.tolist() == [[1, 3, 17, 40, 50]]
    assert index.search(projections=-np.ones(8), k=3).ids.tolist() == [[1, 3, 17]]


def test_asymmetric_query_equally_far_from_every_threshold_is_the_symmetric_one():
    rng = np.random.default_rng(1)
    codes, bits = random_codes(rng, 200, 32), rng.integers(0, 2, (5, 32))
    index = CodeIndex(32, exact_weights(rng, 32))
    index.add(codes)
    soft = index.search(projections=1e6 * (2.0 * bits - 1), k=200)
    hard = index.search(np.packbits(bits, axis=1), k=200)
    np.testing.assert_array_equal(soft.ids, hard.ids)
    np.testing.assert_array_equal(soft.distances, hard.distances)


@pytest.mark.parametrize(("n_wanted", "n_queries"), [(3, 1), (3, 50), (300, 1), (300, 50)])
@pytest.mark.parametrize("by_class", [False, True])
def test_filters(n_wanted, n_queries, by_class):
    """Both ways of filtering, by mask and by copy: which is taken depends on how many codes pass."""
    rng = np.random.default_rng(2)
    weights = exact_weights(rng, (16, 10)) if by_class else exact_weights(rng, 16)
    codes, queries = random_codes(rng, 1000, 16), random_codes(rng, n_queries, 16)
    labels, ids = rng.integers(0, 10, 1000), rng.permutation(5000)[:1000]
    index = CodeIndex(16, weights)
    index.add(codes, ids, labels)
    gone = ids[::7]
    index.remove(gone)
    live = ~np.isin(ids, gone)
    table = distances(codes, queries, 16, weights, labels if by_class else None)
    among = rng.permutation(5000)[: 5 * n_wanted]  # some of them not stored
    for wanted, keep in (
        ({"labels": 4}, labels == 4),
        ({"labels": [1, 2, 3, 5, 7, 8, 99]}, np.isin(labels, [1, 2, 3, 5, 7, 8])),
        ({"labels": [0, 2, 4, 6, 8]}, labels % 2 == 0),
        ({"labels": [0, 1, 2]}, labels < 3),
        ({"among": among}, np.isin(ids, among)),
        ({"among": among, "labels": [0, 1]}, np.isin(ids, among) & (labels < 2)),
        ({"labels": 99}, np.zeros(1000, dtype=bool)),
        ({"among": []}, np.zeros(1000, dtype=bool)),
        (
            {"among": set(ids[:40].tolist()), "labels": {5, 6}},
            np.isin(labels, [5, 6]) & (np.arange(1000) < 40),
        ),
    ):
        keep = keep & live
        matches = index.search(queries, 20, **wanted)
        expected_ids, expected = nearest(ids[keep], table[:, keep], 20)
        np.testing.assert_array_equal(matches.ids, expected_ids)
        np.testing.assert_array_equal(matches.distances, expected)
        found = index.range_search(queries, 6.0, **wanted)
        np.testing.assert_array_equal(np.diff(found.offsets), (table[:, keep] <= 6).sum(axis=1))


@pytest.mark.parametrize("n_queries", [1, 50])
@pytest.mark.parametrize("by_class", [False, True])
@pytest.mark.parametrize("largest_id", [3000, 9000, 2**60])
def test_filters_by_many_ids(largest_id, by_class, n_queries):
    """Ids without gaps, with some, and far apart; in any order, some of them twice, some not stored or removed."""
    rng = np.random.default_rng(7)
    weights = exact_weights(rng, (16, 10)) if by_class else exact_weights(rng, 16)
    codes, queries = random_codes(rng, 3000, 16), random_codes(rng, n_queries, 16)
    labels = rng.integers(0, 10, 3000)
    ids = 5 + np.unique(rng.integers(0, largest_id, 30000))
    ids = rng.permutation(ids)[:3000]
    assert len(ids) == 3000
    index = CodeIndex(16, weights)
    index.add(codes, ids, labels)
    index.remove(ids[::7])
    live = np.arange(3000) % 7 > 0
    table = distances(codes, queries, 16, weights, labels if by_class else None)
    among = rng.permutation(
        np.concatenate([ids[1000:2500], ids[2000:2500], [0, 1, 2**62], rng.integers(0, 2**62, 50)])
    )
    for options, keep in (({}, live), ({"labels": [0, 1, 5]}, live & np.isin(labels, [0, 1, 5]))):
        keep = keep & np.isin(ids, among)
        matches = index.search(queries, 20, among=among, **options)
        expected_ids, expected = nearest(ids[keep], table[:, keep], 20)
        np.testing.assert_array_equal(matches.ids, expected_ids)
        np.testing.assert_array_equal(matches.distances, expected)


def test_a_filter_used_again_knows_of_what_was_removed_and_added_since():
    index = CodeIndex(8)
    index.add(np.zeros((5000, 1), np.uint8), labels=np.arange(5000) % 2)
    query = np.zeros(1, np.uint8)
    assert index.search(query, 2, labels=1).ids.tolist() == [[1, 3]]
    assert index.search(query, 2, labels=1).ids.tolist() == [[1, 3]]
    index.remove([1, 2])
    assert index.search(query, 2, labels=1).ids.tolist() == [[3, 5]]
    assert index.search(query, 2, labels=[0, 1]).ids.tolist() == [[0, 3]]
    index.add(query, [1], [0])
    assert index.search(query, 2, labels=0).ids.tolist() == [[0, 1]]
    assert index.search(query, 2, labels=1).ids.tolist() == [[3, 5]]


def test_matches_read_as_objects():
    index = CodeIndex(8, [8, 7, 6, 5, 4, 3, 2, 1])
    index.add(np.array([[0], [7], [128]], np.uint8), labels=["a", "b", "a"])
    matches = index.search(np.array([1], np.uint8), k=5)
    assert matches.ids.tolist() == [[0, 1, 2, -1, -1]]
    assert matches.distances.tolist() == [[1, 5, 9, np.inf, np.inf]]
    assert matches.labels.tolist() == [["a", "b", "a", "", ""]]
    assert len(matches) == 1
    assert len(matches[0]) == 3
    assert list(matches[0]) == [Match(0, 1.0, "a"), Match(1, 5.0, "b"), Match(2, 9.0, "a")]
    assert [one.ids.tolist() for one in matches] == [[0, 1, 2]]
    with pytest.raises(IndexError):
        matches[1]
    found = index.range_search(np.array([[1], [255]], np.uint8), radius=5)
    assert [one.ids.tolist() for one in found] == [[0, 1], []]
    assert found[-2].labels.tolist() == ["a", "b"]
    with pytest.raises(IndexError, match="query=2"):
        found[2]


def test_lookup_of_ids_labels_and_codes(small_tail):
    rng = np.random.default_rng(3)
    codes = random_codes(rng, 100, 20)
    index = CodeIndex(20)
    ids = rng.permutation(1000)[:100]
    labels = rng.integers(-5, 400, 100)
    for part in np.array_split(np.arange(100), 13):
        np.testing.assert_array_equal(index.add(codes[part], ids[part], labels[part]), ids[part])
    order = np.argsort(ids)
    np.testing.assert_array_equal(index.ids, ids[order])
    np.testing.assert_array_equal(index.labels, labels[order])
    np.testing.assert_array_equal(index.reconstruct(ids[::-1]), codes[::-1])
    np.testing.assert_array_equal(index.reconstruct([ids[5]] * 2), codes[[5, 5]])
    assert list(index) == sorted(ids.tolist())
    assert ids[0] in index
    assert 5000 not in index
    assert -1 not in index
    assert "x" not in index
    assert len(index) == 100
    index.remove(ids[3])
    assert ids[3] not in index
    assert len(index) == 99
    assert repr(index) == "CodeIndex(n_bits=20, 99 codes)"


def test_ids_continue_from_the_largest_ever_stored():
    index = CodeIndex(8)
    code = np.zeros((2, 1), np.uint8)
    assert index.add(code).tolist() == [0, 1]
    assert index.add(code, [10, 5]).tolist() == [10, 5]
    index.remove([10])
    assert index.add(code).tolist() == [11, 12]
    largest = 2**63 - 1
    assert index.add(code[:1], np.array([largest], np.uint64)).tolist() == [largest]
    assert largest in index
    with pytest.raises(ValueError, match="64 bits"):
        index.add(code)
    index.remove(largest)
    assert index.search(code[0], 1).ids[0, 0] == 0


def test_an_id_can_be_stored_again_after_its_removal(small_tail):
    index = CodeIndex(8)
    index.add(np.zeros((40, 1), np.uint8))
    for value in range(1, 6):
        index.remove(7)
        index.add(np.array([value], np.uint8), [7])
        assert index.reconstruct(7).tolist() == [[value]]
        assert len(index) == 40


def test_many_small_additions_leave_few_segments_and_take_little_time():
    rng = np.random.default_rng(4)
    codes = random_codes(rng, 30_000, 16)
    index = CodeIndex(16)
    ids = rng.permutation(30_000)
    for first in range(0, 30_000, 100):
        index.add(codes[first : first + 100], ids[first : first + 100])
        if first % 3000 == 0:
            index.search(codes[0], 1)
    assert len(index._segments()) <= 12
    np.testing.assert_array_equal(index.reconstruct(ids[:500]), codes[:500])


def test_memory_per_code():
    n = 200_000
    index = CodeIndex(64)
    index.add(np.zeros((n, 8), np.uint8))
    assert index.nbytes <= n * (8 + 8) + 1000
    index.remove(np.arange(0, n, 3))
    assert index.nbytes <= n * (8 + 9) + 1000
    index = CodeIndex(64)
    index.add(np.zeros((n, 8), np.uint8), labels=np.arange(n) % 200)
    assert index.nbytes <= n * (8 + 9) + 1000


def test_removed_codes_are_forgotten_once_they_are_most():
    index = CodeIndex(64)
    index.add(np.zeros((50_000, 8), np.uint8))
    index.remove(np.arange(40_000))
    index.search(np.zeros(8, np.uint8))
    assert index.nbytes < 10_000 * 18
    index.remove(index.ids)
    assert len(index) == 0
    assert index.search(np.zeros(8, np.uint8), 2).ids.tolist() == [[-1, -1]]


def test_nothing_stored_and_no_queries():
    index = CodeIndex(12)
    none = np.empty((0, 2), np.uint8)
    assert index.search(np.zeros((3, 2), np.uint8), 4).ids.tolist() == [[-1] * 4] * 3
    assert index.add(none).tolist() == []
    assert index.add([]).tolist() == []
    assert index.search(none, 4).ids.shape == (0, 4)
    assert index.range_search(none, 1).offsets.tolist() == [0]
    assert index.ids.tolist() == []
    assert index.labels is None
    index.remove([])
    index.add(np.zeros(2, np.uint8))
    assert index.search(none, 4).distances.shape == (0, 4)
    assert index.reconstruct([]).shape == (0, 2)


@pytest.mark.parametrize("labels", [[3, -1], ["a", "bc"], [True, False], np.array(["x", "y"], dtype=object)])
def test_labels_come_back_as_given(labels):
    index = CodeIndex(8)
    index.add(np.array([[0], [1]], np.uint8), labels=labels)
    assert index.labels.tolist() == list(labels)
    assert index.search(np.array([0], np.uint8), 2).labels.tolist() == [list(labels)]


def test_the_caller_may_change_its_arrays_afterwards():
    index = CodeIndex(8)
    for n in (3, 5000):
        codes, ids = np.full((n, 1), 9, np.uint8), np.arange(n) + 10 * n
        index.add(codes, ids)
        codes[:], ids[:] = 0, 0
        assert index.reconstruct(10 * n).tolist() == [[9]]


def test_searches_in_threads_while_one_adds_and_removes():
    rng = np.random.default_rng(5)
    codes = random_codes(rng, 20_000, 32)
    index = CodeIndex(32, n_threads=1)
    index.add(codes[:5000])
    failures, done = [], threading.Event()

    def search():
        while not done.is_set():
            matches = index.search(codes[:3], 50)
            if matches.distances[:, 0].max() > 0 or matches.ids.min() < 0:
                failures.append(matches)

    threads = [threading.Thread(target=search) for _ in range(3)]
    for thread in threads:
        thread.start()
    for first in range(5000, 20_000, 500):
        index.add(codes[first : first + 500])
        index.remove(np.arange(first, first + 100))
    done.set()
    for thread in threads:
        thread.join()
    assert not failures
    assert len(index) == 20_000 - 30 * 100


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda index: pickle.loads(pickle.dumps(index))])  # noqa: S301
def test_copies_are_their_own(copied):
    index = CodeIndex(8)
    index.add(np.array([[1], [2]], np.uint8))
    twin = copied(index)
    twin.remove(0)
    assert (len(index), len(twin)) == (2, 1)


@pytest.mark.parametrize("shape", [(8,), (8, 2)])
def test_weights_stay_as_they_were_given(shape):
    given = np.ones(shape)
    index = CodeIndex(8, given)
    index.add(np.array([[1], [2]], np.uint8), labels=[0, 1])
    given[:] = 5
    with pytest.raises(ValueError, match="read-only"):
        index.weights[:] = 5
    assert index.search(np.array([0], np.uint8), 1).distances.tolist() == [[1.0]]


@pytest.mark.parametrize("factor", [1e-50, 1e-300, 5e-324 * 2**20])
def test_weights_that_are_too_small_for_float32_keep_their_order(factor):
    """All distances are 0 in float32, and the order is still that of the weights times 1 / factor."""
    rng = np.random.default_rng(0)
    codes, queries, weights = random_codes(rng, 300, 16), random_codes(rng, 20, 16), rng.integers(1, 99, 16)
    plain, tiny = CodeIndex(16, weights / 4), CodeIndex(16, weights / 4 * factor)
    for index in (plain, tiny):
        index.add(codes)
    radius = 60.0
    assert (tiny.search(queries, 10).ids == plain.search(queries, 10).ids).all()
    assert (tiny.search(queries, 10).distances == 0).all()
    assert (tiny.range_search(queries, radius * factor).ids == plain.range_search(queries, radius).ids).all()
    assert (tiny.pairs(radius * factor).left == plain.pairs(radius).left).all()
    assert tiny.groups(radius * factor) == plain.groups(radius)
    own = np.tile(weights / 4, (20, 1))
    found = plain.search(queries, 10, weights=own * factor)
    assert (found.ids == plain.search(queries, 10).ids).all()


def test_small_weights_beside_large_ones():
    index = CodeIndex(8, [1e-46, 1e-45, 0, 0, 1, 1, 1, 1])  # below the normal numbers of float32
    index.add(np.array([[0b10000000], [0b01000000], [0b00001000], [0]], dtype=np.uint8), ids=[0, 1, 2, 3])
    matches = index.search(np.zeros((1, 1), np.uint8), 4)
    assert matches.ids.tolist() == [[3, 0, 1, 2]]
    assert matches.distances[0, -1] == 1
    per_class = CodeIndex(8, np.full((8, 2), 1e-60))
    per_class.add(np.array([[3], [1]], dtype=np.uint8), labels=[0, 1])
    assert per_class.search(np.zeros((1, 1), np.uint8), 2).ids.tolist() == [[1, 0]]
    wide = CodeIndex(8, [1e-300, 1, 1, 1, 1, 1, 1, 1])  # too far apart: the first counts as 0
    wide.add(np.array([[0b10000000], [0b11000000], [0]], dtype=np.uint8))
    assert wide.search(np.zeros((1, 1), np.uint8), 3).distances.tolist() == [[0, 0, 1]]
