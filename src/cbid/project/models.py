"""The descriptor and the coder of a project: choosing them, learning with checkpoints, and prefixes of codes."""

import copy
import os
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import get_tags

from cbid import coders, descriptors
from cbid.checks import check_choice, check_integer, check_share
from cbid.coders import CBID, ITQ, Coder, PatchCBID
from cbid.coders.large_margin import MOST_BITS, LearningInterrupted, WarmStartError
from cbid.codes import n_bytes
from cbid.data.image_sets import Problems
from cbid.descriptors import CENTRIST, GIST, HOG, Descriptor, EfficientNet, ONNXEmbedding, PyramidHOG, RawPixels
from cbid.project.files import ProjectError, ProjectWarning
from cbid.project.table import split_labels
from cbid.storage.models import params_from_json, params_to_json
from cbid.text import count, printable

# Each resizes images to one size, so that all have the same number of values.
DESCRIPTORS: dict[str, tuple[type[Descriptor], dict[str, Any]]] = {
    "efficientnet": (EfficientNet, {}),
    "hog": (HOG, {"size": (128, 128), "cell": 16}),
    "gist": (GIST, {}),
    "phog": (PyramidHOG, {"size": (128, 128)}),
    "centrist": (CENTRIST, {"size": (128, 128)}),
    "pixels": (RawPixels, {"size": (32, 32), "color": True}),
}
ONNX = "onnx:"


def default_descriptor() -> str:
    """Return "efficientnet" if the extra ``deep`` is installed, else "hog"."""
    return "efficientnet" if EfficientNet.is_installed() else "hog"


def descriptor_name(descriptor: Descriptor | None) -> str:
    """Return the name of a descriptor in ``DESCRIPTORS``, or its class."""
    kind = type(descriptor)
    return next((name for name, (known, _) in DESCRIPTORS.items() if known is kind), kind.__name__)


def make_descriptor(name: "str | Descriptor") -> Descriptor:
    """Return a descriptor by name (``DESCRIPTORS``, onnx:FILE or onnx:FILE#LAYER), or the given one, checked."""
    if isinstance(name, Descriptor):
        made = name
    elif isinstance(name, str) and name in DESCRIPTORS:
        kind, settings = DESCRIPTORS[name]
        made = kind(**settings)
    elif isinstance(name, str) and name.startswith(ONNX) and len(name) > len(ONNX):
        file, _, layer = name[len(ONNX) :].rpartition("#")
        if not file or os.path.exists(name[len(ONNX) :]):  # the name of a file may contain "#"
            file, layer = name[len(ONNX) :], ""
        made = ONNXEmbedding(model=os.path.abspath(file), layer=layer or None)
    else:
        accepted = ", ".join(map(repr, DESCRIPTORS))
        raise ValueError(f"descriptor={name!r}: expected one of {accepted}, or 'onnx:FILE' or 'onnx:FILE#LAYER'")
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


# The coders that take one vector per image.
CODERS = tuple(
    name
    for name in coders.__all__
    if isinstance(kind := getattr(coders, name), type) and issubclass(kind, Coder) and kind not in (Coder, PatchCBID)
)
_NOT_SETTINGS = ("n_jobs", "verbose", "warm_start", "callback")
_CHECKPOINT_SECONDS = 15.0  # of learning that a killed fit may lose
_SHORTEST_PREFIX = 8
_ENCODE_BYTES = 64 * 2**20  # of vectors that are encoded at a time


