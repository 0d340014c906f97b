"""Iterative quantisation (Gong and Lazebnik, CVPR 2011): a point of reference for mean average precision."""

import numpy as np
from sklearn.decomposition import PCA


def itq(X, n_bits, *, rounds=50, seed=0):
    """A function from vectors to bits in -1/+1: principal axes, rotated so that their signs lose least."""
    pca = PCA(n_bits, random_state=0).fit(X)
    V = pca.transform(X)
    R = np.linalg.qr(np.random.default_rng(seed).standard_normal((n_bits, n_bits)))[0]
    for _ in range(rounds):
        U, _, Wt = np.linalg.svd(np.sign(V @ R).T @ V)
        R = (U @ Wt).T
    return lambda Q: np.where(pca.transform(Q) @ R >= 0, 1, -1)
