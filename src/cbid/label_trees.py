"""Trees of labels: parsed from path labels, from a mapping child -> parent, or from nested dicts."""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class LabelTree:
    """Labels and the groups above them. Several labels may be at the top; the root above them has no name.

    parents : dict
        From each node to the one above it, or to None at the top.

    Examples
    --------
    >>> tree = parse_tree({"dog": "animal", "cat": "animal", "car": "vehicle"}, ["dog", "cat", "car"])
    >>> tree.path("dog"), sorted(tree.subtree("animal"))
    (('animal', 'dog'), ['animal', 'cat', 'dog'])
    """

    parents: dict[Any, Any]

    def __contains__(self, label: Any) -> bool:
        return isinstance(label, Hashable) and label in self.parents

    def path(self, label: Any) -> tuple[Any, ...]:
        """Return the nodes from the top down to ``label``."""
        if label not in self:
            raise ValueError(f"label {label!r} is not in the tree: expected one of its {len(self.parents):,} nodes")
        nodes = [label]
        while self.parents[nodes[-1]] is not None:
            nodes.append(self.parents[nodes[-1]])
        return tuple(reversed(nodes))

    def subtree(self, label: Any) -> set[Any]:
        """Return ``label`` and everything below it."""
        if label not in self:
            raise ValueError(f"label {label!r} is not in the tree: expected one of its {len(self.parents):,} nodes")
        children: dict[Any, list[Any]] = {}
        for child, parent in self.parents.items():
            children.setdefault(parent, []).append(child)
        found, open_nodes = set(), [label]
        while open_nodes:
            node = open_nodes.pop()
            found.add(node)
            open_nodes += children.get(node, [])
        return found

    def levels(self, classes: Iterable[Any]) -> tuple[list[list[Any]], NDArray[np.int64]]:
        """Return the nodes of each level (coarse to fine) and the place of each class there, (levels, classes).

        There are as many levels as the longest path has nodes. A class with a shorter path represents itself on the
        levels below it. The last level has the classes themselves, in their order.
        """
        classes = list(classes)
        paths = [self.path(label) for label in classes]
        depth = max(map(len, paths))
        nodes: list[list[Any]] = []
        places = np.empty((depth, len(paths)), dtype=np.int64)
        for level in range(depth - 1):
            at_level = [path[min(level, len(path) - 1)] for path in paths]
            nodes.append(list(dict.fromkeys(at_level)))
            number = {node: place for place, node in enumerate(nodes[-1])}
            places[level] = [number[node] for node in at_level]
        places[-1] = np.arange(len(classes))
        return [*nodes, classes], places

    def shared_levels(self, classes: Iterable[Any]) -> NDArray[np.int64]:
        """Return for each two classes on how many levels they are in one node, (classes, classes).

        The height of their lowest common ancestor is the number of levels minus this.
        """
        _, places = self.levels(classes)
        return (places[:, :, None] == places[:, None, :]).sum(axis=0)


def parse_tree(tree: Any, classes: Iterable[Any]) -> LabelTree:
    """Return the tree over the labels ``classes``, all of which must be in it.

    Parameters
    ----------
    tree : str, mapping or LabelTree
        A separator: labels are paths such as "animal/dog/poodle", and each prefix of a path is a node. A mapping
        child -> parent: nodes without an entry, or with parent None, are at the top; if any parent is None, every
        parent needs an entry. A nested dict: keys are nodes, values hold what is below: a dict, or a list or set of
        labels; an empty dict or None for nothing.
    classes : iterable of labels
    """
    classes = list(classes)
    if isinstance(tree, LabelTree):
        parents = tree.parents
    elif isinstance(tree, str):
        parents = _from_paths(tree, classes)
    elif isinstance(tree, Mapping):
        nested = any(isinstance(below, (Mapping, list, set)) for below in tree.values())
        parents = _from_nested(tree) if nested else _from_parents(tree)
    else:
        raise ValueError(f"tree={tree!r}: expected a separator, a mapping child -> parent, or a nested dict")
    missing = [label for label in classes if label not in parents]
    if missing:
        names = ", ".join(map(repr, missing[:5])) + (", ..." if len(missing) > 5 else "")
        raise ValueError(
            f"tree lacks {len(missing):,} of {len(classes):,} labels of y: {names}; expected all of them"
        )
    return LabelTree(parents)


def _from_paths(separator: str, classes: list[Any]) -> dict[Any, Any]:
    if not separator:
        raise ValueError("tree='': expected a separator of at least one character")
    parents: dict[Any, Any] = {}
    for label in classes:
        if not isinstance(label, str):
            raise ValueError(f"tree={separator!r} expects path labels, such as 'a{separator}b'; y holds {label!r}")
        parts = label.split(separator)
        if not all(parts):
            raise ValueError(f"y holds {label!r}: expected no empty part between {separator!r}")
        above = None
        for end in range(1, len(parts) + 1):
            node = separator.join(parts[:end])
            parents[node] = above
            above = node
    return parents


def _from_parents(tree: Mapping[Any, Any]) -> dict[Any, Any]:
    parents = dict(tree)
    for child, parent in tree.items():
        if child is None or not isinstance(parent, Hashable) or parent != parent:
            raise ValueError(f"tree[{child!r}]={parent!r}: expected a label and its parent")
    unknown = [parent for parent in parents.values() if parent is not None and parent not in parents]
    if unknown and None in parents.values():
        raise ValueError(
            f"tree has the unknown parent {unknown[0]!r}: expected an entry for every parent, as the top is marked "
            "with None"
        )
    parents.update(dict.fromkeys(unknown))
    known: set[Any] = set()
    for start in parents:
        path: dict[Any, None] = {}
        node = start
        while node is not None and node not in known:
            if node in path:
                nodes = list(path)
                cycle = " -> ".join(repr(name) for name in [*nodes[nodes.index(node) :], node])
                raise ValueError(f"tree has a cycle: {cycle}; expected each node below another or at the top")
            path[node] = None
            node = parents[node]
        known |= path.keys()
    return parents


def _from_nested(tree: Mapping[Any, Any]) -> dict[Any, Any]:
    parents: dict[Any, Any] = {}
    open_parts: list[tuple[Any, Any]] = [(None, tree)]
    while open_parts:
        above, part = open_parts.pop()
        if part is None:
            continue
        if not isinstance(part, (Mapping, list, set)):
            raise ValueError(
                f"tree holds {part!r} below {above!r}: expected a dict, a list or a set of labels, or None"
            )
        for node in part:
            if not isinstance(node, Hashable) or node is None:
                raise ValueError(f"tree holds {node!r} below {above!r}: expected labels")
            if node in parents:
                raise ValueError(f"tree holds {node!r} twice: expected each node in one place")
            parents[node] = above
            if isinstance(part, Mapping):
                open_parts.append((node, part[node]))
    return parents
