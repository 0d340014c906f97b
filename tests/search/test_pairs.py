"""Pairs, groups and the k-NN graph against brute force."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cbid.codes import unpack
from cbid.search import CodeIndex, buckets
from cbid.search import pairs as pairs_module
from cbid.search.pairs import CheckpointError
from tests.search.reference import random_codes


def brute_force(index, weights):
    bits = unpack(index.reconstruct(index.ids), index.n_bits)
    differ = bits[:, None] != bits[None]
    return (differ * weights).sum(axis=2).astype(np.float32)


@pytest.fixture(autouse=True)
def small_tables(monkeypatch):
    monkeypatch.setattr(buckets, "FEWEST_CODES", 1)


@st.composite
def indexes(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n_bits = draw(st.sampled_from([3, 8, 20, 130]))
    weights = draw(st.sampled_from([None, np.arange(n_bits) / 4]))
    method = draw(st.sampled_from(["auto", "scan", "buckets"]))
    index = CodeIndex(n_bits, weights, method=method, n_threads=draw(st.sampled_from([1, 2])))
    n = draw(st.integers(0, 70))
    index.add(random_codes(rng, n, n_bits), ids=rng.permutation(3 * n)[:n])
    index.remove(index.ids[:: draw(st.integers(2, 9))])
    return index, np.ones(n_bits) if weights is None else weights


@settings(max_examples=30, deadline=None)
@given(made=indexes(), radius=st.sampled_from([0, 1, 2.5, 60]), block=st.sampled_from([1, 7, 1024]))
def test_pairs_groups_and_neighbours_are_exact(made, radius, block):
    index, weights = made
    whole, pairs_module._BLOCK = pairs_module._BLOCK, block
    try:
        found, groups, graph = index.pairs(radius), index.groups(radius), index.neighbours(3)
    finally:
        pairs_module._BLOCK = whole
    ids, distances = index.ids, brute_force(index, weights)
    n = len(ids)
    expected = sorted(
        (int(ids[i]), float(distances[i, j]), int(ids[j]))
        for i in range(n)
        for j in range(i + 1, n)
        if distances[i, j] <= radius
    )
    assert list(zip(found.left.tolist(), found.distances.tolist(), found.right.tolist())) == expected

    group_of = {int(id): {int(id)} for id in ids}
    for left, _, right in expected:
        if group_of[left] is not group_of[right]:
            joined = group_of[left] | group_of[right]
            for id in joined:
                group_of[id] = joined
    components = {min(group): sorted(group) for group in group_of.values() if len(group) > 1}
    assert [group.ids for group in groups] == [components[first] for first in sorted(components)]
    near = dict(zip(ids.tolist(), (distances <= radius).sum(axis=1).tolist()))
    assert all(g.representative == max(g.ids, key=lambda id: (near[id], -id)) for g in groups)

    assert graph.shape == (n, n)
    for i in range(n):
        others = sorted((float(distances[i, j]), j) for j in range(n) if j != i)[:3]
        span = slice(graph.indptr[i], graph.indptr[i + 1])
        assert list(zip(graph.data[span].tolist(), graph.indices[span].tolist())) == others


def test_limit_bounds_the_pairs():
    index = CodeIndex(8)
    index.add(np.zeros((10, 1), np.uint8))
    assert len(index.pairs(0, limit=45)) == 45
    with pytest.raises(ValueError, match="limit=44"):
        index.pairs(0, limit=44)
    assert index.groups(0) == [(0, list(range(10)))]


@pytest.mark.parametrize("method", ["auto", "scan", "buckets"])
def test_a_search_with_too_many_hits_is_divided(method, monkeypatch):
    """Two hundred near codes among others: 19,900 pairs, a few at a time, and the limit raises early."""
    monkeypatch.setattr(pairs_module, "_MOST_HITS", 60)
    codes = random_codes(np.random.default_rng(0), 400, 64)
    codes[100:300] = codes[100]
    codes[100:300, 0] = np.arange(200) % 4
    index = CodeIndex(64, method=method, n_threads=2)
    index.add(codes)
    largest, blocks = [], pairs_module._pair_blocks

    def counted(search, first=0):
        for done, part in blocks(search, first):
            largest.append(len(part[0]))
            yield done, part

    monkeypatch.setattr(pairs_module, "_pair_blocks", counted)
    found = index.pairs(2)
    assert max(largest) <= 300  # 199 are the pairs of one code
    expected = brute_force(index, np.ones(64)) <= 2
    assert len(found) == np.triu(expected, 1).sum()
    assert expected[found.left, found.right].all()
    assert [len(group.ids) for group in index.groups(2)] == [200]
    largest.clear()
    with pytest.raises(ValueError, match="limit=400"):
        index.pairs(2, limit=400)
    assert sum(largest) <= 700


def test_weights_per_class():
    index = CodeIndex(8, np.ones((8, 2)))
    index.add(np.zeros((3, 1), np.uint8), labels=[0, 1, 1])
    with pytest.raises(ValueError, match="weighted="):
        index.pairs(0)
    assert len(index.pairs(0, weighted=False)) == 3
    assert index.neighbours(1).nnz == 3


def test_cells_do_not_matter():
    rng = np.random.default_rng(0)
    codes = random_codes(rng, 300, 16)
    plain, cells = CodeIndex(16), CodeIndex(16, cells=4, probes=1)
    for index in (plain, cells):
        index.add(codes)
    assert (plain.neighbours(4) != cells.neighbours(4)).nnz == 0
    assert len(plain.pairs(2)) == len(cells.pairs(2))


class Stop(Exception):
    """An interruption."""


def interrupted(search, after, monkeypatch):
    """Run ``search`` until ``after`` checkpoints have been written."""
    write, written = pairs_module._Checkpoint.write, []

    def counted(self, done, arrays):
        write(self, done, arrays)
        written.append(done)
        if len(written) == after:
            raise Stop

    with monkeypatch.context() as patch:
        patch.setattr(pairs_module, "_SECONDS", 0)
        patch.setattr(pairs_module._Checkpoint, "write", counted)
        with pytest.raises(Stop):
            search()


def test_an_interrupted_search_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(pairs_module, "_BLOCK", 16)
    monkeypatch.setattr(pairs_module, "_MOST_EDGES", 4)
    index = CodeIndex(16, np.arange(16) / 4)
    index.add(random_codes(np.random.default_rng(0), 100, 16))
    file = tmp_path / "state"
    blocks, begun = pairs_module._pair_blocks, []

    def counted(search, first):
        begun.append(first)
        return blocks(search, first)

    monkeypatch.setattr(pairs_module, "_pair_blocks", counted)
    for search in (index.pairs, index.groups):
        expected = search(3)
        interrupted(lambda search=search: search(3, checkpoint=file), 2, monkeypatch)
        found = search(3, checkpoint=file)
        assert begun[-3:] == [0, 0, 32]  # the last one not from the start
        assert not file.exists()
        if search == index.pairs:
            for name in ("left", "right", "distances"):
                assert (getattr(found, name) == getattr(expected, name)).all()
        else:
            assert found == expected


@pytest.mark.parametrize("by_class", [False, True])
def test_an_interrupted_graph_goes_on(tmp_path, monkeypatch, by_class):
    monkeypatch.setattr(pairs_module, "_BLOCK", 16)
    rng = np.random.default_rng(0)
    index = CodeIndex(16, rng.random((16, 2)) if by_class else np.arange(16) / 4)
    index.add(random_codes(rng, 100, 16), labels=rng.integers(0, 2, 100))
    file, expected = tmp_path / "state", index.neighbours(3)
    interrupted(lambda: index.neighbours(3, checkpoint=file), 2, monkeypatch)
    with pytest.raises(CheckpointError, match="another search"):
        index.neighbours(4, checkpoint=file)
    searched, search = [], index.search
    monkeypatch.setattr(
        index, "search", lambda codes, *given, **more: searched.append(len(codes)) or search(codes, *given, **more)
    )
    found = index.neighbours(3, checkpoint=file)
    assert sum(searched) == 100 - 32
    assert not file.exists()
    for name in ("data", "indices", "indptr"):
        assert (getattr(found, name) == getattr(expected, name)).all()


def test_checkpoint_of_another_search(tmp_path, monkeypatch):
    monkeypatch.setattr(pairs_module, "_BLOCK", 4)
    index, file = CodeIndex(16), tmp_path / "state"
    index.add(random_codes(np.random.default_rng(0), 20, 16))
    interrupted(lambda: index.pairs(3, checkpoint=file), 1, monkeypatch)
    for search in (lambda: index.pairs(4, checkpoint=file), lambda: index.groups(3, checkpoint=file)):
        with pytest.raises(CheckpointError, match="another search"):
            search()
    index.remove([0])
    with pytest.raises(CheckpointError, match="another search"):
        index.pairs(3, checkpoint=file)
    file.write_bytes(b"0" * 100)
    with pytest.raises(CheckpointError, match="not a checkpoint"):
        index.pairs(3, checkpoint=file)
