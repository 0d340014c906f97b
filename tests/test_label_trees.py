"""Trees of labels."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbid.label_trees import LabelTree, parse_tree

PATHS = ["a/dog/poodle", "a/dog/boxer", "a/cat", "v/car"]
PARENTS = {"poodle": "dog", "boxer": "dog", "dog": "a", "cat": "a", "car": "v"}
NESTED = {"a": {"dog": ["poodle", "boxer"], "cat": None}, "v": {"car"}}
LEAVES = ["poodle", "boxer", "cat", "car"]


def test_three_ways_to_write_a_tree():
    """All give poodle and boxer two shared levels, dogs and cat one, animals and car none."""
    expected = [[3, 2, 1, 0], [2, 3, 1, 0], [1, 1, 3, 0], [0, 0, 0, 3]]
    assert parse_tree("/", PATHS).shared_levels(PATHS).tolist() == expected
    for form in (PARENTS, NESTED, parse_tree(PARENTS, LEAVES)):
        assert parse_tree(form, LEAVES).shared_levels(LEAVES).tolist() == expected


def test_paths_and_subtrees():
    tree = parse_tree("/", PATHS)
    assert tree.path("a/dog/boxer") == ("a", "a/dog", "a/dog/boxer")
    assert tree.subtree("a/dog") == {"a/dog", "a/dog/poodle", "a/dog/boxer"}
    assert "a/dog" in tree
    assert "dog" not in tree
    assert [] not in tree
    for call in (tree.path, tree.subtree):
        with pytest.raises(ValueError, match="'dog' is not in the tree"):
            call("dog")


def test_levels_of_a_tree():
    """A class with a shorter path stands for itself further down."""
    nodes, places = parse_tree("/", PATHS).levels(PATHS)
    assert nodes == [["a", "v"], ["a/dog", "a/cat", "v/car"], PATHS]
    assert places.tolist() == [[0, 0, 0, 1], [0, 0, 1, 2], [0, 1, 2, 3]]


def test_a_label_may_be_a_node_with_labels_below_it():
    nodes, places = parse_tree("/", ["a", "a/b"]).levels(["a", "a/b"])
    assert nodes == [["a"], ["a", "a/b"]]
    assert places.tolist() == [[0, 0], [0, 1]]


def test_the_top_may_be_marked_with_none():
    tree = parse_tree({"dog": "a", "a": None, "car": None}, ["dog", "car"])
    assert tree.path("dog") == ("a", "dog")
    assert tree.path("car") == ("car",)


@pytest.mark.parametrize(
    ("tree", "classes", "message"),
    [
        ({"a": "b", "b": "c", "c": "a"}, ["a"], "cycle: 'a' -> 'b' -> 'c' -> 'a'"),
        ({"a": "a"}, ["a"], "cycle: 'a' -> 'a'"),
        ({"a": "b", "c": None}, ["a", "c"], "unknown parent 'b'"),
        ({"a": "b"}, ["a", "x", "y"], "tree lacks 2 of 3 labels of y: 'x', 'y'"),
        ({"a": {"b": None}, "c": {"b": None}}, ["b"], "'b' twice"),
        ({"a": {"b": 3}}, ["b"], "tree holds 3 below 'b'"),
        ({"a": [["b"]]}, ["a"], r"tree holds \['b'\] below 'a'"),
        ({None: "a"}, ["a"], r"tree\[None\]='a'"),
        ({"a": float("nan")}, ["a"], r"tree\['a'\]=nan: expected a label and its parent"),
        ({"a": bytearray()}, ["a"], r"tree\['a'\]=bytearray"),
        ("", ["a"], "tree='': expected a separator"),
        ("/", ["a", 3], "y holds 3"),
        ("/", ["a//b"], "y holds 'a//b'"),
        (3, ["a"], "tree=3: expected a separator"),
    ],
)
def test_bad_trees(tree, classes, message):
    with pytest.raises(ValueError, match=message):
        parse_tree(tree, classes)


@given(st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=4), min_size=1, max_size=8))
def test_shared_levels_follow_the_common_prefix(parts):
    """Two paths share as many levels as their common prefix is long; a path shares all levels with itself."""
    classes = sorted({"/".join(p) for p in parts})
    tree = parse_tree("/", classes)
    assert isinstance(tree, LabelTree)
    shared = tree.shared_levels(classes)
    depth = max(c.count("/") + 1 for c in classes)
    for i, a in enumerate(classes):
        for j, b in enumerate(classes):
            common = 0
            for x, y in zip(a.split("/"), b.split("/")):
                if x != y:
                    break
                common += 1
            above = sum(x != y for x, y in zip(a.split("/"), b.split("/")))
            if i == j:
                assert shared[i, j] == depth
            elif above:  # neither is above the other
                assert shared[i, j] == common
            assert shared[i, j] == shared[j, i]
