"""Files of detectors: settings and SVM; with a verifier its coder and SVM. No pickle."""

import os
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

import cbid.coders
from cbid.coders.base import Coder
from cbid.detection.verifier import CBIDVerifier
from cbid.storage.models import ModelFileError, model_parts, params_from_json, params_to_json, restore_from
from cbid.storage.tensors import Arrays, FileKind

if TYPE_CHECKING:
    from cbid.detection.detector import SlidingWindowDetector

__all__ = ["load_detector", "save_detector"]

DETECTOR = FileKind(format="cbid-detector", version=1, noun="detector", error=ModelFileError)
_CODER = "coder."

Model = TypeVar("Model", bound="SlidingWindowDetector")


def save_detector(detector: "SlidingWindowDetector", path: str | os.PathLike[str]) -> None:
    """Write a fitted detector."""
    check_is_fitted(detector, "coef_")
    arrays: Arrays = {"coef": detector.coef_}
    content: dict[str, Any] = {
        "params": _params(detector, "verifier"),
        "intercept": detector.intercept_,
        "n_mined": detector.n_mined_,
        "verifier": None,
    }
    verifier = detector.verifier_
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
    DETECTOR.write(path, content, arrays)


def load_detector(cls: type[Model], path: str | os.PathLike[str]) -> Model:
    """Open a detector that ``save_detector`` wrote."""
    return DETECTOR.restore(path, partial(_restore, cls))


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
