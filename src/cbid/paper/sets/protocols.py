"""Split protocols: which images train, which validate, which test, for repeat 0, 1, 2, ...

Nothing here draws random numbers. Images are put in the order of a hash of their names (with the name of the set, of
the protocol and the number of the repeat), which is as good as random, is the same on every machine and with every
version of every library, and does not change for one image when another is added.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cbid.storage.digests import digest_bytes

if TYPE_CHECKING:
    from cbid.data.image_sets import ImageSet
    from cbid.paper.sets.base import NamedSet

__all__ = [
    "Protocol",
    "Split",
    "by_part",
    "by_pose_block",
    "first_of_each_content",
    "per_class",
    "query_poses",
    "shuffled",
]

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Split:
    """Places in a set, each part sorted; no place is in two parts."""

    train: Rows
    validation: Rows
    test: Rows


@dataclass(frozen=True)
class Protocol:
    """A way to split a set.

    text: what it does, in words. repeats: how many different splits it has.
    draw: called with the set, the rows that may be used, a key to shuffle with, and the number of the repeat.
    """

    text: str
    repeats: int
    draw: "Callable[[NamedSet, Rows, str, int], Split]"


def shuffled(rows: Rows, names: Sequence[str], key: str) -> Rows:
    """The rows in the order of a hash of key and name."""
    digests = [digest_bytes(f"{key}/{names[i]}".encode(), size=8) for i in rows.tolist()]
    return rows[np.argsort(np.array(digests, dtype="S8").view(">u8"), kind="stable")] if len(rows) else rows


def first_of_each_content(images: "ImageSet") -> Rows:
    """Of images that are the same, byte for byte, only the first; all files are read once."""
    digests = np.array([images.digest(i) for i in range(len(images))], dtype="V16")
    return np.sort(np.unique(digests, return_index=True)[1]).astype(np.int64)


def per_class(
    train: int, validation: int = 0, test: int | None = None, *, given: bool = False, repeats: int = 5
) -> Protocol:
    """So many images of every class for each part; for the test at most ``test``, or all the rest with None.

    given: the set has its own division (a part "set" of "train" and "test"): images to train and to validate are
    drawn from the one, and the other is the test.
    """
    if given:
        text = (
            f"of the images given to train, {train} of each class train and {validation} validate; the test is given"
        )
    else:
        rest = "the rest test" if test is None else f"at most {test} test"
        text = f"of each class {train} images train, {validation} validate and {rest}"

    def draw(data: "NamedSet", allowed: Rows, key: str, repeat: int) -> Split:
        if data.labels is None:
            raise ValueError(f"{data.info.title} has no labels to draw by")
        drawable = np.asarray(data.part("set")) == "train" if given else np.ones(len(data), bool)
        parts: list[list[Rows]] = [[], [], []]
        allowed = allowed[data.labels[allowed] >= 0]
        for label in np.unique(data.labels[allowed]):
            rows = allowed[data.labels[allowed] == label]
            order = shuffled(rows[drawable[rows]], data.images.names, key)
            if len(order) < train + validation + (not given):
                raise ValueError(
                    f"class {data.label_name(label)!r} of {data.info.title} has {len(order)} images to draw from; "
                    f"{train} to train, {validation} to validate and at least one to test are asked for"
                )
            trained, validated, others = np.split(order, [train, train + validation])
            tested = rows[~drawable[rows]] if given else others
            for part, drawn in zip(parts, (trained, validated, tested[:test])):
                part.append(drawn)
        return Split(*(np.sort(np.concatenate(part)) for part in parts))

    return Protocol(text, repeats, draw)


def by_part(text: str, part: str, *choices: tuple[Sequence[str], Sequence[str], Sequence[str]]) -> Protocol:
    """Training, validation and test images by the values of a part of the set; one choice for each repeat."""

    def draw(data: "NamedSet", allowed: Rows, key: str, repeat: int) -> Split:
        values = np.asarray(data.part(part))[allowed]
        return Split(*(allowed[np.isin(values, list(chosen))] for chosen in choices[repeat]))

    return Protocol(text, len(choices), draw)


def query_poses(angles: Sequence[float], train: int | None = None) -> Protocol:
    """The images of each class nearest to ``angles`` test; ``train`` of the others, or all of them, train."""
    count = "all others train" if train is None else f"{train} of the others train"
    text = f"of each class the images nearest to {', '.join(f'{a:g}' for a in angles)} degrees test, {count}"

    def draw(data: "NamedSet", allowed: Rows, key: str, repeat: int) -> Split:
        assert data.labels is not None
        pose = np.asarray(data.part("pose"), float)
        kept, queries = [], []
        for label in np.unique(data.labels[allowed]):
            rows = allowed[data.labels[allowed] == label]
            away = np.abs((pose[rows][None] - np.asarray(angles)[:, None] + 180) % 360 - 180)  # (angles, rows)
            chosen = np.unique(away.argmin(axis=1))
            others = np.delete(rows, chosen)
            if train is not None and len(others) < train:
                raise ValueError(
                    f"class {data.label_name(label)!r} of {data.info.title} has {len(others)} images beside "
                    f"{len(chosen)} queries; {train} are asked for"
                )
            queries.append(rows[chosen])
            kept.append(others if train is None else shuffled(others, data.images.names, key)[:train])
        return Split(np.sort(np.concatenate(kept)), _none(), np.sort(np.concatenate(queries)))

    return Protocol(text, 1 if train is None else 5, draw)


def by_pose_block(test: int, validation: int, step: int, repeats: int = 5) -> Protocol:
    """One block of neighbouring poses tests, the next validates, the others train: no image has its neighbours in
    another part but at the edges. ``test`` and ``validation`` are degrees, ``step`` is that between poses."""
    text = (
        f"{test} degrees of poses in a row test, the next {validation} validate, the others train; turned by repeat"
    )

    def draw(data: "NamedSet", allowed: Rows, key: str, repeat: int) -> Split:
        start = 360 * repeat // repeats // step * step
        turned = (np.asarray(data.part("pose"))[allowed] - start) % 360
        edges = np.digitize(turned, [test, test + validation])
        return Split(*(allowed[edges == part] for part in (2, 1, 0)))

    return Protocol(text, repeats, draw)


def _none() -> Rows:
    return np.empty(0, dtype=np.int64)