def choose_coder(
    coder: "str | Coder | None",
    n_bits: int,
    labels: list[str | None],
    *,
    seed: int,
    n_jobs: int | None,
    skipped: Problems,
) -> Coder:
    """Return the coder to learn: the given one (name or unfitted coder), or CBID with labels and ITQ without.

    ``skipped`` is named in the error message if labels are missing.
    """
    given: dict[str, Any] = {"n_bits": n_bits, "random_state": seed, "n_jobs": n_jobs}
    classes = sorted({name for label in labels for name in split_labels(label)})
    if coder is None:
        if not classes:
            warnings.warn(
                "the images have no labels, so ITQ learns the codes; with class folders CBID learns better ones",
                ProjectWarning,
                stacklevel=4,
            )
        coder = "CBID" if classes else "ITQ"
    if isinstance(coder, str):
        if coder not in CODERS:
            raise ValueError(f"coder={coder!r}: expected one of {', '.join(CODERS)}")
        made: Any = getattr(coders, coder)()
        accepted = made.get_params()
        made.set_params(**{name: value for name, value in given.items() if name in accepted})
    elif isinstance(coder, Coder):
        made = clone(coder)
    else:
        raise ValueError(f"coder={coder!r}: expected a name or a coder of cbid.coders")
    if is_supervised(made) and len(classes) < 2:
        found = f"one label ({classes[0]!r})" if classes else "no labels"
        raise ValueError(
            f"the images have {found}, but {type(made).__name__} needs at least two classes: "
            "give a folder of class folders, or choose a coder that needs no labels, such as ITQ"
            + (f" ({skipped_message(skipped)})" if skipped else "")
        )
    chosen: Coder = made
    return chosen


def skipped_message(failures: Problems) -> str:
    """Return how many files of each format were skipped, and why the first of them was."""
    name, reason = failures[0]
    formats = Counter(Path(other).suffix.lower() for other, _ in failures)
    kinds = ", ".join(f"{n} {printable(suffix)}" for suffix, n in sorted(formats.items()) if suffix)
    of_which = f" ({kinds})" if kinds else ""
    return f"skipped {count(len(failures), 'file')} of the source{of_which}, such as {printable(name)}: {reason}"


def check_settings(coder: Coder) -> None:
    """Raise a ValueError for settings that are wrong for any images, before images are read."""
    if isinstance(coder, CBID):
        coder.check_params()
    check_integer("n_bits", coder.get_params().get("n_bits", 1), 1, MOST_BITS)


def is_supervised(coder: Coder) -> bool:
    """Return whether the coder learns from labels. CBID does, although it accepts vectors without them too."""
    return isinstance(coder, CBID) or bool(get_tags(coder).target_tags.required)


def coder_settings(coder: Coder) -> dict[str, Any]:
    """Return the settings that the codes depend on, as JSON values."""
    params = {name: value for name, value in params_to_json(coder).items() if name not in _NOT_SETTINGS}
    return {"kind": type(coder).__name__, **params}


def learn(
    coder: Coder,
    X: NDArray[np.float32],
    y: Any,
    *,
    checkpoint: Path,
    verbose: bool,
    report: Callable[[int], Any] | None = None,
    tree: str | None = None,
) -> Coder:
    """Fit the coder on vectors X (n, d) and labels y (n,), or a list of lists of labels.

    CBID learns bit by bit. It is saved to the file ``checkpoint`` meanwhile, and continues from there if the file
    belongs to the same data and settings. Other coders start from the beginning. ``report`` gets the number of bits
    after each one.
    """
    if "verbose" in coder.get_params():
        coder.set_params(verbose=int(verbose))
    if isinstance(coder, CBID):
        coder = _learn_from_checkpoint(coder, X, y, tree, checkpoint, report or (lambda done: None))
    else:
        most = min(len(X) - 1, X.shape[1])  # directions in which the images differ
        if isinstance(coder, ITQ) and coder.n_bits > most:
            warnings.warn(
                f"n_bits={coder.n_bits}: ITQ learns only {most} bits from {len(X)} images of {X.shape[1]} values",
                ProjectWarning,
                stacklevel=6,
            )
            coder.set_params(n_bits=most)
        coder.fit(X, y)
    weights = getattr(coder, "weights_", None)
    if weights is not None and np.ndim(weights) != 1:
        raise ValueError("coder: expected one weight vector for all classes (margin='shared'), not one per class")
    return coder


def _learn_from_checkpoint(
    coder: CBID, X: NDArray[np.float32], y: Any, tree: str | None, checkpoint: Path, report: Callable[[int], Any]
) -> CBID:
    saved = _saved(coder, checkpoint)
    if saved is not None:
        try:
            return _learn_with_checkpoints(saved, X, y, tree, checkpoint, report)
        except WarmStartError:
            pass  # the checkpoint belongs to other images
    return _learn_with_checkpoints(coder, X, y, tree, checkpoint, report)


