"""Published methods that C-BID is compared with, one module for each method or small family."""

from cbid.coders.rivals.agh import AnchorGraphHashing
from cbid.coders.rivals.fasthash import FastHash
from cbid.coders.rivals.kmeans_hashing import KMeansHashing
from cbid.coders.rivals.ksh import KSH
from cbid.coders.rivals.linear_scores import ArgmaxCode, MCBit, PiCoDes, ScoreLSH
from cbid.coders.rivals.lsh import LSH, PStableLSH, ShiftInvariantLSH
from cbid.coders.rivals.sdh import COSDISH, SDH
from cbid.coders.rivals.signs import CCAITQ, ITQ, LSI, LDASign, PCASign, SignEmbedding
from cbid.coders.rivals.spectral import MultidimensionalSpectralHashing, SpectralHashing
from cbid.coders.rivals.spherical import SphericalHashing
from cbid.coders.rivals.spherical import spherical_hamming as spherical_hamming  # a distance, so not in __all__
from cbid.coders.rivals.spline import SplineRegressionHashing
from cbid.coders.rivals.sth import LaplacianCoHashing, SelfTaughtHashing

__all__ = [
    "CCAITQ",
    "COSDISH",
    "ITQ",
    "KSH",
    "LSH",
    "LSI",
    "SDH",
    "AnchorGraphHashing",
    "ArgmaxCode",
    "FastHash",
    "KMeansHashing",
    "LDASign",
    "LaplacianCoHashing",
    "MCBit",
    "MultidimensionalSpectralHashing",
    "PCASign",
    "PStableLSH",
    "PiCoDes",
    "ScoreLSH",
    "SelfTaughtHashing",
    "ShiftInvariantLSH",
    "SignEmbedding",
    "SpectralHashing",
    "SphericalHashing",
    "SplineRegressionHashing",
]
