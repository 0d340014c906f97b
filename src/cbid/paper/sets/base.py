"""A named data set: where it is found on a machine, what it holds, and how a protocol splits it.

Splits draw no random numbers. Images are ordered by a hash of the set, the protocol, the repeat and their name. The
order is as good as random, is the same on every machine and with every version of every library, and the order of
two images does not change when another one is added.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbid.checks import check_choice, check_integer
from cbid.data.image_sets import ImageSet
from cbid.storage.digests import digest_bytes
from cbid.text import printable

ROOT_VARIABLE = "CBID_DATA"
Parts = Mapping[str, Callable[[], Any]]
Rows = NDArray[np.int64]


class DataAbsent(RuntimeError):
    """The data is not on this machine; the message says what is expected where, and where to get it."""


@dataclass(frozen=True)
class Split:
    """Rows of a set, each part sorted; no row is in two parts."""

    train: Rows
    validation: Rows
    test: Rows


@dataclass(frozen=True)
class Protocol:
    """A way to split a set."""

    text: str
    repeats: int  # how many different splits it has
    # From the set, the rows that may be used, a key to shuffle with, and the repeat to the split.
    draw: "Callable[[NamedSet, Rows, str, int], Split]"


@dataclass(frozen=True)
class SetInfo:
    """What is known about a data set, whether it is on this machine or not."""

    name: str
    title: str
    layout: str  # for people: the expected files
    get: str  # where to get them
    licence: str
    open: Callable[[Path], tuple[ImageSet, Parts]]  # from the folder to the images and the other parts
    protocols: Mapping[str, Protocol]
    marks: tuple[tuple[str, ...], ...] = ((),)  # the set is present if all paths of one group exist in the folder
    caution: str = ""
    folder: str = ""  # below the root of all data; by default the name
    elsewhere: tuple[str, ...] = ()  # other folders to look in
    packaged: str | None = None  # the Python package that the set comes with; it then has no folder

    def __post_init__(self) -> None:
        object.__setattr__(self, "folder", self.folder or self.name)

    def find(self, root: str | os.PathLike[str] | None = None) -> Path:
        """Return the folder of the set: below ``root`` or ``root`` itself, by default below CBID_DATA."""
        if self.packaged is not None:
            return Path(self.packaged)
        if root is not None:
            places = [Path(root) / self.folder, Path(root)]
        else:
            given = os.environ.get(ROOT_VARIABLE)
            places = [Path(given) / self.folder] if given else []
            places += map(Path, self.elsewhere)
        for place in places:
            if place.is_dir() and any(all((place / mark).exists() for mark in group) for group in self.marks):
                return place
        searched = f"searched {', '.join(map(printable, places))}" if places else f"{ROOT_VARIABLE} is not set"
        raise DataAbsent(
            f"{self.title} is missing: {searched}. Expected in a folder {self.folder}: {self.layout}. "
            f"Source: {self.get}. Give its path, or set {ROOT_VARIABLE} to the folder that holds {self.folder}."
        )


@dataclass
class NamedSet:
    """An opened data set: all its images with labels, further parts by name, and splits by protocol.

    A part is read when it is first used.
    """

    info: SetInfo
    path: Path
    images: ImageSet
    parts: Parts
    _read: dict[str, Any] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.images)

    @property
    def labels(self) -> NDArray[np.int64]:
        """The class of each image as a number."""
        if self.images.labels is None:
            raise ValueError(f"{self.info.title} has no labels")
        return self.images.labels

    @property
    def classes(self) -> NDArray[Any] | None:
        """The names of the classes."""
        return self.images.classes

    def label_name(self, label: int | np.integer) -> str:
        """Return the name of a class."""
        return str(label if self.classes is None else self.classes[label])

    def part(self, name: str) -> Any:
        """Return one of the other parts of the set; ``parts`` lists them."""
        if name not in self.parts:
            known = ", ".join(self.parts) or "none"
            raise DataAbsent(f"{self.info.title} in {self.path} has no part {name!r}; its parts: {known}")
        if name not in self._read:
            self._read[name] = self.parts[name]()
        return self._read[name]

    def split(self, protocol: str, repeat: int = 0, *, distinct: bool = False) -> Split:
        """Return which images train, validate and test by a protocol of this set (``info.protocols``).

        With ``distinct``, only the first of byte-identical images is used, so that none is in two parts. Published
        results use all of them, which is the default.
        """
        check_choice("protocol", protocol, tuple(self.info.protocols))
        chosen = self.info.protocols[protocol]
        check_integer("repeat", repeat, 0, chosen.repeats - 1)
        return self.split_by(chosen, repeat, distinct=distinct, key=f"{self.info.name}/{protocol}/{repeat}")

    def split_by(
        self, protocol: Protocol, repeat: int = 0, *, distinct: bool = False, key: str | None = None
    ) -> Split:
        """Split by your own protocol, such as ``per_class(30, 10)``; larger draws include smaller ones."""
        if distinct and "<distinct>" not in self._read:
            digests = np.array([self.images.digest(i) for i in range(len(self))], dtype="V16")
            self._read["<distinct>"] = np.sort(np.unique(digests, return_index=True)[1]).astype(np.int64)
        allowed: Rows = self._read["<distinct>"] if distinct else np.arange(len(self), dtype=np.int64)
        return protocol.draw(self, allowed, key or f"{self.info.name}/own/{repeat}", repeat)

    def by_class(self, rows: Rows) -> dict[int, Rows]:
        """Return the rows of each class; rows without a label are left out."""
        return {int(c): rows[self.labels[rows] == c] for c in np.unique(self.labels[rows]) if c >= 0}


def shuffled(rows: Rows, names: Sequence[str], key: str) -> Rows:
    """Return the rows in the order of a hash of key and name."""
    digests = [digest_bytes(f"{key}/{names[i]}".encode(), size=8) for i in rows.tolist()]
    return rows[np.argsort(np.array(digests, dtype="S8").view(">u8"), kind="stable")] if len(rows) else rows


def per_class(
    train: int, validation: int = 0, test: int | None = None, *, given: bool = False, repeats: int = 5
) -> Protocol:
    """Return a protocol that draws the same number of images from every class for each part.

    ``test`` is the most test images of each class; None takes all the others. With ``given`` the set has its own
    split (a part "set" of "train" and "test"): training and validation images are drawn from its training images, and
    its test images are the test.
    """
    rest = "the rest test" if test is None else f"at most {test} test"
    text = f"of each class {train} images train, {validation} validate and {rest}"
    if given:
        text = f"of each class {train} of the given training images train and {validation} validate; given test"

    def draw(data: NamedSet, allowed: Rows, key: str, repeat: int) -> Split:
        drawable = np.asarray(data.part("set")) == "train" if given else np.ones(len(data), bool)
        parts: list[list[Rows]] = [[], [], []]
        for label, rows in data.by_class(allowed).items():
            order = shuffled(rows[drawable[rows]], data.images.names, key)
            if len(order) < train + validation + (not given):
                raise ValueError(
                    f"class {data.label_name(label)!r} of {data.info.title} has {len(order)} images; expected "
                    f"{train} to train, {validation} to validate and at least one to test"
                )
            trained, validated, others = np.split(order, [train, train + validation])
            tested = rows[~drawable[rows]] if given else others
            for part, drawn in zip(parts, (trained, validated, tested[:test])):
                part.append(drawn)
        return Split(*(np.sort(np.concatenate(part)) for part in parts))

    return Protocol(text, repeats, draw)


def by_part(text: str, part: str, *choices: tuple[Sequence[str], Sequence[str], Sequence[str]]) -> Protocol:
    """Return a protocol by the values of a part of the set: for each repeat those that train, validate and test."""

    def draw(data: NamedSet, allowed: Rows, key: str, repeat: int) -> Split:
        values = np.asarray(data.part(part))[allowed]
        return Split(*(allowed[np.isin(values, list(chosen))] for chosen in choices[repeat]))

    return Protocol(text, len(choices), draw)


def query_poses(angles: Sequence[float], train: int | None = None) -> Protocol:
    """Return a protocol: the images nearest to ``angles`` test; ``train`` of the others, or all, train."""
    count = "all others train" if train is None else f"{train} of the others train"
    text = f"of each class the images nearest to {', '.join(f'{a:g}' for a in angles)} degrees test, {count}"

    def draw(data: NamedSet, allowed: Rows, key: str, repeat: int) -> Split:
        pose = np.asarray(data.part("pose"), float)
        kept, queries = [], []
        for label, rows in data.by_class(allowed).items():
            away = np.abs((pose[rows][None] - np.asarray(angles)[:, None] + 180) % 360 - 180)  # (angles, rows)
            chosen = np.unique(away.argmin(axis=1))
            others = np.delete(rows, chosen)
            if train is not None and len(others) < train:
                raise ValueError(
                    f"class {data.label_name(label)!r} of {data.info.title} has {len(others)} images besides "
                    f"{len(chosen)} queries; expected {train}"
                )
            queries.append(rows[chosen])
            kept.append(others if train is None else shuffled(others, data.images.names, key)[:train])
        return Split(np.sort(np.concatenate(kept)), np.empty(0, np.int64), np.sort(np.concatenate(queries)))

    return Protocol(text, 1 if train is None else 5, draw)


def by_pose_block(test: int, validation: int, step: int, repeats: int = 5) -> Protocol:
    """Return a protocol: one block of neighbouring poses tests, the next validates, the others train.

    Only images at the edges of a block have neighbours in another part. ``test`` and ``validation`` are the widths of
    the blocks and ``step`` the distance between poses, in degrees.
    """
    text = f"{test} degrees of poses test, the next {validation} validate, the others train; turned by repeat"

    def draw(data: NamedSet, allowed: Rows, key: str, repeat: int) -> Split:
        start = 360 * repeat // repeats // step * step
        turned = (np.asarray(data.part("pose"))[allowed] - start) % 360
        edges = np.digitize(turned, [test, test + validation])
        return Split(*(allowed[edges == part] for part in (2, 1, 0)))

    return Protocol(text, repeats, draw)
