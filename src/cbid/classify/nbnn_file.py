"""Files of NBNN classifiers: the rows of all images, the coder and the descriptor."""

import os
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator

import cbid.coders
from cbid.bags import Bags
from cbid.classify.class_distances import Correction
from cbid.classify.patches import PatchRows, PatchStore, is_fitted
from cbid.coders.base import Coder
from cbid.storage.models import (
    ModelFileError,
    classes_from_json,
    classes_to_json,
    model_parts,
    params_to_json,
    restore_from,
)
from cbid.storage.tensors import Arrays, FileKind

if TYPE_CHECKING:
    from cbid.classify.nbnn import NBNNClassifier

NBNN = FileKind(format="cbid-nbnn", version=1, noun="NBNN classifier", error=ModelFileError)

_OBJECTS = ("coder", "descriptor")
Model = TypeVar("Model", bound="NBNNClassifier")


def save_nbnn(model: "NBNNClassifier", path: str | os.PathLike[str]) -> None:
    """Write a fitted classifier."""
    rows, store = model._rows, model._store
    arrays = store.arrays()
    content: dict[str, Any] = {
        "params": {name: value for name, value in params_to_json(model).items() if name not in _OBJECTS},
        "n_features": int(model.n_features_in_),
        "classes": classes_to_json(model.classes_),
        "ids": model.ids_,
        "seed": model._seed,
        "location": rows.location,
        "coder": None,
        "descriptor": None,
    }
    if rows.components is not None and rows.mean is not None:
        arrays |= {"mean": rows.mean, "components": rows.components}
    if isinstance(model._decision, Correction):  # an SVM is fitted again
        arrays |= {"factor": model._decision.factor, "shift": model._decision.shift}
    if rows.coder is not None:
        coder = rows.coder.estimator if isinstance(rows.coder, FrozenEstimator) else rows.coder
        if not isinstance(coder, Coder):
            raise ValueError(f"coder is a {type(coder).__name__}; expected a coder of cbid, others cannot be saved")
        state, coder_arrays = model_parts(coder)
        arrays |= {f"coder.{name}": array for name, array in coder_arrays.items()}
        content["coder"] = {"kind": type(coder).__name__, "state": state, "was_fitted": is_fitted(model.coder)}
    if model.descriptor is not None:
        params = model.descriptor.get_params(deep=False)
        content["descriptor"] = {"kind": type(model.descriptor).__name__, "params": params}
    NBNN.write(path, content, arrays)


def load_nbnn(cls: type[Model], path: str | os.PathLike[str]) -> Model:
    """Open a classifier that ``save_nbnn`` wrote."""
    return NBNN.restore(path, partial(_restore, cls))


def _restore(cls: type[Model], content: dict[str, Any], arrays: Arrays, source: str) -> Model:
    coder, given = None, None
    if content["coder"] is not None:
        coder_arrays = {name[6:]: array for name, array in arrays.items() if name.startswith("coder.")}
        saved = content["coder"]
        coder = restore_from(cbid.coders, Coder, saved["kind"], saved["state"], coder_arrays, source)
        given = coder if saved["was_fitted"] else clone(coder)
    # Version 0.1.0 knew one decision.
    params = {"decision": "nearest", **content["params"]}
    model = cls(**params, coder=given, descriptor=_descriptor(content["descriptor"], source))
    model._check_params()
    model.classes_ = classes_from_json(content["classes"])
    model.n_features_in_ = int(content["n_features"])
    model._seed = int(content["seed"])
    model._rows = PatchRows(float(content["location"]), arrays.get("mean"), arrays.get("components"), coder)
    model._store = PatchStore.from_arrays(arrays, content["ids"])
    if len(model._store.parts) != len(model.classes_) or not all(model._store.ids):
        raise ValueError(f"{len(model._store.parts)} classes have rows, {len(model.classes_)} have labels")
    _check_rows(model)
    model._build(_correction(arrays, len(model.classes_)))
    return model


def _correction(arrays: Arrays, n_classes: int) -> Correction | None:
    if "factor" not in arrays and "shift" not in arrays:
        return None
    factor, shift = arrays["factor"], arrays["shift"]
    if factor.shape != (n_classes,) or shift.shape != (n_classes,):
        raise ValueError("factor and shift have one number for each class")
    return Correction(factor, shift)


def _check_rows(model: "NBNNClassifier") -> None:
    """Check that the stored rows have the type and width that the settings give."""
    d = model.n_features_in_
    one = Bags(
        np.zeros((1, d), np.float32), np.array([0, 1]), np.zeros((1, 3), np.float32), np.ones((1, 2), np.int64)
    )
    made, stored = model._rows(one), model._store.parts[0]
    if made.shape[1:] != stored.shape[1:] or made.dtype != stored.dtype:
        raise ValueError(f"rows are {stored.dtype} of width {stored.shape[1]}; the settings give others")


def _descriptor(saved: dict[str, Any] | None, source: str) -> Any:
    if saved is None:
        return None
    import cbid.descriptors

    kind = saved["kind"]
    cls = getattr(cbid.descriptors, kind) if kind in cbid.descriptors.__all__ else None
    if not (isinstance(cls, type) and issubclass(cls, cbid.descriptors.LocalDescriptor)):
        raise ModelFileError(f"{source} needs a descriptor of kind {kind!r}, which this cbid does not have")
    return cls(**saved["params"])
