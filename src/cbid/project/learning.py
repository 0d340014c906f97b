"""The coder of a project: chosen, and learned so that a killed fit goes on."""

import copy
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import get_tags

from cbid import coders
from cbid.checks import check_integer
from cbid.coders import CBID, ITQ, Coder, PatchCBID
from cbid.coders.large_margin import MOST_BITS, LearningInterrupted, WarmStartError
from cbid.data.image_sets import Problems
from cbid.data.names import printable
from cbid.descriptors import Descriptor, ONNXEmbedding
from cbid.project.errors import ProjectWarning
from cbid.storage.models import params_to_json

__all__ = ["CODERS", "check_settings", "choose_coder", "coder_settings", "is_supervised", "learn", "tell_left_out"]

# Those that take one vector an image.
CODERS = tuple(
    name
    for name in coders.__all__
    if isinstance(kind := getattr(coders, name), type) and issubclass(kind, Coder) and kind not in (Coder, PatchCBID)
)
_SECONDS = 15.0  # of learning that a kill may lose


def choose_coder(
    coder: "str | Coder | None",
    n_bits: int,
    labels: list[str | None],
    descriptor: Descriptor | None,
    *,
    seed: int,
    n_jobs: int | None,
    left_out: Problems,
) -> Coder:
    """The coder to learn: that given, by name or made already; else CBID with labels, and ITQ without.

    CBID is then taken in its kernel form over hand-made descriptors, whose classes no hyperplane parts well; over
    vectors and the embeddings of networks it is linear.

    left_out : what of the source could not be found, with the reasons; where labels are missing it may be why
    """
    given: dict[str, Any] = {"n_bits": n_bits, "random_state": seed, "n_jobs": n_jobs}
    classes = sorted({label for label in labels if label is not None})
    if coder is None:
        if not classes:
            warnings.warn(
                "the images have no labels: ITQ learns codes without them (class folders let CBID learn better ones)",
                ProjectWarning,
                stacklevel=4,
            )
        coder = "CBID" if classes else "ITQ"
        if descriptor is not None and not isinstance(descriptor, ONNXEmbedding):
            given["kernel"] = "rbf"
    if isinstance(coder, str):
        if coder not in CODERS:
            raise ValueError(f"coder={coder!r}: expected one of {', '.join(CODERS)}")
        made: Any = getattr(coders, coder)()
        accepted = made.get_params()
        made.set_params(**{name: value for name, value in given.items() if name in accepted})
    elif isinstance(coder, Coder):
        made = clone(coder)
    else:
        raise ValueError(f"coder={coder!r}: expected a name, or a coder of cbid.coders")
    if is_supervised(made) and len(classes) < 2:
        found = f"one label ({classes[0]!r})" if classes else "no labels"
        raise ValueError(
            f"the images have {found}; {type(made).__name__} learns from two classes or more: "
            "give a folder of class folders, or choose a coder that needs no labels, such as ITQ"
            + (f" ({tell_left_out(left_out)})" if left_out else "")
        )
    chosen: Coder = made
    return chosen


def tell_left_out(failures: Problems) -> str:
    """How many images were left out, and why the first of them was."""
    name, reason = failures[0]
    return f"left out {len(failures)} of the source, such as {printable(name)}: {reason}"


def check_settings(coder: Coder) -> None:
    """A ValueError for settings that no images can make right, before any is read."""
    if isinstance(coder, CBID):
        coder._check_params()
    check_integer("n_bits", coder.get_params().get("n_bits", 1), 1, MOST_BITS)


def is_supervised(coder: Coder) -> bool:
    """Whether it learns from labels."""
    return bool(get_tags(coder).target_tags.required)


def coder_settings(coder: Coder) -> dict[str, Any]:
    """What the codes depend on besides the images, as JSON values."""
    return {
        "kind": type(coder).__name__,
        **{k: v for k, v in params_to_json(coder).items() if k not in _NOT_SETTINGS},
    }


_NOT_SETTINGS = ("n_jobs", "verbose", "warm_start", "callback")


def learn(
    coder: Coder, X: NDArray[np.float32], y: NDArray[np.str_] | None, *, checkpoint: Path, verbose: bool
) -> Coder:
    """Fit the coder on vectors X (n, d) and labels y (n,).

    Coders that learn bit by bit are kept in the file ``checkpoint`` while they do, and go on from there if it belongs
    to the same data and settings; the others start from the beginning.
    """
    params = coder.get_params()
    if "verbose" in params:
        coder.set_params(verbose=int(verbose))
    if isinstance(coder, CBID):
        coder = _learn_on(coder, X, y, checkpoint)
    else:
        _shorten(coder, X)
        coder.fit(X, y)
    weights = getattr(coder, "weights_", None)
    if weights is not None and np.ndim(weights) != 1:
        raise ValueError("coder has one weight vector for each class; a project takes one for all (margin='shared')")
    return coder


def _shorten(coder: Coder, X: NDArray[np.float32]) -> None:
    """ITQ has no more bits than there are directions in which the images differ: few images, few bits."""
    most = min(len(X) - 1, X.shape[1])
    if isinstance(coder, ITQ) and coder.n_bits > most:
        warnings.warn(
            f"n_bits={coder.n_bits} was asked for; {len(X)} images of {X.shape[1]} values give ITQ {most}",
            ProjectWarning,
            stacklevel=6,
        )
        coder.set_params(n_bits=most)


def _learn_on(coder: CBID, X: NDArray[np.float32], y: NDArray[np.str_] | None, checkpoint: Path) -> CBID:
    saved = _saved(coder, checkpoint)
    if saved is not None:
        try:
            return _with_checkpoints(saved, X, y, checkpoint)
        except WarmStartError:
            pass  # the checkpoint belongs to other images: start from the beginning
    return _with_checkpoints(coder, X, y, checkpoint)


def _saved(coder: CBID, checkpoint: Path) -> CBID | None:
    """The coder of the checkpoint, ready to go on, if it has the same settings."""
    try:
        saved = coders.load(checkpoint)
    except (ValueError, OSError):
        return None  # none, or one that a disk has damaged: it is worth no more than the time it took
    if not isinstance(saved, CBID) or coder_settings(saved) != coder_settings(coder):
        return None
    saved.set_params(warm_start=True, verbose=coder.verbose, n_jobs=coder.n_jobs)
    return saved


def _with_checkpoints(coder: CBID, X: Any, y: Any, checkpoint: Path) -> CBID:
    last = time.monotonic()
    latest: CBID | None = None

    def keep(learned: CBID) -> None:
        nonlocal last, latest
        latest = copy.copy(learned)  # the coder itself is as it was before when its fit does not end well
        if time.monotonic() - last > _SECONDS:
            learned.save(checkpoint)
            last = time.monotonic()

    coder.set_params(callback=keep)
    try:
        with warnings.catch_warnings():
            # Ctrl-C ends learning with the bits there are; a project is whole or not at all, and goes on later.
            warnings.simplefilter("error", LearningInterrupted)
            coder.fit(X, y)
    except LearningInterrupted:
        if latest is not None:
            latest.save(checkpoint)
        raise KeyboardInterrupt from None
    finally:
        coder.set_params(callback=None)
    coder.set_params(warm_start=False)
    return coder
