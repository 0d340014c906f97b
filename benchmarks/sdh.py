"""Supervised discrete hashing (Shen, Shen, Liu, Shen, CVPR 2015), the rival of the accuracy benchmark.

min over B in {-1,+1}, W, P of ||Y - B W||^2 + lam ||W||^2 + nu ||B - F(X) P||^2, by turns: W and P are ridge
regressions, B is found bit by bit (discrete cyclic coordinate descent). lam = 1, nu = 1e-5 and five rounds are the
authors' values.
"""

import numpy as np


def sdh(F, y, n_bits, *, lam=1.0, nu=1e-5, rounds=5, ridge=1e-3, seed=0):
    """Projections P (d, n_bits): the code of x is sign(F(x) P)."""
    n, d = F.shape
    Y = np.eye(y.max() + 1)[y]
    B = np.sign(np.random.default_rng(seed).standard_normal((n, n_bits)))
    to_P = np.linalg.solve(F.T @ F + ridge * n * np.eye(d), F.T)
    for _ in range(rounds):
        W = np.linalg.solve(B.T @ B + lam * np.eye(n_bits), B.T @ Y)  # (n_bits, k)
        Q = Y @ W.T + nu * (F @ (to_P @ B))
        gram = W @ W.T
        for _ in range(10):
            before = B.copy()
            for s in range(n_bits):
                others = B @ gram[s] - B[:, s] * gram[s, s]
                B[:, s] = np.where(Q[:, s] - others >= 0, 1, -1)
            if np.array_equal(B, before):
                break
    return to_P @ B
