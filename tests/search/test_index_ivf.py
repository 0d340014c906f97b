"""IVF: cells, probes and the recall that they give."""

import numpy as np
import pytest

from cbid.search import CodeIndex, collection
from cbid.search.ivf import Cells
from tests.search.reference import distances, nearest, random_codes


@pytest.fixture(scope="module")
def data():
    """Codes in 40 groups, as learned codes are: within a group a tenth of the bits differ."""
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 2, (40, 48))

    def draw(n):
        return np.packbits(groups[rng.integers(0, 40, n)] ^ (rng.random((n, 48)) < 0.1), axis=1)

    return draw(6000), draw(100), rng.integers(1, 9, 48) / 4


def test_recall_grows_with_probes_and_all_cells_are_exact(data):
    codes, queries, weights = data
    index = CodeIndex(48, weights, cells=32)
    index.add(codes)
    assert index.probes == 1
    recalls = [index.measure_recall(queries, probes=probes) for probes in (1, 2, 4, 8, 16, 32)]
    assert recalls == sorted(recalls)
    assert recalls[0] > 0.5
    assert recalls[3] > 0.98
    assert recalls[-1] == 1.0
    expected_ids, expected = nearest(np.arange(6000), distances(codes, queries, 48, weights), 10)
    exact = index.search(queries, probes=32)
    np.testing.assert_array_equal(exact.ids, expected_ids)
    np.testing.assert_array_equal(exact.distances, expected)
    assert CodeIndex(48, weights).cells is None
    assert repr(index) == "CodeIndex(n_bits=48, 6000 codes, cells=32, probes=1)"


@pytest.mark.parametrize(("n_queries", "simd"), [(1, "auto"), (3, "auto"), (100, "auto"), (100, "off")])
def test_what_is_found_is_the_nearest_in_the_probed_cells(data, monkeypatch, n_queries, simd):
    """By brute force over the codes of those cells; with codes removed, filters, and weights per query."""
    monkeypatch.setenv("CBID_SIMD", simd)
    codes, queries, weights = data
    rng = np.random.default_rng(1)
    queries = queries[:n_queries]
    ids, labels = rng.permutation(20_000)[:6000], rng.integers(0, 3, 6000)
    index = CodeIndex(48, weights, cells=16, probes=3)
    index.train(codes)
    for part in np.array_split(np.arange(6000), 5):
        index.add(codes[part], ids[part], labels[part])
    index.remove(ids[:700])
    cells = index._codes.state.cells
    in_tail = np.zeros(6000, dtype=bool)
    for segment in index._segments():
        if segment.runs[0, 1] < 0:  # not yet in cells: always searched
            in_tail |= np.isin(ids, segment.ids)
    own = cells.of(codes)
    for given, used in ((None, weights), (rng.integers(0, 9, (n_queries, 48)) / 4,) * 2):
        bits = 2.0 * np.unpackbits(queries, axis=1) - 1
        probed = cells.nearest(bits, 3, used)
        table = distances(codes, queries, 48, used)
        for wanted, keep in (
            ({}, np.ones(6000, bool)),
            ({"labels": 1}, labels == 1),
            ({"among": ids[::2]}, None),
        ):
            keep = np.isin(ids, ids[::2]) if keep is None else keep
            matches = index.search(queries, 25, weights=given, **wanted)
            for row in range(n_queries):
                seen = keep & (np.isin(own, probed[row]) | in_tail)
                seen[:700] = False
                expected_ids, expected = nearest(ids[seen], table[row : row + 1, seen], 25)
                np.testing.assert_array_equal(matches.distances[row], expected[0])
                np.testing.assert_array_equal(matches.ids[row], expected_ids[0])


def test_until_trained_every_search_is_exact(data):
    codes, queries, weights = data
    index = CodeIndex(48, weights, cells=64, probes=1)
    index.add(codes[:2000])
    assert index.measure_recall(queries) == 1.0
    assert index._codes.state.cells is None
    index.add(codes[2000:])
    assert index.measure_recall(queries) < 1.0
    assert index._codes.state.cells is not None


def test_range_search_is_exact(data):
    codes, queries, weights = data
    index = CodeIndex(48, weights, cells=16, probes=1)
    index.add(codes)
    table = distances(codes, queries, 48, weights)
    np.testing.assert_array_equal(np.diff(index.range_search(queries, 6.0).offsets), (table <= 6).sum(axis=1))


