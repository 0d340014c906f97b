"""Estimators that turn vectors into binary codes, behind one base class."""

from cbid.coders.base import Coder, load
from cbid.coders.cbid import CBID
from cbid.coders.modelfile import ModelFileError
from cbid.coders.patch_cbid import PatchCBID

__all__ = ["CBID", "Coder", "ModelFileError", "PatchCBID", "load"]
