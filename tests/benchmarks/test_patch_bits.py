"""The rotations that rows teach (benchmarks/patch_bits.py), on made patches."""

import numpy as np
import pytest

from benchmarks import patch_bits


class Made:
    """Patches of two classes that differ in the last of 32 axes, which hold equal variance."""

    seed = 0

    def __init__(self, n=1200):
        rng = np.random.default_rng(1)
        self.y = np.repeat([0, 1], n // 2)
        self.X = rng.standard_normal((n, 32)).astype(np.float32)
        self.X[:, 31] = 0.4 * self.X[:, 31] + np.where(self.y == 0, 0.9, -0.9)
        self.image = np.repeat(np.arange(12), n // 12)
        self.axes = self.X, np.zeros(32), np.eye(32), np.ones(32)

    def sample(self, size, stream, images=None):
        return self.X, self.y, self.image


def mean_margin(part, coder):
    """The mean likeness of codes to the nearest of the own class in other images, less that of the other class."""
    B = coder.transform(part.X).astype(np.float32)
    S = B @ B.T
    S[part.image[:, None] == part.image] = -np.inf
    own = part.y[:, None] == part.y
    return float(np.mean(np.where(own, S, -np.inf).max(axis=1) - np.where(own, -np.inf, S).max(axis=1)))


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(patch_bits, "SAMPLES_PER_AXIS", 30)
    monkeypatch.setattr(patch_bits, "ROUNDS", 4)


@pytest.mark.parametrize("loss", ["sigmoid", "logistic", "none", "agreement", "image", "correct"])
def test_rows_raise_the_margins_and_the_rotation_stays_orthogonal(loss):
    part = Made()
    plain = patch_bits.taught(gain=0)(part, 32)
    taught = patch_bits.taught(loss=loss, gain=3.0)(part, 32)
    assert mean_margin(part, taught) > 1.1 * mean_margin(part, plain)
    for coder in (plain, taught):
        lengths = np.linalg.norm(coder.coef_, axis=1, keepdims=True)
        np.testing.assert_allclose((coder.coef_ / lengths) @ (coder.coef_ / lengths).T, np.eye(32), atol=1e-5)


def test_weights_of_rows():
    margins = np.array([[0.0, 4.0], [0.0, -4.0], [0.0, -40.0]])
    own, image = np.zeros(3, int), np.array([0, 0, 1])
    found = {loss: patch_bits.row_weights(margins, loss, own, image, lambda: np.array([0.1, 0.5, 1.0]))[:, 1]
             for loss in ("logistic", "sigmoid", "correct", "agreement", "image", "none")}  # fmt: skip
    assert (np.diff(found["logistic"]) > 0).all()
    assert found["sigmoid"][2] == found["sigmoid"].min()  # far wrong: given up
    assert found["correct"].tolist() == [1, 0, 0]
    assert found["agreement"].tolist() == [0.1, 0.5, 1.0]
    assert found["image"][0] == found["image"][1] < found["image"][2]  # the second image leans to the wrong class
    assert found["none"].tolist() == [1, 1, 1]


def test_agreement_is_the_share_of_the_own_class(monkeypatch):
    monkeypatch.setattr(patch_bits, "AGREE", 2)
    by = np.array([[-np.inf, 3.0, 2.0, 1.0], [0.0, -np.inf, 5.0, 4.0]])
    of_class = np.array([0, 0, 1, 1])
    assert patch_bits.agreement(by, of_class, np.array([0, 0])).tolist() == [0.5, 0.0]
