"""An index written by release 0.1.0 opens and gives the same results."""

import shutil
from pathlib import Path

import numpy as np

from cbid.search import CodeIndex

SAMPLES = Path(__file__).parents[1] / "storage" / "samples_0_1_0"


def test_an_index_of_0_1_0_gives_the_same_results(tmp_path):
    shutil.copytree(SAMPLES / "codes.index", tmp_path / "codes.index")
    with (
        np.load(SAMPLES / "expected.npz") as expected,
        CodeIndex.open(tmp_path / "codes.index", writable=True) as index,
    ):
        index.verify()
        n_queries, k = expected["ids"].shape
        found = index.search(expected["codes_cbid_linear"][:n_queries], k)
        np.testing.assert_array_equal(found.ids, expected["ids"])
        np.testing.assert_array_equal(found.distances, expected["distances"])
        np.testing.assert_array_equal(found.labels, expected["labels"])
        index.remove(index.ids[:1])
        index.save()
    assert len(CodeIndex.open(tmp_path / "codes.index", verify=True)) == len(index)
