"""Estimators that turn vectors into binary codes, behind one base class."""

from cbid.coders.base import Coder, load
from cbid.coders.cbid import CBID
from cbid.coders.patch_cbid import PatchCBID
from cbid.coders.rivals.agh import AnchorGraphHashing
from cbid.coders.rivals.argmax_code import ArgmaxCode
from cbid.coders.rivals.ccaitq import CCAITQ
from cbid.coders.rivals.cosdish import COSDISH
from cbid.coders.rivals.fasthash import FastHash
from cbid.coders.rivals.itq import ITQ
from cbid.coders.rivals.kmeans_hashing import KMeansHashing
from cbid.coders.rivals.ksh import KSH
from cbid.coders.rivals.lch import LaplacianCoHashing
from cbid.coders.rivals.lda_sign import LDASign
from cbid.coders.rivals.lsh import LSH
from cbid.coders.rivals.lsi import LSI
from cbid.coders.rivals.mcbit import MCBit
from cbid.coders.rivals.mdsh import MultidimensionalSpectralHashing
from cbid.coders.rivals.pca_sign import PCASign
from cbid.coders.rivals.picodes import PiCoDes
from cbid.coders.rivals.pstable_lsh import PStableLSH
from cbid.coders.rivals.score_lsh import ScoreLSH
from cbid.coders.rivals.sdh import SDH
from cbid.coders.rivals.sign_embedding import SignEmbedding
from cbid.coders.rivals.sklsh import ShiftInvariantLSH
from cbid.coders.rivals.spectral import SpectralHashing
from cbid.coders.rivals.spherical import SphericalHashing
from cbid.coders.rivals.spline import SplineRegressionHashing
from cbid.coders.rivals.sth import SelfTaughtHashing
from cbid.storage.modelfile import ModelFileError

__all__ = [
    "CBID",
    "CCAITQ",
    "COSDISH",
    "ITQ",
    "KSH",
    "LSH",
    "LSI",
    "SDH",
    "AnchorGraphHashing",
    "ArgmaxCode",
    "Coder",
    "FastHash",
    "KMeansHashing",
    "LDASign",
    "LaplacianCoHashing",
    "MCBit",
    "ModelFileError",
    "MultidimensionalSpectralHashing",
    "PCASign",
    "PStableLSH",
    "PatchCBID",
    "PiCoDes",
    "ScoreLSH",
    "SelfTaughtHashing",
    "ShiftInvariantLSH",
    "SignEmbedding",
    "SpectralHashing",
    "SphericalHashing",
    "SplineRegressionHashing",
    "load",
]
