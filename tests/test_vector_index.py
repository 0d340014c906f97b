"""VectorIndex: content, ranking, the second look, promises of recall, and the directory."""

import copy
import os

import numpy as np
import pytest

import cbid
from cbid.coders import ITQ, LSH
from cbid.search import CodeIndex, IndexCorruptError, UnknownIdError
from cbid.search.recall import p_value_of_mean
from cbid.vector_index import VectorIndex
from tests.search.test_store_crash import die_at, in_child

D = 12


def sample(n, seed=0):
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(99).normal(size=(8, D))
    return (centres[rng.integers(0, 8, n)] + rng.normal(size=(n, D))).astype(np.float32)


CODER = LSH(n_bits=32, random_state=0).fit(sample(50))


def exact(X, Q, metric, k):
    X, Q = X.astype(float), Q.astype(float)
    if metric == "l2":
        distances = np.linalg.norm(Q[:, None] - X[None], axis=2)
    elif metric == "ip":
        distances = -(Q @ X.T)
    else:
        unit = [A / np.linalg.norm(A, axis=1, keepdims=True) for A in (Q, X)]
        distances = 1 - unit[0] @ unit[1].T
    order = np.argsort(distances, axis=1, kind="stable")[:, :k]
    return order, np.take_along_axis(distances, order, axis=1)


def test_is_exported():
    assert cbid.VectorIndex is VectorIndex


@pytest.mark.parametrize("metric", ["cosine", "ip", "l2"])
@pytest.mark.parametrize(("keep", "atol"), [("float16", 0.01), ("int8", 0.15)])
def test_second_look_over_all_candidates_is_exact_search(metric, keep, atol):
    X, Q = sample(200), sample(20, 1)
    index = VectorIndex(CODER, keep, metric)
    index.add(X)
    found = index.search(Q, 5, candidates=200)
    kept = index.vectors(index.ids)
    ids, distances = exact(kept, Q, metric, 5)
    if metric == "cosine":  # kept vectors have length 1 but for rounding, which is not undone
        ids, distances = exact(kept, Q / np.linalg.norm(Q, axis=1, keepdims=True), "ip", 5)
        distances = 1 + distances
    np.testing.assert_array_equal(found.ids, ids)
    np.testing.assert_allclose(found.distances, distances, atol=1e-4)
    np.testing.assert_allclose(found.distances, exact(X, Q, metric, 5)[1], atol=atol)


@pytest.mark.parametrize("asymmetric", [False, True])
def test_without_vectors_it_is_the_code_index(asymmetric):
    X, Q = sample(200), sample(20, 1)
    index = VectorIndex(CODER, asymmetric=asymmetric)
    index.add(X, labels=np.arange(200) % 3)
    plain = CodeIndex(32)
    plain.add(CODER.encode(X))
    query = {"projections": CODER.project(Q)} if asymmetric else {"codes": CODER.encode(Q)}
    found, expected = index.search(Q, 7), plain.search(k=7, **query)
    np.testing.assert_array_equal(found.ids, expected.ids)
    np.testing.assert_array_equal(found.distances, expected.distances)
    np.testing.assert_array_equal(found.labels, found.ids % 3)
    np.testing.assert_array_equal(index.search(Q[0], 7).ids, expected.ids[:1])
    assert set(index.search(Q, 7, labels=[1]).labels.ravel()) == {1}


def test_kept_vectors_break_ties_also_at_the_last_place():
    """Eight bits: most codes tie. Compare with a full sort by (code distance, vector distance, id)."""
    coder = LSH(n_bits=8, random_state=0).fit(sample(50))
    X, Q = sample(300), sample(15, 1)
    index = VectorIndex(coder, "float16", "l2", asymmetric=False)
    index.add(X)
    found = index.search(Q, 4, rerank=False)
    bits, own = coder.transform(X), coder.transform(Q)
    by_code = (own[:, None] != bits[None]).sum(axis=2)
    by_vector = np.linalg.norm(Q[:, None].astype(float) - index.vectors(index.ids)[None], axis=2)
    order = np.lexsort((np.broadcast_to(np.arange(300), by_code.shape), by_vector, by_code), axis=1)[:, :4]
    np.testing.assert_array_equal(found.ids, order)
    np.testing.assert_array_equal(found.distances, np.take_along_axis(by_code, order, axis=1))


