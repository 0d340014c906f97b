"""Estimators that turn vectors into binary codes, behind one base class."""

from cbid.coders.agh import AnchorGraphHashing
from cbid.coders.base import Coder, load
from cbid.coders.cbid import CBID
from cbid.coders.itq import ITQ
from cbid.coders.kmeans_hashing import KMeansHashing
from cbid.coders.lch import LaplacianCoHashing
from cbid.coders.lsh import LSH
from cbid.coders.lsi import LSI
from cbid.coders.mdsh import MultidimensionalSpectralHashing
from cbid.coders.modelfile import ModelFileError
from cbid.coders.pca_sign import PCASign
from cbid.coders.pstable_lsh import PStableLSH
from cbid.coders.sklsh import ShiftInvariantLSH
from cbid.coders.spectral import SpectralHashing
from cbid.coders.spherical import SphericalHashing
from cbid.coders.spline import SplineRegressionHashing
from cbid.coders.sth import SelfTaughtHashing

__all__ = [
    "CBID",
    "ITQ",
    "LSH",
    "LSI",
    "AnchorGraphHashing",
    "Coder",
    "KMeansHashing",
    "LaplacianCoHashing",
    "ModelFileError",
    "MultidimensionalSpectralHashing",
    "PCASign",
    "PStableLSH",
    "SelfTaughtHashing",
    "ShiftInvariantLSH",
    "SpectralHashing",
    "SphericalHashing",
    "SplineRegressionHashing",
    "load",
]
