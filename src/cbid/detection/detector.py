"""The sliding-window detector of Dalal and Triggs (2005): HOG, a linear SVM, hard negatives; and verification."""

import os
from collections.abc import Iterator
from dataclasses import fields
from functools import partial
from typing import Any, Self, TypeVar

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

import cbid.coders
from cbid.checks import check_integer, check_share
from cbid.coders.base import Coder
from cbid.data.image_sets import as_image_set
from cbid.data.images import check_image
from cbid.detection.boxes import MEASURES, Detections, suppress
from cbid.detection.layout import WindowLayout, jittered_windows
from cbid.detection.scan import NegativeWindows, Scanner, Windows
from cbid.detection.verifier import CBIDVerifier, fit_svm
from cbid.params import check_params, choice, estimator, integer, param, positive, real
from cbid.progress import image_progress
from cbid.storage.models import ModelFileError, model_parts, params_from_json, params_to_json, restore_from
from cbid.storage.tensors import Arrays, FileKind
from cbid.threads import ordered_map

Floats = NDArray[np.float32]
Model = TypeVar("Model", bound="SlidingWindowDetector")

DETECTOR_FILE = FileKind(format="cbid-detector", version=1, noun="detector", error=ModelFileError)
_CODER = "coder."


@estimator
class SlidingWindowDetector(BaseEstimator):
    """Detect objects of one kind in photographs. The defaults are for pedestrians.

    Parameters
    ----------
    window : (height, width)
        In pixels, multiples of ``cell``.
    border : int
        Pixels of the window around the object, on every side. Returned boxes are those of the object; windows may
        extend that far beyond the photograph.
    cell, block, orientations, signed, voting, norm, sqrt
        As in ``HOG``; 3,780 values by default.
    step : int
        Pixels between windows, at every scale.
    scales_per_octave : int
        Scales from one size to its double.
    upsample : float
        Factor by which photographs are enlarged before the scan, for objects smaller than the window.
    C : float
        Weight of the losses in the SVM.
    n_random : int
        Windows drawn from each negative photograph for the first SVM.
    n_rounds : int
        Rounds of hard-negative mining: scans of the negative photographs for false positives.
    n_hard : int
        Most hard windows of a photograph in each round, highest scores first.
    n_jitter : int
        Copies of each object, shifted and resized by up to one step of the scan, for the verifier, which sees
        objects as a scan finds them.
    threshold : float
        Least SVM score of a window, in mining and in detection; -1 is the margin of the negatives.
    n_candidates : int
        Most windows of a photograph before suppression, best scores first.
    overlap : float
    measure : {"smaller", "iou"}
        Of two windows that overlap by more than ``overlap``, the better one is kept (``suppress``).
    verifier : CBIDVerifier or None
        Rescores the windows that suppression keeps; ``fit`` fits a copy.
    n_jobs : int or None
        Threads, one photograph each.
    verbose : int
        1 shows progress.
    random_state : int, RandomState or None

    Attributes
    ----------
    coef_, intercept_ : (d,), float
        The SVM on HOG vectors.
    verifier_ : CBIDVerifier or None
    n_mined_ : list of int
        Hard windows found in each round.
    """

    window: tuple[int, int] = (128, 64)
    border: int = 16
    cell: int = 8
    block: int = 2
    orientations: int = 9
    signed: bool = False
    voting: str = "trilinear"
    norm: str = "l2-hys"
    sqrt: bool = False
    step: int = param(4, integer(1, 2**16))
    scales_per_octave: int = param(10, integer(1, 100))  # more would take hours
    upsample: float = param(1.0, real(0, 8.0000001, open_below=True))
    C: float = param(0.01, positive)
    n_random: int = param(20, integer(1))
    n_rounds: int = param(2, integer(0))
    n_hard: int = param(60, integer(1))
    n_jitter: int = param(1, integer(0))
    threshold: float = param(-1.0, real(-float("inf")))
    n_candidates: int = param(1000, integer(1))
    overlap: float = param(0.65, check_share)
    measure: str = param("smaller", choice(*MEASURES))
    verifier: CBIDVerifier | None = None
    n_jobs: int | None = None
    verbose: int = 0
    random_state: Any = 0

    def check_params(self) -> None:
        """Raise a ValueError for the first invalid setting."""
        self.layout().check()
        check_params(self)
        check_integer("border", self.border, 0, (min(self.window) - 1) // 2)
        if self.verifier is not None:
            if not isinstance(self.verifier, CBIDVerifier):
                raise ValueError(f"verifier={self.verifier!r}: expected a CBIDVerifier, or None")
            self.verifier.check_params()

    def layout(self) -> WindowLayout:
        """Return the layout of the window."""
        return WindowLayout(**{field.name: getattr(self, field.name) for field in fields(WindowLayout)})

    def scanner(self) -> Scanner:
        """Return the scanner of photographs."""
        return Scanner(self.layout(), self.step, self.scales_per_octave, self.upsample, self.border)

    def fit(self, positives: Any, negatives: Any) -> Self:
        """Fit on pictures of objects and on photographs without any.

        Parameters
        ----------
        positives
            Pictures of the window with the object ``border`` pixels inside, preferably with a few more pixels on all
            sides (``WindowLayout.describe``); arrays, paths or an ``ImageSet``.
        negatives
            Whole photographs; arrays, paths or an ``ImageSet``.
        """
        X, y = self.fit_svm(positives, negatives)
        self.verifier_ = None if self.verifier is None else clone(self.verifier).fit(X, y)
        return self

    def fit_svm(self, positives: Any, negatives: Any) -> tuple[Floats, NDArray[np.int64]]:
        """Fit only the SVM, the first step of ``fit``; return the training data of a verifier.

        These are the HOG vectors (n, d) of all objects with ``n_jitter`` copies of each and of all random and hard
        windows, and labels (n,): 1 for objects, 0 for others.
        """
        self.check_params()
        objects, photographs = as_image_set(positives), as_image_set(negatives)
        for name, given in (("positives", objects), ("negatives", photographs)):
            if len(given) == 0:
                raise ValueError(f"{name} is empty; expected at least one picture")
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        n_jobs = effective_n_jobs(self.n_jobs)
        layout = self.layout()

        def describe(i: int) -> Floats:
            """Return object i, then its copies."""
            image, rng = objects[i], np.random.default_rng([seed, i])
            octaves = 1 / self.scales_per_octave
            copies = jittered_windows(layout, image, self.n_jitter, rng, shift=self.step, octaves=octaves)
            return np.concatenate([layout.describe(image)[None], copies])

        tasks = ((i, (i,)) for i in range(len(objects)))
        with threadpool_limits(1, user_api="blas"):
            described = np.array([values for _, values in ordered_map(describe, tasks, n_jobs, threads=True)])
            P, copies = described[:, 0], described[:, 1:].reshape(-1, layout.n_features)
            mined = NegativeWindows(self.scanner(), photographs, self.n_hard, n_jobs, self.verbose)
            mined.add_random(self.n_random, np.random.default_rng(seed))
            self.verifier_ = None
            self.n_mined_: list[int] = []
            self.coef_, self.intercept_ = self._svm(P, mined.rows())
            for _ in range(self.n_rounds):
                self.n_mined_.append(mined.add_hard(self.coef_, self.intercept_, self.threshold))
                self.coef_, self.intercept_ = self._svm(P, mined.rows())
        others = mined.rows()
        labels = np.repeat([1, 0], [len(P) + len(copies), len(others)])
        return np.concatenate([P, copies, others]), labels

    def _svm(self, positive: Floats, negative: Floats) -> tuple[NDArray[np.float64], float]:
        X = np.concatenate([positive, negative])
        y = np.repeat([1, 0], [len(positive), len(negative)])
        return fit_svm(X, y, C=self.C, random_state=check_random_state(self.random_state).randint(2**31 - 1))

    def candidates(self, image: NDArray[Any]) -> Windows:
        """Return the windows of the SVM after suppression, best first, with HOG vectors and boxes of the objects."""
        check_is_fitted(self, "coef_")
        found = self.scanner().scan(
            check_image(image), self.coef_, self.intercept_, self.threshold, self.n_candidates
        )
        height, width = self.window
        inset = (found.boxes[:, 2:] - found.boxes[:, :2]) * (self.border / np.array([width, height]))
        boxes = np.hstack([found.boxes[:, :2] + inset, found.boxes[:, 2:] - inset])
        windows = Windows(boxes, found.scores, found.features)
        return windows.take(suppress(windows.boxes, windows.scores, overlap=self.overlap, measure=self.measure))

    def detect(self, image: NDArray[Any]) -> Detections:
        """Return the objects in a photograph, (h, w) or (h, w, 3), uint8 or floats in 0..1; best first."""
        windows = self.candidates(image)
        return windows.detections() if self.verifier_ is None else self.verifier_.verify(windows)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the detector, with verifier and coder, to one safetensors file."""
        check_is_fitted(self, "coef_")
        arrays: Arrays = {"coef": self.coef_}
        content: dict[str, Any] = {
            "params": _params(self, "verifier"),
            "intercept": self.intercept_,
            "n_mined": self.n_mined_,
            "verifier": None,
        }
        verifier = self.verifier_
        if verifier is not None:
            state, coder_arrays = model_parts(verifier.coder_)
            arrays |= {_CODER + name: array for name, array in coder_arrays.items()}
            arrays["verifier"] = verifier.coef_
            content["verifier"] = {
                "params": _params(verifier, "coder"),
                "coder_given": verifier.coder is not None,
                "intercept": verifier.intercept_,
                "kind": type(verifier.coder_).__name__,
                "state": state,
            }
        DETECTOR_FILE.write(path, content, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Open a detector that ``save`` wrote."""
        return DETECTOR_FILE.restore(path, partial(_restore, cls))


def detect_all(
    detector: SlidingWindowDetector, images: Any, *, n_jobs: int | None = None, verbose: int = 0
) -> Iterator[tuple[int, Detections | ValueError | OSError]]:
    """Yield (i, detections in image i) for all images: arrays, paths or an ``ImageSet``; in parallel, in order.

    For an image that cannot be read or is smaller than the window the error is yielded instead of detections.
    """
    photographs = as_image_set(images)

    def search(i: int) -> Detections | ValueError | OSError:
        try:
            return detector.detect(photographs.read(i))
        except (ValueError, OSError) as error:
            return error

    tasks = ((i, (i,)) for i in range(len(photographs)))
    with (
        threadpool_limits(1, user_api="blas"),
        image_progress(len(photographs), "photographs", shown=bool(verbose)) as advance,
    ):
        for i, found in ordered_map(search, tasks, effective_n_jobs(n_jobs), threads=True):
            advance(1)
            if found is not None:
                yield i, found


# Files: settings and SVM; with a verifier its coder and SVM. No pickle.


def _restore(cls: type[Model], content: dict[str, Any], arrays: Arrays, source: str) -> Model:
    fitted = None if content["verifier"] is None else _verifier(content["verifier"], arrays, source)
    detector = cls(**params_from_json(content["params"]), verifier=None if fitted is None else clone(fitted))
    detector.check_params()
    detector.coef_, detector.intercept_ = arrays["coef"], float(content["intercept"])
    detector.n_mined_ = [int(n) for n in content["n_mined"]]
    detector.verifier_ = fitted
    d = detector.layout().n_features
    if detector.coef_.shape != (d,):
        raise ValueError(f"the SVM has shape {detector.coef_.shape}; expected ({d},) for its window")
    if fitted is not None and fitted.coder_.n_features_in_ != d:
        raise ValueError(f"the coder expects {fitted.coder_.n_features_in_} values; the window has {d}")
    return detector


def _verifier(saved: dict[str, Any], arrays: Arrays, source: str) -> CBIDVerifier:
    coder_arrays = {name[len(_CODER) :]: array for name, array in arrays.items() if name.startswith(_CODER)}
    coder: Coder = restore_from(cbid.coders, Coder, saved["kind"], saved["state"], coder_arrays, source)
    verifier = CBIDVerifier(**params_from_json(saved["params"]), coder=clone(coder) if saved["coder_given"] else None)
    verifier.check_params()
    verifier.coder_ = coder
    verifier.coef_, verifier.intercept_ = arrays["verifier"], float(saved["intercept"])
    if verifier.coef_.shape != (coder.n_bits_,):
        raise ValueError(f"the verifier has shape {verifier.coef_.shape}; its codes have {coder.n_bits_} bits")
    return verifier


def _params(estimator: Any, without: str) -> dict[str, Any]:
    return {name: value for name, value in params_to_json(estimator).items() if name != without}