def test_real_valued_queries_rank_better():
    X, Q = sample(2000), sample(200, 1)
    truth = exact(X, Q, "cosine", 10)[0]
    recalls = []
    for asymmetric in (False, True):
        index = VectorIndex(CODER, asymmetric=asymmetric)
        index.add(X)
        recalls.append(np.mean([len(set(a) & set(b)) for a, b in zip(index.search(Q).ids, truth)]))
    assert recalls[1] > recalls[0]


@pytest.mark.parametrize("keep", [None, "float16", "int8"])
def test_add_remove_and_add_again(keep):
    X = sample(60)
    index = VectorIndex(CODER, keep)
    assert index.add(np.empty((0, D))).tolist() == []
    index.add(X[:40])
    index.remove([3, 5])
    index.add(X[50:52], ids=[5, 90])
    assert len(index) == 40
    assert 3 not in index
    assert index.search(X[50], 1).ids.tolist() == [[5]]
    with pytest.raises(UnknownIdError):
        index.remove([3])
    with pytest.raises(ValueError, match="ids holds 90"):
        index.add(X[:1], ids=[90])
    if keep:
        np.testing.assert_allclose(
            index.vectors([90, 5]), X[[51, 50]] / np.linalg.norm(X[[51, 50]], axis=1, keepdims=True), atol=0.01
        )
    again = copy.deepcopy(index)
    np.testing.assert_array_equal(again.search(X).ids, index.search(X).ids)
    assert len(again) == 40


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda i: i.add(np.zeros((2, D + 1))), "X has shape"),
        (lambda i: i.search(np.zeros((2, D - 1))), "X has shape"),
        (lambda i: i.search(np.zeros((2, 1, D))), "X has shape"),
        (lambda i: i.calibrate(0.5, queries=np.zeros((100, D + 1))), "X has shape"),
        (lambda i: i.recode(np.zeros((2, D + 1)), [0, 1]), "X has shape"),
        (lambda i: i.lengthen(LSH(n_bits=64).fit(np.eye(D + 1))), f"expected a fitted coder of {D} features"),
        (lambda i: i.lengthen(LSH(n_bits=16).fit(np.eye(D))), "expected more than the 32"),
        (lambda i: i.add(np.full((2, D), np.nan)), "NaN"),
        (lambda i: i.search(np.zeros((2, D)), candidates=3, k=5), "candidates=3"),
        (lambda i: i.search(np.zeros((2, D)), recall=1.0), "recall=1.0"),
        (lambda i: i.search(np.zeros((2, D)), recall="high"), "recall='high': expected a finite number"),
        (lambda i: i.calibrate(0.5, delta="0.1"), "delta='0.1'"),
        (lambda i: i.pairs(64, limit=10), "limit=10"),
        (lambda i: i.search(np.zeros((2, D)), recall=0.9, labels=[1]), "recall=0.9"),
        (lambda i: i.calibrate(0.99, queries=sample(100)), "100 queries cannot support it .* at least 302 queries"),
        (lambda i: i.calibrate(0.99), "100 stored vectors cannot support it .* at least 302 queries"),
        (lambda i: i.calibrate(0.9, k=1000), "k=1000"),
        (lambda i: i.vectors([777]), "777"),
    ],
)
def test_bad_calls(call, message):
    index = VectorIndex(CODER, "float16")
    index.add(sample(100))
    with pytest.raises(ValueError, match=message):
        call(index)
    assert len(index) == 100
    assert index.promises == []


def test_bad_construction():
    with pytest.raises(ValueError, match="n_bits_"):
        VectorIndex(LSH(n_bits=8))
    with pytest.raises(ValueError, match="keep="):
        VectorIndex(CODER, "float8")
    with pytest.raises(ValueError, match="metric="):
        VectorIndex(CODER, metric="dot")
    index = VectorIndex(CODER)
    index.add(sample(5))
    for call in (lambda: index.search(sample(1), recall=0.9), lambda: index.calibrate(), lambda: index.vectors([0])):
        with pytest.raises(ValueError, match="keep="):
            call()
    with pytest.raises(ValueError, match="float16"):
        VectorIndex(CODER, "float16", "l2").add(np.full((1, D), 1e6))


