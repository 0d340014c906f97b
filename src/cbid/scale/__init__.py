"""Sets larger than memory: fit on a sample, describe and encode to files, here or on a Dask cluster."""

from cbid.scale.encoding import describe_to, encode_to
from cbid.scale.fitting import FitReport, fit_from
from cbid.scale.running import ClusterError
from cbid.scale.sources import open_rows
from cbid.search.stores import MilvusError, MilvusStore, Sent, index_to

__all__ = [
    "ClusterError",
    "FitReport",
    "MilvusError",
    "MilvusStore",
    "Sent",
    "describe_to",
    "encode_to",
    "fit_from",
    "index_to",
    "open_rows",
]
