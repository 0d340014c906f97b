"""Label trees: planted groups are cut first, and the nodes make a binary tree."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cbid.pooling.label_tree import confusion_affinity, grow_tree


def test_affinity_of_a_small_case():
    """Class 0: two of four taken for class 1; class 1: one of two taken for class 0; class 2: none mistaken."""
    numbers, predicted = np.array([0, 0, 0, 0, 1, 1, 2]), np.array([0, 0, 1, 1, 1, 0, 2])
    expected = [[0.5, 0.5, 0], [0.5, 0.5, 0], [0, 0, 1]]
    np.testing.assert_allclose(confusion_affinity(numbers, predicted), expected)


def test_planted_groups_are_cut_first():
    """{0, 2, 4} against {1, 3, 5}; within the first, 0 and 4 belong together more than either with 2."""
    groups = np.array([0, 1, 0, 1, 0, 1])
    affinity = np.where(groups[:, None] == groups, 0.2, 0.01)
    affinity[0, 4] = affinity[4, 0] = 0.5
    nodes = [set(np.flatnonzero(node)) for node in grow_tree(affinity)]
    assert nodes[:2] == [{0, 2, 4}, {1, 3, 5}]
    assert nodes[2:4] == [{0, 4}, {2}]


@given(st.integers(1, 12), st.integers(0, 1000), st.sampled_from([0.0, 0.3, 1.0]))
def test_the_nodes_make_a_binary_tree(k, seed, density):
    rng = np.random.default_rng(seed)
    affinity = rng.random((k, k)) * (rng.random((k, k)) < density)
    nodes = grow_tree(affinity + affinity.T)
    assert nodes.shape == (2 * k - 2, k)
    pairs = nodes.reshape(-1, 2, k)
    found = [frozenset(range(k))]
    for first, second in pairs:
        parts = frozenset(np.flatnonzero(first)), frozenset(np.flatnonzero(second))
        assert all(parts)
        assert not parts[0] & parts[1]
        assert parts[0] | parts[1] in found  # a node that came before
        found.extend(parts)
    assert len(set(found)) == 2 * k - 1