def test_a_coder_of_another_index(tmp_path):
    """The model file of another coder is copied into an index: more bits, or as many over other features."""
    for n_bits, d in ((64, D), (32, D + 1)):
        path = tmp_path / f"{n_bits}-{d}"
        index = VectorIndex(CODER, "float16")
        index.add(sample(20))
        index.save(path)
        (file,) = path.glob("*.safetensors")
        file.unlink()
        LSH(n_bits=n_bits, random_state=0).fit(np.random.default_rng(0).normal(size=(50, d))).save(file)
        with pytest.raises(IndexCorruptError, match=file.name):
            VectorIndex.open(path)


# Recall


def test_a_recall_beyond_the_most_candidates(monkeypatch):
    monkeypatch.setattr("cbid.vector_index._MOST_CANDIDATES", 12)
    index = VectorIndex(LSH(n_bits=8, random_state=0).fit(sample(50)), "float16")
    index.add(sample(500))
    with pytest.raises(ValueError, match=r"recall=0\.95: 12 candidates are too few; expected a lower recall"):
        index.search(sample(3), recall=0.95)
    assert index.promises == []


def test_promise_is_kept_and_void_after_changes():
    X = sample(3000)
    index = VectorIndex(CODER, "float16")
    index.add(X)
    found = index.search(X[:5], 10, recall=0.9)
    (promise,) = index.promises
    assert (promise.k, promise.recall, promise.n_queries, promise.stored_queries) == (10, 0.9, 1000, True)
    assert 10 < promise.candidates < 3000
    np.testing.assert_array_equal(found.ids, index.search(X[:5], 10, candidates=promise.candidates).ids)
    index.add(sample(10, 3))
    with pytest.raises(ValueError, match="check_recall"):
        index.search(X[:5], 10, recall=0.9)
    assert all(renewed.valid for renewed in index.check_recall())
    index.search(X[:5], 10, recall=0.9)
    index.calibrate(0.9, 10, sample(500, 4))
    index.remove([0])
    with pytest.raises(ValueError, match="queries"):
        index.check_recall()
    assert index.check_recall(sample(500, 5))[0].n_queries == 500


def test_p_value_of_a_perfect_sample():
    """Without losses every bet is 1, and n losses give (1 + limit) ** -n."""
    assert p_value_of_mean(np.zeros(302), 0.01) == pytest.approx(1.01**-302)
    assert p_value_of_mean(np.ones(302), 0.01) == 1
    assert p_value_of_mean(np.empty(0), 0.01) == 1


def broken_promises(n_calibrations, cells=None):
    """Calibrate on fresh queries each time, and compare with the recall over many others."""
    index = VectorIndex(CODER, "float16", cells=cells)
    index.add(sample(1500))
    probes = [None] if cells is None else list(range(cells, 0, -1))
    fresh = sample(4000, 10**6)
    ranks = index._ranks(fresh, 5, 1500, None, probes)  # the recall of all counts of candidates at once
    broken = 0
    chosen = []
    for seed in range(n_calibrations):
        promise = index.calibrate(0.9, 5, sample(150, 1000 + seed))
        broken += (ranks[probes.index(promise.probes)] < promise.candidates).mean() < 0.9
        chosen.append(promise)
    return broken, chosen


@pytest.mark.parametrize(("cells", "n", "most"), [(None, 40, 6), (24, 20, 4)])
def test_recall_is_promised_with_confidence(cells, n, most):
    """The chance that more of them break at delta = .05 is below .003."""
    broken, chosen = broken_promises(n, cells)
    assert broken <= most
    assert np.median([promise.candidates for promise in chosen]) < 750
    if cells is not None:
        assert np.median([promise.probes for promise in chosen]) < 20


@pytest.mark.long
@pytest.mark.parametrize("cells", [None, 24])
def test_recall_is_promised_with_confidence_in_200_calibrations(cells):
    assert broken_promises(200, cells)[0] <= 18


