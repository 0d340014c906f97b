"""Estimators that turn vectors into binary codes, behind one base class."""

from cbid.coders.agh import AnchorGraphHashing
from cbid.coders.argmax_code import ArgmaxCode
from cbid.coders.base import Coder, load
from cbid.coders.cbid import CBID
from cbid.coders.ccaitq import CCAITQ
from cbid.coders.cosdish import COSDISH
from cbid.coders.fasthash import FastHash
from cbid.coders.itq import ITQ
from cbid.coders.kmeans_hashing import KMeansHashing
from cbid.coders.ksh import KSH
from cbid.coders.lch import LaplacianCoHashing
from cbid.coders.lda_sign import LDASign
from cbid.coders.lsh import LSH
from cbid.coders.lsi import LSI
from cbid.coders.mcbit import MCBit
from cbid.coders.mdsh import MultidimensionalSpectralHashing
from cbid.coders.modelfile import ModelFileError
from cbid.coders.patch_cbid import PatchCBID
from cbid.coders.pca_sign import PCASign
from cbid.coders.picodes import PiCoDes
from cbid.coders.pstable_lsh import PStableLSH
from cbid.coders.score_lsh import ScoreLSH
from cbid.coders.sdh import SDH
from cbid.coders.sign_embedding import SignEmbedding
from cbid.coders.sklsh import ShiftInvariantLSH
from cbid.coders.spectral import SpectralHashing
from cbid.coders.spherical import SphericalHashing
from cbid.coders.spline import SplineRegressionHashing
from cbid.coders.sth import SelfTaughtHashing

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
