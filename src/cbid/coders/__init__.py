"""Estimators that turn vectors into binary codes, behind one base class."""

from cbid.coders.argmax_code import ArgmaxCode
from cbid.coders.base import Coder, load
from cbid.coders.cbid import CBID
from cbid.coders.ccaitq import CCAITQ
from cbid.coders.cosdish import COSDISH
from cbid.coders.fasthash import FastHash
from cbid.coders.ksh import KSH
from cbid.coders.lda_sign import LDASign
from cbid.coders.modelfile import ModelFileError
from cbid.coders.patch_cbid import PatchCBID
from cbid.coders.picodes import PiCoDes
from cbid.coders.score_lsh import ScoreLSH
from cbid.coders.sdh import SDH
from cbid.coders.sign_embedding import SignEmbedding

__all__ = [
    "CBID",
    "CCAITQ",
    "COSDISH",
    "KSH",
    "SDH",
    "ArgmaxCode",
    "Coder",
    "FastHash",
    "LDASign",
    "ModelFileError",
    "PatchCBID",
    "PiCoDes",
    "ScoreLSH",
    "SignEmbedding",
    "load",
]
