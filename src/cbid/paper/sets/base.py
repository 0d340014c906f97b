"""What a named data set is, and how it is found on a machine."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbid.checks import check_choice, check_integer
from cbid.data.image_sets import ImageSet
from cbid.data.names import printable
from cbid.paper.sets.protocols import Protocol, Rows, Split, first_of_each_content

__all__ = ["ROOT_VARIABLE", "DataAbsent", "NamedSet", "SetInfo"]

ROOT_VARIABLE = "CBID_DATA"
Parts = Mapping[str, Callable[[], Any]]


class DataAbsent(RuntimeError):
    """The data is not on this machine; the message says what is expected where, and where to get it."""


@dataclass(frozen=True)
class SetInfo:
    """A data set by name.

    folder: its folder under the root of all data. marks: groups of paths below that folder; one group must be there.
    layout, get, licence, caution: for people. elsewhere: other places where it may lie. packaged: the Python package
    that it comes with, and then there is no folder. open: from the folder to images and parts.
    """

    name: str
    title: str
    folder: str
    layout: str
    get: str
    licence: str
    open: Callable[[Path], tuple[ImageSet, Parts]]
    protocols: Mapping[str, Protocol]
    marks: tuple[tuple[str, ...], ...] = ((),)
    caution: str = ""
    elsewhere: tuple[str, ...] = ()
    packaged: str | None = None

    def find(self, root: str | os.PathLike[str] | None = None) -> Path:
        """The folder of the set: under ``root`` or ``root`` itself; by default under CBID_DATA or elsewhere."""
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
        looked = " nor ".join(printable(place) for place in places) or f"{ROOT_VARIABLE}, which is not set"
        raise DataAbsent(
            f"{self.title} is not there: not in {looked}. Expected in a folder {self.folder}: {self.layout}. "
            f"To be had: {self.get}. Give its path, or set {ROOT_VARIABLE} to the folder that holds {self.folder}."
        )


@dataclass
class NamedSet:
    """An opened data set: images with labels, further parts by name, and splits by protocol.

    images: all images of the set, whatever part they are for. parts: what else there is, read when asked for.
    """

    info: SetInfo
    path: Path
    images: ImageSet
    parts: Parts
    _read: dict[str, Any] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.images)

    @property
    def labels(self) -> NDArray[np.int64] | None:
        return self.images.labels

    @property
    def classes(self) -> NDArray[Any] | None:
        return self.images.classes

    def label_name(self, label: int | np.integer) -> str:
        return str(label if self.classes is None else self.classes[label])

    def part(self, name: str) -> Any:
        """A part of the set beside its images; ``parts`` lists them."""
        if name not in self.parts:
            there = ", ".join(self.parts) or "none"
            raise DataAbsent(f"{self.info.title} in {self.path} has no part {name!r}; there is {there}")
        if name not in self._read:
            self._read[name] = self.parts[name]()
        return self._read[name]

    def split(self, protocol: str, repeat: int = 0, *, distinct: bool = False) -> Split:
        """Which images train, validate and test by a protocol of this set (``info.protocols``).

        distinct: of images that are the same byte for byte, only the first takes part, so that none is in two parts.
        Published results count them all, and that is the default.
        """
        check_choice("protocol", protocol, tuple(self.info.protocols))
        chosen = self.info.protocols[protocol]
        check_integer("repeat", repeat, 0, chosen.repeats - 1)
        return self.split_by(chosen, repeat, distinct=distinct, key=f"{self.info.name}/{protocol}/{repeat}")

    def split_by(
        self, protocol: Protocol, repeat: int = 0, *, distinct: bool = False, key: str | None = None
    ) -> Split:
        """The same by a protocol of one's own, such as ``per_class(30, 10)``; larger draws hold smaller ones."""
        if distinct and "<distinct>" not in self._read:
            self._read["<distinct>"] = first_of_each_content(self.images)
        allowed: Rows = self._read["<distinct>"] if distinct else np.arange(len(self), dtype=np.int64)
        return protocol.draw(self, allowed, key or f"{self.info.name}/own/{repeat}", repeat)
