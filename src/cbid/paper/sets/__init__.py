"""Data sets by name: what they are, where they are found, and how they are split."""

import os

from cbid.checks import check_choice
from cbid.paper.sets.base import ROOT_VARIABLE, DataAbsent, NamedSet, Protocol, SetInfo, Split, per_class
from cbid.paper.sets.catalogue import CATALOGUE

__all__ = [
    "CATALOGUE",
    "ROOT_VARIABLE",
    "DataAbsent",
    "NamedSet",
    "Protocol",
    "SetInfo",
    "Split",
    "open_set",
    "per_class",
]


def open_set(name: str, root: str | os.PathLike[str] | None = None) -> NamedSet:
    """Open a data set of ``CATALOGUE``: below ``root`` or ``root`` itself, by default below CBID_DATA.

    >>> digits = open_set("digits")
    >>> digits.images
    <ImageItems: 1797 images, 10 classes>
    >>> split = digits.split("held-out", repeat=0)
    >>> len(split.train), len(split.validation), len(split.test)
    (850, 250, 597)
    """
    check_choice("name", name, tuple(CATALOGUE))
    info = CATALOGUE[name]
    path = info.find(root)
    return NamedSet(info, path, *info.open(path))
