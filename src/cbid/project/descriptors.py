"""Descriptors by name, with settings that suit photographs of any size; and descriptors as JSON and back."""

import os
from typing import Any

from cbid import descriptors
from cbid.descriptors import CENTRIST, GIST, HOG, Descriptor, ONNXEmbedding, PyramidHOG, RawPixels
from cbid.project.errors import ProjectError
from cbid.storage.models import params_from_json, params_to_json

__all__ = ["DESCRIPTORS", "ONNX", "descriptor_from_json", "descriptor_to_json", "make_descriptor"]

# Each brings images to one size first, so that all have equally many values.
DESCRIPTORS: dict[str, tuple[type[Descriptor], dict[str, Any]]] = {
    "hog": (HOG, {"size": (128, 128), "cell": 16}),
    "gist": (GIST, {}),
    "phog": (PyramidHOG, {"size": (128, 128)}),
    "centrist": (CENTRIST, {"size": (128, 128)}),
    "pixels": (RawPixels, {"size": (32, 32), "color": True}),
}
ONNX = "onnx:"


def make_descriptor(name: "str | Descriptor") -> Descriptor:
    """A descriptor by its name, one of ``DESCRIPTORS`` or onnx:FILE; one that is made already is taken as it is."""
    if isinstance(name, Descriptor):
        made = name
    elif isinstance(name, str) and name in DESCRIPTORS:
        kind, settings = DESCRIPTORS[name]
        made = kind(**settings)
    elif isinstance(name, str) and name.startswith(ONNX) and len(name) > len(ONNX):
        made = ONNXEmbedding(model=os.path.abspath(name[len(ONNX) :]))
    else:
        accepted = ", ".join(map(repr, DESCRIPTORS))
        raise ValueError(f"descriptor={name!r}: expected one of {accepted}, or 'onnx:FILE'")
    made._check_params()
    return made


def descriptor_to_json(descriptor: Descriptor) -> dict[str, Any]:
    """Its class and settings, and a digest of all that its values depend on."""
    params = {k: v for k, v in params_to_json(descriptor).items() if k not in descriptor._NOT_SETTINGS}
    return {"kind": type(descriptor).__name__, "params": params, "fingerprint": descriptor.fingerprint()}


def descriptor_from_json(saved: dict[str, Any], given: Descriptor | None = None) -> Descriptor:
    """The descriptor again; one of your own class has to be given, and must have the same settings."""
    kind = getattr(descriptors, saved["kind"], None) if saved["kind"] in descriptors.__all__ else None
    if given is None:
        if kind is None:
            raise ProjectError(
                f"the project was made with a descriptor of class {saved['kind']}, which this cbid does not have; "
                "open it with Project.open(path, descriptor=...)"
            )
        given = kind(**params_from_json(saved["params"]))
    if given.fingerprint() != saved["fingerprint"]:
        raise ProjectError(
            f"{saved['kind']} gives other values now than when the project was fitted (its settings, its version or "
            "its network file have changed); fit the project anew under another name"
        )
    return given
