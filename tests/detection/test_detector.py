import numpy as np
import pytest

from cbid.coders import CBID, ITQ, ModelFileError
from cbid.data import ImageError
from cbid.detection import CBIDVerifier, SlidingWindowDetector, detect_all, evaluate
from cbid.detection.scan import Windows
from cbid.storage.tensors import FileKind
from tests.detection.planted import SETTINGS, detector, scenes, training


@pytest.mark.parametrize("verified", [False, True])
def test_planted_objects_are_found(verified):
    """All rings are found before the first false positive, with their sizes."""
    found = [detector(verified).detect(image) for image, _ in scenes()]
    curve = evaluate(found, [truth for _, truth in scenes()])
    assert curve.n_objects == 8
    assert curve.rates_at(np.array([0.0]))[0] == 1


def test_colour_and_floats_are_taken_too():
    image, truth = scenes()[0]
    for same in (np.repeat(image[:, :, None], 3, axis=2), image / 255.0):
        found, expected = detector().detect(same), detector().detect(image)
        np.testing.assert_allclose(found.boxes[0], expected.boxes[0])
        assert found.scores[0] == pytest.approx(expected.scores[0], abs=0.05)
    assert len(truth.boxes) == 1


def test_the_score_of_a_candidate_is_that_of_its_vector():
    model = detector()
    windows = model.candidates(scenes()[1][0])
    np.testing.assert_allclose(windows.features @ model.coef_ + model.intercept_, windows.scores, atol=1e-4)
    assert windows.scores.min() >= model.threshold
    assert len(windows) <= model.n_candidates


def test_no_more_candidates_than_requested():
    model = SlidingWindowDetector(**SETTINGS, n_candidates=7, n_rounds=0, overlap=1.0).fit(*training())
    assert len(model.candidates(scenes()[1][0])) == 7


def test_the_same_seed_gives_the_same_detector():
    again = SlidingWindowDetector(**SETTINGS, n_jobs=2).fit(*training())
    np.testing.assert_array_equal(again.coef_, detector().coef_)
    other = SlidingWindowDetector(**SETTINGS, random_state=1).fit(*training())
    assert not np.array_equal(other.coef_, detector().coef_)


def test_mining_finds_less_and_less():
    positives, negatives = training()
    model = SlidingWindowDetector(**{**SETTINGS, "n_random": 2, "n_rounds": 4}).fit(positives, negatives)
    assert model.n_mined_[0] > model.n_mined_[-1]


def test_a_verifier_of_any_coder():
    """Learned from what the first step gives, it scores objects above others."""
    model = SlidingWindowDetector(**SETTINGS)
    X, y = model.fit_svm(*training())
    assert X.shape == (len(y), 9 * 36)
    assert y.sum() == 2 * 60  # each ring and a copy of it
    for coder in (None, ITQ(n_bits=32), CBID(n_bits=32)):
        verifier = CBIDVerifier(coder=coder, n_bits=16).fit(X, y)
        codes_alone = verifier.decision_function(X)
        assert codes_alone[y == 1].mean() > codes_alone[y == 0].mean() + 1
        found = verifier.verify(Windows(np.tile([0.0, 0, 1, 1], (5, 1)), np.arange(5), X[:5]))
        np.testing.assert_allclose(found.scores, np.sort(0.5 * codes_alone[:5] + 0.5 * np.arange(5))[::-1])
    assert isinstance(CBIDVerifier(n_bits=16).fit(X, y).coder_, CBID)


def test_a_coder_is_learned_from_some_windows_and_the_svm_from_all():
    y = np.repeat([1, 0], [30, 100])
    for most, expected in [(1000, (30, 100)), (100, (30, 70)), (40, (20, 20))]:
        chosen = CBIDVerifier(max_windows=most).sample(y)
        assert (int(y[chosen].sum()), int(np.sum(y[chosen] == 0))) == expected
        assert np.all(np.diff(chosen) > 0)
    with pytest.raises(ValueError, match=r"y holds \[1, 2\]"):
        CBIDVerifier().fit(np.zeros((4, 3)), [1, 2, 1, 2])


def test_the_verifier_decides_alone_or_not_at_all():
    image = scenes()[1][0]
    model = detector(verified=True)
    windows = model.candidates(image)
    before = model.verifier_.weight
    try:
        model.verifier_.weight = 0.0
        np.testing.assert_allclose(model.detect(image).scores, detector().detect(image).scores, atol=1e-6)
        model.verifier_.weight = 1.0
        alone = model.verifier_.decision_function(windows.features)
        np.testing.assert_array_equal(model.detect(image).scores, np.sort(alone)[::-1])
    finally:
        model.verifier_.weight = before