def _saved(coder: CBID, checkpoint: Path) -> CBID | None:
    """Return the coder of the checkpoint, ready for a warm start, or None if it is missing, damaged or different."""
    try:
        saved = coders.load(checkpoint)
    except (ValueError, OSError):
        return None
    if not isinstance(saved, CBID) or coder_settings(saved) != coder_settings(coder):
        return None
    saved.set_params(warm_start=True, verbose=coder.verbose, n_jobs=coder.n_jobs)
    return saved


def _learn_with_checkpoints(
    coder: CBID, X: Any, y: Any, tree: str | None, checkpoint: Path, report: Callable[[int], Any]
) -> CBID:
    last = time.monotonic()
    latest: CBID | None = None

    def save(learned: CBID) -> None:
        nonlocal last, latest
        report(learned.n_bits_)
        latest = copy.copy(learned)  # the coder itself is reset if its fit fails
        if time.monotonic() - last > _CHECKPOINT_SECONDS:
            learned.save(checkpoint)
            last = time.monotonic()

    coder.set_params(callback=save)
    try:
        with warnings.catch_warnings():
            # After Ctrl-C a coder keeps its bits and returns. A project must be complete: save them and stop.
            warnings.simplefilter("error", LearningInterrupted)
            coder.fit(X, y, tree=tree)
    except LearningInterrupted:
        if latest is not None:
            latest.save(checkpoint)
        raise KeyboardInterrupt from None
    finally:
        coder.set_params(callback=None)
    coder.set_params(warm_start=False)
    return coder


def encode_rows(coder: Coder, vectors: NDArray[np.float32], ids: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return packed codes (n, ceil(n_bits/8)) of the rows ``ids`` of a mapped file, read in parts."""
    size = max(1, _ENCODE_BYTES // (4 * vectors.shape[1]))
    parts = [coder.encode(vectors[ids[i : i + size]]) for i in range(0, len(ids), size)]
    return np.concatenate([np.empty((0, n_bytes(coder.n_bits_)), np.uint8), *parts])


def prefix_lengths(coder: Coder) -> list[int]:
    """Return the code lengths for search: powers of two from 8, then the whole code.

    Without prefixes (no ``truncate``) it is the whole code alone.
    """
    t = coder.n_bits_
    if not hasattr(coder, "truncate"):
        return [t]
    return [1 << s for s in range(_SHORTEST_PREFIX.bit_length() - 1, 17) if 1 << s < t] + [t]


def has_dial(coder: Coder) -> bool:
    """Return whether the weights of the coder can follow a likeness at query time (``weights_at``)."""
    return hasattr(coder, "dial_")


def prefix_weights(coder: Coder, n_bits: int, how: str, likeness: float | None = None) -> NDArray[np.float64]:
    """Return weights (n_bits_,) that give whole codes the distance of their first ``n_bits`` bits.

    "weighted": the weights fitted at that length (1 if the coder has none), or those between "same class" (0) and
    "looks alike" (1) if ``likeness`` is given. "plain": 1. Zero after the prefix.
    """
    check_choice("how", how, ("weighted", "plain"))
    if likeness is not None:
        check_share("likeness", likeness)
        if how != "weighted":
            raise ValueError(f"likeness={likeness}: expected how='weighted', not how={how!r}")
        if not has_dial(coder):
            raise ValueError(
                f"likeness={likeness}: the codes of this project have one set of weights; it needs CBID learned with "
                "labels and a likeness between 0 and 1"
            )
    check_integer("n_bits", n_bits, 1, coder.n_bits_)
    short = coder
    if n_bits < coder.n_bits_:
        if not hasattr(coder, "truncate"):
            raise ValueError(
                f"n_bits={n_bits}: expected {coder.n_bits_}, because {type(coder).__name__} has no prefix codes"
            )
        short = coder.truncate(n_bits)
    weights = np.zeros(coder.n_bits_)
    fitted = getattr(short, "weights_", None) if how == "weighted" else None
    if likeness is not None:
        fitted = short.weights_at(likeness)
    weights[:n_bits] = 1.0 if fitted is None else fitted
    return weights