@pytest.mark.parametrize("asymmetric", [True, False])
def test_places_predict_what_a_search_finds(asymmetric):
    """With some codes in no cell yet, and queries that are stored and leave themselves out."""
    index = VectorIndex(CODER, "float16", asymmetric=asymmetric, cells=12)
    index.add(sample(700))
    index.codes.train()
    index.add(sample(40, 1))
    index.remove([3, 4, 720])
    probes, own = [12, 5, 2, 1], np.array([700, 9, 735, 30, 8])
    for asked, without in ((sample(30, 2), None), (index.vectors(own), own)):
        ranks = index._ranks(asked, 5, 600, without, probes)
        extra = 0 if without is None else 1
        true, _ = index._kept.nearest(index._kept.as_queries(asked), 5, without)
        for place, p in enumerate(probes):
            for count in (5, 20, 200):
                found = index.search(asked, count + extra, candidates=count + extra, probes=p).ids
                for row, neighbours in enumerate(true):
                    by_code = [id for id in found[row] if id >= 0 and (without is None or id != without[row])]
                    # Without itself among the candidates, a stored query has one more of the others.
                    assert (ranks[place, row] < count).sum() <= np.isin(neighbours, by_code).sum()
                    if len(by_code) <= count:
                        assert (ranks[place, row] < count).sum() == np.isin(neighbours, by_code).sum()


def test_a_promise_of_probes(tmp_path):
    X = sample(3000)
    index = VectorIndex(CODER, "float16", cells=32, probes=2)
    index.add(X)
    assert index.codes.probes == 2
    promise = index.calibrate(0.9, 10)
    assert promise.probes < 32
    asked = sample(300, 9)
    found = index.search(asked, 10, recall=0.9)
    exact = index.search(asked, 10, candidates=3000, probes=32)
    assert np.mean([np.isin(a, b).mean() for a, b in zip(exact.ids, found.ids)]) > 0.87
    index.save(tmp_path / "index")
    assert VectorIndex.open(tmp_path / "index").promises == [promise]
    with pytest.raises(ValueError, match=r"recall=0\.9: expected no candidates, probes"):
        index.search(asked, 10, recall=0.9, probes=3)
    with pytest.raises(ValueError, match="probes=33"):
        index.search(asked, 10, probes=33)
    with pytest.raises(ValueError, match="this index has no cells"):
        VectorIndex(CODER).search(asked, 10, probes=3)
    with pytest.raises(ValueError, match="probes"):
        VectorIndex(CODER, probes=3)


def test_p_value_is_valid_at_the_limit():
    """Losses whose mean is the limit: p <= .05 happens in at most 5 % of samples (plus three standard errors)."""
    rng = np.random.default_rng(0)
    p_values = np.array([p_value_of_mean(rng.binomial(10, 0.05, 300) / 10, 0.05) for _ in range(1000)])
    assert (p_values <= 0.05).mean() <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 1000)


# On disk


def content(index):
    return index.ids.tolist(), index.vectors(index.ids).tolist(), index.codes.reconstruct(index.ids).tolist()


@pytest.mark.parametrize("keep", [None, "float16", "int8"])
def test_save_and_open(tmp_path, keep):
    X = sample(500)
    index = VectorIndex(ITQ(n_bits=8, random_state=0).fit(X), keep, "l2", asymmetric=False)
    index.add(X, labels=np.arange(500) % 4)
    if keep:
        index.calibrate(0.8, 3)
    index.save(tmp_path / "index")
    opened = VectorIndex.open(tmp_path / "index", verify=True)
    assert (opened.keep, opened.metric, opened.asymmetric) == (keep, "l2", False)
    assert opened.promises == index.promises
    for metric_search in (index, opened):
        np.testing.assert_array_equal(metric_search.search(X[:9]).ids, opened.search(X[:9]).ids)
    with opened:
        opened.remove([7, 400])
        opened.add(X[400:401], ids=[400], labels=[1])
        opened.save()
        opened.save(tmp_path / "copy")
    for path in ("index", "copy"):
        again = VectorIndex.open(tmp_path / path, verify=True)
        assert len(again) == 499
        np.testing.assert_array_equal(again.search(X[:50]).ids, opened.search(X[:50]).ids)
    assert index.refresh()
    assert len(index) == 499
    with pytest.raises(ValueError, match="VectorIndex"):
        CodeIndex.open(tmp_path / "index").save()


def test_vectors_are_mapped_after_a_save(tmp_path):
    index = VectorIndex(CODER, "float16")
    index.add(sample(100))
    index.save(tmp_path / "index")
    rows = index._kept._chunks[0].rows
    assert isinstance(rows.base, np.memmap) or isinstance(rows, np.memmap)