def test_cells_come_back_from_disk(data, tmp_path):
    codes, queries, weights = data
    index = CodeIndex(48, weights, cells=16, probes=2)
    index.add(codes[:5000])
    index.save(tmp_path / "index")
    opened = CodeIndex.open(tmp_path / "index")
    assert (opened.cells, opened.probes) == (16, 2)
    for one in (index, opened):
        one.add(codes[5000:])
        one.remove(np.arange(0, 6000, 5))
    np.testing.assert_array_equal(opened.search(queries).ids, index.search(queries).ids)
    opened.probes = 5
    opened.save()
    again = CodeIndex.open(tmp_path / "index")
    assert again.probes == 5
    np.testing.assert_array_equal(again.search(queries, probes=2).ids, index.search(queries).ids)
    again.train()
    again.save()
    CodeIndex.open(tmp_path / "index").verify()


def test_merging_keeps_codes_in_their_cells(data, monkeypatch):
    monkeypatch.setattr(collection, "TAIL", 64)
    codes, _, weights = data
    index = CodeIndex(48, weights, cells=8)
    index.train(codes[:2000])
    for part in np.array_split(np.arange(3000), 40):
        index.add(codes[part])
    for segment in index._segments():
        rows = segment.rows()
        if rows.cells is not None:
            np.testing.assert_array_equal(rows.cells, index._codes.state.cells.of(rows.codes))


def test_asymmetric_queries_probe_by_their_soft_bits(data):
    codes, queries, weights = data
    index = CodeIndex(48, weights, cells=16, probes=4)
    index.add(codes)
    soft = (2.0 * np.unpackbits(queries, axis=1) - 1) * np.random.default_rng(2).uniform(0.2, 2, (100, 48))
    found = index.search(projections=soft, k=10)
    exact = index.search(projections=soft, k=10, probes=16)
    assert np.mean(found.ids == exact.ids) > 0.9


def test_recall_on_a_sample_of_what_is_stored(data):
    codes, _, weights = data
    index = CodeIndex(48, weights, cells=16, probes=2)
    index.add(codes)
    assert 0.5 < index.measure_recall(50) <= 1
    assert index.measure_recall(50) == index.measure_recall(50)
    assert index.measure_recall(10**6, k=1) > 0.9


def test_weights_of_zero_and_of_any_scale_make_cells():
    rng = np.random.default_rng(3)
    codes = random_codes(rng, 500, 16)
    plain = Cells.train(codes, 16, 4, np.ones(16)).of(codes)
    for scale in (1e-30, 1e30):
        np.testing.assert_array_equal(Cells.train(codes, 16, 4, np.full(16, scale)).of(codes), plain)
    assert set(Cells.train(codes, 16, 4, np.zeros(16)).of(codes)) <= set(range(4))
    weights = np.zeros(16)
    weights[:2] = 1
    cells = Cells.train(codes, 16, 4, weights).of(codes)
    assert len(set(zip(cells, codes[:, 0] >> 6))) == 4  # a cell for each value of the two bits that count


def test_probes_to_reach_a_code(data):
    """A search with so many probes scans the code, one with fewer does not."""
    codes, queries, weights = data
    index = CodeIndex(48, weights, cells=16)
    assert index.probes_to_reach(np.zeros((100, 0), np.int64), queries).shape == (100, 0)
    index.train(codes)
    index.add(codes[:5900], ids=np.arange(5900) * 3)
    index.add(codes[5900:], ids=np.arange(100) * 3 + 1)  # in no cell yet
    asked = np.array([3 * np.arange(0, 5900, 61), np.arange(97) * 3 + 1])
    needed = index.probes_to_reach(asked, queries[:2])
    assert set(needed[0]) <= set(range(1, 17))
    assert not needed[1].any()
    for probes in (1, 3, 16):
        scanned = index.search(queries[:2], 6000, probes=probes).ids
        for row in range(2):
            np.testing.assert_array_equal(np.isin(asked[row], scanned[row]), needed[row] <= probes)
    assert not CodeIndex(48).probes_to_reach(np.array([[-1, 5]]), queries[:1]).any()
