"""Estimators that turn vectors into binary codes, behind one base class."""

from cbid.coders import rivals
from cbid.coders.base import Coder, load
from cbid.coders.cbid import CBID
from cbid.coders.patch_cbid import PatchCBID
from cbid.coders.rivals import *  # noqa: F403
from cbid.storage.models import ModelFileError

__all__ = ["CBID", "Coder", "ModelFileError", "PatchCBID", "load"]
__all__ += rivals.__all__
