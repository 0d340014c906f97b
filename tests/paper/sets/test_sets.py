"""The data sets themselves, where they are on the machine: counts, cautions, descriptors can be had."""

import hashlib

import numpy as np
import pytest

from cbid.descriptors import describe
from cbid.paper.sets import DataAbsent, open_set
from tests.data.toys import Means

pytestmark = pytest.mark.data

COUNTS = {
    "scene15": (4485, 15),
    "caltech101": (6432, 102),
    "caltech101-five": (2623, 5),
    "coil20": (1440, 20),
    "daimler": (29400, 2),
    "cbcl_faces": (31021, 2),
    "inria_person": (2904, 2),
    "fashion_mnist": (70000, 10),
    "mnist": (70000, 10),
}


def opened(name):
    try:
        return open_set(name)
    except DataAbsent as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize("name", COUNTS)
def test_counts_and_every_split(name):
    data = opened(name)
    assert (len(data), len(data.classes)) == COUNTS[name]
    for protocol, rule in data.info.protocols.items():
        for repeat in range(min(2, rule.repeats)):
            split = data.split(protocol, repeat)
            parts = np.concatenate([split.train, split.validation, split.test])
            assert len(np.unique(parts)) == len(parts)
            assert len(split.test)


@pytest.mark.parametrize(
    ("name", "repeat", "golden"), [("scene15", 0, "35d35e65bd5b9744"), ("caltech101", 4, "649ed01e4c56f3fd")]
)
def test_splits_are_the_same_everywhere(name, repeat, golden):
    """A change of names, of their order or of the hash would change published splits."""
    data = opened(name)
    names = "\n".join(data.images.names[i] for i in data.split("paper", repeat).train)
    assert hashlib.sha256(names.encode()).hexdigest()[:16] == golden


def test_scene15_has_its_duplicates():
    """18 groups of byte-identical images: with distinct, one of each group takes part."""
    data = opened("scene15")
    every, distinct = data.split("usual"), data.split("usual", distinct=True)
    assert len(every.train) == len(distinct.train) == 1500
    assert len(every.test) - len(distinct.test) == 18
    assert data.part("embeddings").shape == (4485, 1280)
    assert (data.part("set") == "train").sum() == 1500


def test_inria_has_its_boxes():
    data = opened("inria_person")
    assert sum(len(boxes) for boxes in data.part("boxes")) == 589
    assert data.images[0].shape[:2] == (128, 64)


def test_a_part_of_each_is_described():
    for name in ("scene15", "caltech101", "coil20", "daimler"):
        data = opened(name)
        some = data.images[:: len(data) // 10]
        values = describe(some, Means()).values
        assert values.shape == (len(some), 2)
        assert (values > 0).all()
