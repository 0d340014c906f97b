"""Algorithm 2 of the paper as a textbook would write it: triplet by triplet, numpy and scipy, no tricks.

Kept as the oracle that tests hold the library against, and as the baseline that ``benchmarks.learner_speed`` times it
against. One shared weight vector, logistic loss, l_1 penalty; random hyperplanes start the search for a bit.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize


@dataclass(frozen=True)
class Triplets:
    """Row numbers of anchors, of one that should be near and of one that should not, (R,) each."""

    anchor: np.ndarray
    positive: np.ndarray
    negative: np.ndarray

    def __len__(self):
        return len(self.anchor)


def coefficients(h, triplets):
    """a_q = |h_i - h_miss| - |h_i - h_hit|, (R,), for the values h (n,) of one bit."""
    own = h[triplets.anchor]
    return np.abs(own - h[triplets.negative]) - np.abs(own - h[triplets.positive])


def relaxed_objective(params, X, triplets, u):
    """-sum_q u_q [(h_i - h_miss)^2 - (h_i - h_hit)^2] / R with h = (2 / pi) arctan(X beta + b), and its gradient.

    The gradient is the paper's: for every triplet the three samples' own gradients, scaled and added.
    """
    beta, b = params[:-1], params[-1]
    x, x_hit, x_miss = X[triplets.anchor], X[triplets.positive], X[triplets.negative]  # (R, d)
    z, z_hit, z_miss = x @ beta + b, x_hit @ beta + b, x_miss @ beta + b
    h, h_hit, h_miss = (2 / np.pi * np.arctan(v) for v in (z, z_hit, z_miss))
    s, s_hit, s_miss = (2 / np.pi / (1 + v * v) for v in (z, z_hit, z_miss))
    R = len(triplets)
    value = np.sum(u * ((h - h_miss) ** 2 - (h - h_hit) ** 2)) / R
    to_miss, to_hit = 2 * u * (h - h_miss) / R, 2 * u * (h - h_hit) / R
    along = (to_miss - to_hit) * s
    gradient = x.T @ along - x_miss.T @ (to_miss * s_miss) + x_hit.T @ (to_hit * s_hit)
    intercept = np.sum(along) - np.sum(to_miss * s_miss) + np.sum(to_hit * s_hit)
    return -value, -np.append(gradient, intercept)


def new_bit(X, triplets, u, rng, n_random):
    """The best of many random hyperplanes, improved by L-BFGS; the better of the two by the true objective."""

    def true_value(params):
        h = np.where(X @ params[:-1] + params[-1] >= 0, 1.0, -1.0)
        return np.mean(u * coefficients(h, triplets)), h

    starts = rng.standard_normal((n_random, X.shape[1] + 1))
    start = max(starts, key=lambda params: true_value(params)[0])
    climbed = minimize(relaxed_objective, start, args=(X, triplets, u), jac=True, method="L-BFGS-B").x
    return max(((*true_value(params), params) for params in (start, climbed)), key=lambda found: found[0])


def fit_weights(A, nu):
    """min over w >= 0 of mean log(1 + exp(-A w)) + nu sum w, by L-BFGS-B from zero; w, the value and u."""

    def objective(w):
        rho = A @ w
        u = 1 / (1 + np.exp(rho))
        return np.mean(np.logaddexp(0, -rho)) + nu * w.sum(), nu - A.T @ u / len(A)

    result = minimize(objective, np.zeros(A.shape[1]), jac=True, method="L-BFGS-B", bounds=[(0, None)] * A.shape[1])
    return result.x, result.fun, 1 / (1 + np.exp(A @ result.x))


def algorithm_2(X, triplets, n_bits, *, nu, n_random=50, seed=0):
    """Hyperplanes (t, d + 1), weights (t,) and the objective after every bit."""
    rng = np.random.default_rng(seed)
    u = np.full(len(triplets), 0.5)
    planes, columns, objectives = [], [], []
    w = np.zeros(0)
    while len(planes) < n_bits:
        value, h, params = new_bit(X, triplets, u, rng, n_random)
        if value <= nu:
            break
        planes.append(params)
        columns.append(coefficients(h, triplets))
        w, objective, u = fit_weights(np.column_stack(columns), nu)
        objectives.append(objective)
    return np.array(planes), w, np.array(objectives)