def test_a_code_index_and_damaged_files_are_rejected(tmp_path):
    plain = CodeIndex(32)
    plain.save(tmp_path / "plain")
    with pytest.raises(IndexCorruptError, match="not a VectorIndex"):
        VectorIndex.open(tmp_path / "plain")
    index = VectorIndex(CODER, "int8")
    index.add(sample(100))
    index.save(tmp_path / "index")
    for name in sorted(os.listdir(tmp_path / "index")):
        if not name.startswith("attached"):
            continue
        path = tmp_path / "index" / name
        whole = path.read_bytes()
        path.write_bytes(whole[:-1])
        with pytest.raises(IndexCorruptError, match=name):
            VectorIndex.open(tmp_path / "index")
        path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        with pytest.raises(IndexCorruptError, match=name):
            VectorIndex.open(tmp_path / "index", verify=True)
        path.unlink()
        with pytest.raises(IndexCorruptError, match=name):
            VectorIndex.open(tmp_path / "index")
        path.write_bytes(whole)
    assert len(VectorIndex.open(tmp_path / "index")) == 100


@pytest.mark.parametrize("first", [False, True])
def test_end_at_every_step_of_a_commit(tmp_path, first):
    """A process killed at any step of a save leaves the old state or the new one, with its vectors."""
    path = tmp_path / "index"
    X = sample(80)
    index = VectorIndex(CODER, "float16")
    index.add(X[:50])
    if not first:
        index.save(path)

    def commit(event_number):
        writer = index if first else VectorIndex.open(path, writable=True)
        writer.add(X[50:60])
        writer.remove([0, 1])
        die_at(event_number)
        writer.save(path)

    before = content(index)
    seen = []
    for event_number in range(200):
        status = in_child(lambda number=event_number: commit(number))
        if first and not (path / "manifest.json").exists():
            seen.append("none")
        else:
            opened = VectorIndex.open(path, verify=True)
            ids = opened.ids.tolist()
            if ids == before[0]:
                assert content(opened) == before
                seen.append("old")
            else:
                assert ids == list(range(2, 60))
                np.testing.assert_array_equal(opened.search(X[50:60], 1).ids.ravel(), np.arange(50, 60))
                seen.append("new")
        if status == 0 or seen[-1] == "new":
            break
    assert seen[-1] == "new"
    assert len(seen) > 5


def test_several_labels_are_stored_and_filter(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 8)).astype(np.float32)
    labels = [[name for name in ("a", "a/b", "c") if rng.random() < 0.5] for _ in X]
    index = VectorIndex(ITQ(n_bits=8).fit(X), keep="float16")
    index.add(X, labels=labels)
    index.save(tmp_path / "index")
    for one in (index, VectorIndex.open(tmp_path / "index")):
        for match, keeps in {
            "any": lambda found: bool(found & {"a", "c"}),
            "all": lambda found: found >= {"a", "c"},
            "branch": lambda found: bool(found & {"a", "a/b", "c"}),
        }.items():
            places = [i for i, found in enumerate(labels) if keeps(set(found))]
            found = one.search(X[:5], k=5, labels=["a", "c"], match=match, candidates=60)
            np.testing.assert_array_equal(found.ids, one.search(X[:5], k=5, among=places, candidates=60).ids)
            assert all(s == set(labels[i]) for i, s in zip(found.ids.ravel(), found.labels.ravel()) if i >= 0)


@pytest.mark.parametrize("rerank", [True, False])
def test_a_removal_during_a_search_leaves_k_results(monkeypatch, rerank):
    """A vector is removed after its code was found: the search returns k others."""
    X, removed = sample(60), []
    index = VectorIndex(CODER, keep="float16")
    index.add(X)
    by_code = VectorIndex._by_code

    def interrupted(self, *args):
        found = by_code(self, *args)
        if not removed:
            removed.extend(found.ids[0, :3].tolist())
            self.remove(removed)
        return found

    monkeypatch.setattr(VectorIndex, "_by_code", interrupted)
    found = index.search(X[:1], 5, rerank=rerank)
    assert removed
    assert (found.ids >= 0).all()
    assert not np.isin(found.ids, removed).any()
