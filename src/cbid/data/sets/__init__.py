"""Data sets by name: what they are, where they lie, and how they are split."""

import os

from cbid.checks import check_choice
from cbid.data.sets.base import ROOT_VARIABLE, DataAbsent, NamedSet, SetInfo
from cbid.data.sets.catalogue import CATALOGUE

__all__ = ["CATALOGUE", "ROOT_VARIABLE", "DataAbsent", "NamedSet", "SetInfo", "open_set"]


def open_set(name: str, root: str | os.PathLike[str] | None = None) -> NamedSet:
    """A data set of ``CATALOGUE``: under ``root`` (or ``root`` itself), or where CBID_DATA says.

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