@pytest.mark.parametrize("verified", [False, True])
def test_a_saved_detector_is_the_same(tmp_path, verified):
    model = detector(verified)
    model.save(tmp_path / "rings.detector")
    again = SlidingWindowDetector.load(tmp_path / "rings.detector")
    assert again.window == (32, 32)
    assert (again.n_mined_, again.intercept_) == (model.n_mined_, model.intercept_)
    for image, _ in scenes():
        ours, theirs = model.detect(image), again.detect(image)
        np.testing.assert_array_equal(ours.boxes, theirs.boxes)
        np.testing.assert_array_equal(ours.scores, theirs.scores)


def test_damaged_files_are_rejected(tmp_path):
    path = tmp_path / "rings.detector"
    detector(True).save(path)
    kind = FileKind("cbid-detector", 1, "detector", ModelFileError)
    content, arrays = kind.read(path)

    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(ModelFileError, match="damaged"):
        SlidingWindowDetector.load(path)
    for change, message in [
        ({"params": content["params"] | {"step": 0}}, "step=0"),
        ({"params": content["params"] | {"window": [64, 64]}}, r"shape \(324,\).*1764"),
        ({"params": {}, "verifier": None}, r"shape \(324,\).*3780"),
        ({"verifier": content["verifier"] | {"kind": "os"}}, "'os'"),
        ({"verifier": 3}, "complete detector"),
    ]:
        kind.write(path, content | change, arrays)
        with pytest.raises(ModelFileError, match=message):
            SlidingWindowDetector.load(path)
    for change, message in [
        ({"coef": np.full(324, np.nan)}, "'coef'"),
        ({"verifier": np.zeros(7)}, r"shape \(7,\).*128 bits"),
    ]:
        kind.write(path, content, arrays | change)
        with pytest.raises(ModelFileError, match=message):
            SlidingWindowDetector.load(path)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"window": (33, 32)}, r"window=\(33, 32\)"),
        ({"border": 16}, "border=16"),
        ({"step": 0}, "step=0"),
        ({"scales_per_octave": 0}, "scales_per_octave=0"),
        ({"upsample": 0}, "upsample=0"),
        ({"step": 2**63}, "step=9223372036854775808"),
        ({"scales_per_octave": 2**31}, "scales_per_octave=2147483648"),
        ({"upsample": 10_000}, "upsample=10000"),
        ({"C": -1}, "C=-1"),
        ({"n_random": 0}, "n_random=0"),
        ({"n_jitter": -1}, "n_jitter=-1"),
        ({"threshold": "low"}, "threshold='low'"),
        ({"measure": "union"}, "measure='union'"),
        ({"verifier": 5}, "verifier=5"),
        ({"verifier": CBIDVerifier(C=0)}, "C=0"),
        ({"verifier": CBIDVerifier(coder=3)}, "coder=3"),
        ({"verifier": CBIDVerifier(weight=2)}, "weight=2"),
    ],
)
def test_wrong_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        SlidingWindowDetector(**{**SETTINGS, **settings}).fit(*training())


def test_empty_or_bad_training_data(tmp_path):
    positives, negatives = training()
    with pytest.raises(ValueError, match="positives is empty"):
        SlidingWindowDetector(**SETTINGS).fit([], negatives)
    with pytest.raises(ValueError, match="negatives is empty"):
        SlidingWindowDetector(**SETTINGS).fit(positives, [])
    with pytest.raises(ValueError, match="the image has 10 x 10 pixels"):
        SlidingWindowDetector(**SETTINGS).fit(positives, [np.zeros((10, 10), np.uint8)])
    (tmp_path / "torn.png").write_bytes(b"\x89PNG\r\n\x1a\n torn")
    with pytest.raises(ImageError, match=r"torn\.png"):
        SlidingWindowDetector(**SETTINGS).fit([tmp_path / "torn.png"], negatives)


def test_one_bad_image_does_not_stop_the_others():
    images = [scenes()[0][0], np.zeros((10, 10), np.uint8), scenes()[1][0]]
    for n_jobs in (1, 2):
        found = dict(detect_all(detector(), images, n_jobs=n_jobs))
        assert list(found) == [0, 1, 2]
        assert "the image has 10 x 10 pixels" in str(found[1])
        np.testing.assert_array_equal(found[2].scores, detector().detect(images[2]).scores)
