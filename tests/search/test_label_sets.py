"""Several labels per code: filters against a plain loop, growth from single labels, files, and bad input."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from cbid.search import CodeIndex, IndexCorruptError

NAMES = ["animal", "animal/cat", "animal/dog", "animals", "car"]
RNG = np.random.default_rng(0)
CODES = RNG.integers(0, 256, (300, 2), dtype=np.uint8)
SETS = [[name for name in NAMES if RNG.random() < 0.3] for _ in CODES]


def kept(labels, wanted, match):
    below = [label for label in labels for name in wanted if label == name or label.startswith(name + "/")]
    return {
        "any": bool(set(labels) & set(wanted)),
        "all": set(wanted) <= set(labels),
        "branch": bool(below),
    }[match]


def made(sets=SETS, codes=CODES):
    index = CodeIndex(n_bits=16, weights=np.arange(1, 17))
    index.add(codes[: len(sets)], labels=sets)
    return index


@pytest.mark.parametrize("match", ["any", "all", "branch"])
@pytest.mark.parametrize("wanted", [["animal"], ["car", "animal/dog"], ["nobody"], ["car", "nobody"]])
def test_a_filter_returns_what_a_loop_keeps(match, wanted):
    index, removed = made(), np.arange(0, 300, 7)
    index.remove(removed)
    places = [i for i, labels in enumerate(SETS) if kept(labels, wanted, match) and i % 7]
    found = index.search(CODES[:9], k=20, labels=wanted, match=match)
    expected = index.search(CODES[:9], k=20, among=places)
    np.testing.assert_array_equal(found.ids, expected.ids)
    np.testing.assert_array_equal(found.distances, expected.distances)
    both = index.search(CODES[:9], k=20, labels=wanted, match=match, among=np.arange(150))
    np.testing.assert_array_equal(both.ids, index.search(CODES[:9], k=20, among=[p for p in places if p < 150]).ids)
    within = index.range_search(CODES[:9], 30.0, labels=wanted, match=match)
    np.testing.assert_array_equal(within.ids, index.range_search(CODES[:9], 30.0, among=places).ids)
    for query in found:
        for place, labels in zip(query.ids, query.labels):
            assert labels == set(SETS[place])


def test_matches_hold_sets():
    index = made([["b", "a"], [], ["a"]])
    found = index.search(CODES[:1], k=4)
    assert found.labels.shape == (1, 4)
    assert {int(i): s for i, s in zip(found.ids[0], found.labels[0])} == {
        0: {"a", "b"},
        1: set(),
        2: {"a"},
        -1: set(),
    }
    assert found[0][0].label == {"a", "b"}
    assert [sorted(labels) for labels in index.labels] == [["a", "b"], [], ["a"]]
    assert index.label_names == ["a", "b"]
    found.labels[0, 0].add("other")  # a result is the caller's own
    assert index.search(CODES[:1], k=1).labels[0, 0] == {"a", "b"}


def test_a_matrix_dense_sparse_and_with_names():
    matrix = np.array([[1, 0, 1], [0, 0, 0], [0, 1, 0]])
    for labels in (matrix, csr_array(matrix), matrix.astype(bool)):
        index = CodeIndex(n_bits=16)
        index.add(CODES[:3], labels=labels)
        assert index.labels.tolist() == [{0, 2}, set(), {1}]
        index = CodeIndex(n_bits=16)
        index.add(CODES[:3], labels=labels, label_names=["sea", "sky", "sand"])
        assert index.labels.tolist() == [{"sea", "sand"}, set(), {"sky"}]


def test_single_labels_become_sets_of_one(tmp_path):
    """Codes that are stored keep their label numbers, in memory and in files."""
    index = CodeIndex(n_bits=16)
    index.add(CODES[:100], labels=[f"c{i % 3}" for i in range(100)])
    index.save(tmp_path / "index")
    assert "label_sets" not in (tmp_path / "index" / "manifest.json").read_text()
    index = CodeIndex.open(tmp_path / "index")
    index.add(CODES[100:102], labels=[["c1", "new"], []])
    index.add(CODES[102:103], labels=["c2"])
    index.save()
    for one in (index, CodeIndex.open(tmp_path / "index", verify=True)):
        assert one.labels[:4].tolist() == [{"c0"}, {"c1"}, {"c2"}, {"c0"}]
        assert one.labels[100:].tolist() == [{"c1", "new"}, set(), {"c2"}]
        assert set(one.search(CODES[:1], k=103, labels=["new"]).ids[0]) == {100, -1}
        assert np.count_nonzero(one.search(CODES[:1], k=103, labels=["c1"]).ids >= 0) == 34
        assert np.count_nonzero(one.search(CODES[:1], k=103, labels=["c1", "new"], match="all").ids >= 0) == 1


def test_all_and_branch_with_single_labels():
    index = made(["a", "a/b", "ab", "c"])
    assert index.search(CODES[:1], k=2, labels=["a"], match="all").ids.tolist() == [[0, -1]]
    assert index.search(CODES[:1], k=2, labels=["a", "c"], match="all").ids.tolist() == [[-1, -1]]
    assert sorted(index.search(CODES[:1], k=4, labels=["a"], match="branch").ids[0]) == [-1, -1, 0, 1]


@settings(deadline=None, max_examples=25)
@given(
    st.lists(st.lists(st.sets(st.integers(0, 4), max_size=3), min_size=1, max_size=5), min_size=1, max_size=4),
    st.sets(st.integers(0, 5), min_size=1, max_size=2),
)
def test_additions_in_parts_are_one_addition(parts, wanted):
    index, whole = CodeIndex(n_bits=16), [labels for part in parts for labels in part]
    for part in parts:
        index.add(CODES[: len(part)], labels=[list(labels) for labels in part])
    assert index.labels.tolist() == whole
    for match in ("any", "all"):
        found = index.search(CODES[:1], k=len(whole), labels=wanted, match=match).ids[0]
        expected = [
            i for i, labels in enumerate(whole) if (wanted <= labels if match == "all" else bool(wanted & labels))
        ]
        assert sorted(found[found >= 0]) == expected


def test_saved_sets_are_reopened_and_written_once(tmp_path):
    index, path = made(), tmp_path / "index"
    index.save(path)
    (first,) = path.glob("sets-*.npy")
    index.remove([0])
    index.save()
    assert list(path.glob("sets-*.npy")) == [first]  # unchanged sets are not written again
    index.add(CODES[:1], labels=[["brand new"]])
    index.save()
    assert list(path.glob("sets-*.npy")) != [first]
    index.save(tmp_path / "copy")
    for one in (CodeIndex.open(path, verify=True), CodeIndex.open(tmp_path / "copy")):
        assert one.labels.tolist() == index.labels.tolist()
        assert one.label_names == index.label_names


def test_damaged_sets_are_reported(tmp_path):
    made().save(tmp_path / "index")
    (file,) = (tmp_path / "index").glob("sets-*.npy")
    content = bytearray(file.read_bytes())
    content[-1] ^= 255
    file.write_bytes(content)
    with pytest.raises(IndexCorruptError, match=r"sets-.* is damaged"):
        CodeIndex.open(tmp_path / "index")
    file.write_bytes(content[:-8])
    with pytest.raises(IndexCorruptError, match=r"sets-.* is damaged"):
        CodeIndex.open(tmp_path / "index")
    file.unlink()
    with pytest.raises(IndexCorruptError, match="is missing"):
        CodeIndex.open(tmp_path / "index")


def test_sets_that_do_not_fit_the_labels_are_reported(tmp_path):
    from cbid.search.manifest import IndexManifest

    made().save(tmp_path / "index")
    manifest, _ = IndexManifest.read(tmp_path / "index")
    manifest.label_values = manifest.label_values[:-1]
    manifest.write(tmp_path / "index")
    with pytest.raises(IndexCorruptError, match="label sets of the index do not fit its 4 labels"):
        CodeIndex.open(tmp_path / "index")
    assert json.loads((tmp_path / "index" / "manifest.json").read_text())["manifest"]["n_label_sets"] > 4


ONE = CODES[:1]


@pytest.mark.parametrize(
    ("arguments", "error", "told"),
    [
        ({"labels": [["a", 1]]}, TypeError, "labels has .* all of one kind"),
        ({"labels": [[1]]}, TypeError, "labels has values of kind int; expected kind str"),
        ({"labels": [["a"], ["b"]]}, ValueError, "labels has 2 entries"),
        ({"labels": [[None]]}, ValueError, r"labels\[0\] holds None"),
        ({"labels": [["a"], "b"]}, ValueError, r"labels\[1\]='b'"),
        ({"labels": np.array([[1, 2]])}, ValueError, r"labels\[0, 1\]=2"),
        ({"labels": ["a"], "label_names": ["a"]}, ValueError, "label_names is given, but labels is not"),
        ({"labels": np.eye(2)[:1], "label_names": ["a"]}, ValueError, "label_names has 1 names; expected 2"),
        ({"labels": np.eye(2)[:1], "label_names": ["a", "a"]}, ValueError, "label_names has 2 names; .* distinct"),
        ({"labels": np.eye(2)[:1]}, TypeError, "labels has values of kind int; expected kind str"),
        ({}, ValueError, "labels=None"),
    ],
)
def test_bad_labels_change_nothing(arguments, error, told):
    index = made()
    with pytest.raises(error, match=told):
        index.add(ONE, **arguments)
    assert len(index) == 300
    assert index.labels.tolist() == [set(labels) for labels in SETS]


@pytest.mark.parametrize(
    ("arguments", "error", "told"),
    [
        ({"labels": ["a"], "match": "some"}, ValueError, "match='some': expected one of 'any', 'all', 'branch'"),
        ({"match": "all"}, ValueError, "match='all' is given without labels"),
        ({"labels": [], "match": "all"}, ValueError, "labels has no label"),
        ({"labels": [1]}, TypeError, "labels has values of kind int"),
        ({"labels": [["a"]]}, ValueError, "labels holds several labels for each"),
    ],
)
def test_bad_filters_are_named(arguments, error, told):
    with pytest.raises(error, match=told):
        made().search(ONE, **arguments)


def test_a_branch_needs_text_and_weights_per_class_need_one_label():
    index = CodeIndex(n_bits=16)
    index.add(ONE, labels=[[1, 2]])
    with pytest.raises(ValueError, match=r"match='branch'.* it has kind int"):
        index.search(ONE, labels=[1], match="branch")
    by_class = CodeIndex(n_bits=16, weights=np.ones((16, 2)))
    with pytest.raises(ValueError, match="labels holds sets; expected one label per code"):
        by_class.add(ONE, labels=[[0, 1]])


def test_codes_without_any_label_leave_the_kind_open():
    index = CodeIndex(n_bits=16)
    index.add(ONE, labels=[[]])
    assert index.search(ONE, k=1, labels=["a"]).ids.tolist() == [[-1]]
    index.add(ONE, labels=[["a"]])
    assert index.labels.tolist() == [set(), {"a"}]
    assert index.search(ONE, k=1, labels=["a"]).ids.tolist() == [[1]]
