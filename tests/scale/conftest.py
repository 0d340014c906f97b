"""Vectors, a fitted coder, and a cluster of two worker processes shared by the tests."""

import numpy as np
import pytest

from cbid.coders import ITQ


@pytest.fixture(scope="session")
def vectors():
    """1,000 vectors of 12 values in four classes of unequal size, float32."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2, 3], [600, 250, 110, 40])
    X = 3 * rng.normal(size=(4, 12))[y] + rng.normal(size=(1000, 12))
    order = rng.permutation(1000)
    return X[order].astype(np.float32), y[order]


@pytest.fixture(scope="session")
def coder(vectors):
    return ITQ(n_bits=11).fit(vectors[0])


@pytest.fixture(scope="session")
def client():
    distributed = pytest.importorskip("distributed", reason="dask is absent: pip install 'cbid[scale]'")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client
