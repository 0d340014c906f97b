import numpy as np
import pytest

from cbid.data.image_sets import as_image_set
from cbid.detection.drawing import write_picture
from cbid.detection.layout import WindowLayout
from cbid.detection.scan import NegativeWindows, Scanner, random_windows
from tests.descriptors.photographs import gray

SCANNER = Scanner(WindowLayout((32, 32)), step=8, scales_per_octave=2, border=0)


def test_random_windows_are_windows_of_the_photograph():
    """With one place only, each drawn window is that one."""
    image = gray()[0][:32, :32]
    values = random_windows(SCANNER, image, 3, np.random.default_rng(0))
    only = SCANNER.scan(image, np.zeros(324), 0.0, -1.0).features
    np.testing.assert_allclose(values, np.repeat(only, 3, axis=0), atol=1e-6)


def test_random_windows_come_from_all_scales():
    """A photograph of constant slope along x: every window has the same vector, whatever its scale; none is zero."""
    image = np.tile(np.linspace(0, 1, 160), (100, 1))
    values = random_windows(SCANNER, image, 40, np.random.default_rng(0))
    assert values.shape == (40, 324)
    assert (np.abs(values).sum(axis=1) > 0).all()


def test_hard_windows_are_the_highest_and_come_once():
    photographs = [g[:100, :120] for g in gray()]
    weights = np.random.default_rng(0).standard_normal(324)
    mined = NegativeWindows(SCANNER, photographs, most=5)
    assert mined.add_hard(weights, 0.0, -np.inf) == 15
    for photograph, rows in zip(photographs, mined.features):
        expected = SCANNER.scan(photograph, weights, 0.0, -np.inf).scores[:5]
        np.testing.assert_allclose(rows @ weights, expected, atol=1e-4)
    assert mined.add_hard(weights, 0.0, -np.inf) == 0
    assert mined.add_hard(-weights, 0.0, -np.inf) > 0
    assert mined.rows().shape[1] == 324


def test_threads_draw_the_same_windows():
    photographs = [g[:100, :120] for g in gray()]
    drawn = []
    for n_jobs in (1, 3):
        mined = NegativeWindows(SCANNER, photographs, most=5, n_jobs=n_jobs)
        mined.add_random(4, np.random.default_rng(0))
        drawn.append(mined.rows())
    np.testing.assert_array_equal(*drawn)


def test_a_photograph_that_is_too_small_is_named(tmp_path):
    """By its path, or else by its number; when windows are drawn and when they are mined."""
    small = gray()[0][:20, :20]
    write_picture(tmp_path / "small.png", small)
    for photographs, name in (([small], "photograph 0"), (as_image_set([tmp_path / "small.png"]), r"small\.png")):
        mined = NegativeWindows(SCANNER, photographs, most=5)
        with pytest.raises(ValueError, match=rf"negatives: .*{name}: the image has 20 x 20 pixels"):
            mined.add_random(4, np.random.default_rng(0))
        with pytest.raises(ValueError, match=rf"negatives: .*{name}"):
            mined.add_hard(np.zeros(324), 0.0, 0.0)
