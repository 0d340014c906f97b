"""The descriptor of a project: by name, with settings for photographs of any size, and as JSON."""

import os
from typing import Any

from cbid import descriptors
from cbid.descriptors import CENTRIST, GIST, HOG, Descriptor, ONNXEmbedding, PyramidHOG, RawPixels
from cbid.project.files import ProjectError
from cbid.storage.models import params_from_json, params_to_json

__all__ = ["DESCRIPTORS", "ONNX", "descriptor_from_json", "descriptor_to_json", "make_descriptor"]

# Each resizes images to one size, so that all have the same number of values.
DESCRIPTORS: dict[str, tuple[type[Descriptor], dict[str, Any]]] = {
    "hog": (HOG, {"size": (128, 128), "cell": 16}),
    "gist": (GIST, {}),
    "phog": (PyramidHOG, {"size": (128, 128)}),
    "centrist": (CENTRIST, {"size": (128, 128)}),
    "pixels": (RawPixels, {"size": (32, 32), "color": True}),
}
ONNX = "onnx:"


def make_descriptor(name: "str | Descriptor") -> Descriptor:
    """Return a descriptor by name (``DESCRIPTORS``, or onnx:FILE), or the given one, and check its settings."""
    if isinstance(name, Descriptor):
        made = name
    elif isinstance(name, str) and name in DESCRIPTORS:
        kind, settings = DESCRIPTORS[name]
        made = kind(**settings)
    elif isinstance(name, str) and name.startswith(ONNX) and len(name) > len(ONNX):
        made = ONNXEmbedding(model=os.path.abspath(name[len(ONNX) :]))
    else:
        raise ValueError(f"descriptor={name!r}: expected one of {', '.join(map(repr, DESCRIPTORS))}, or 'onnx:FILE'")
    return made.fit(None)


def descriptor_to_json(descriptor: Descriptor) -> dict[str, Any]:
    """Return its class, its settings, and a digest of everything its values depend on."""
    settings = descriptor.settings()
    params = {name: value for name, value in params_to_json(descriptor).items() if name in settings}
    return {"kind": type(descriptor).__name__, "params": params, "fingerprint": descriptor.fingerprint()}


def descriptor_from_json(saved: dict[str, Any], given: Descriptor | None = None) -> Descriptor:
    """Return the saved descriptor. One of a class outside cbid must be given, with the same settings."""
    kind = getattr(descriptors, saved["kind"], None) if saved["kind"] in descriptors.__all__ else None
    if given is None:
        if kind is None:
            raise ProjectError(
                f"the project was made with a descriptor of class {saved['kind']}, which is not part of cbid; "
                "open it with Project.open(path, descriptor=...)"
            )
        given = kind(**params_from_json(saved["params"]))
    if given.fingerprint() != saved["fingerprint"]:
        raise ProjectError(
            f"{saved['kind']} gives other values than when the project was fitted (its settings, its version or its "
            "network file changed); fit a new project under another name"
        )
    return given
