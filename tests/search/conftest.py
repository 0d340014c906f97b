"""A small index, in memory and saved."""

import numpy as np
import pytest

from cbid.search import CodeIndex
from tests.search.reference import random_codes


@pytest.fixture
def index():
    rng = np.random.default_rng(0)
    index = CodeIndex(20, np.arange(20) / 4)
    index.add(random_codes(rng, 100, 20), labels=rng.integers(0, 5, 100))
    index.remove([3, 50])
    return index


@pytest.fixture
def saved(index, tmp_path):
    index.save(tmp_path / "index")
    return tmp_path / "index"
