"""Past one process: sets larger than memory, the workers of a Dask cluster, and codes in Milvus."""

from cbid.scale.cluster import ClusterError
from cbid.scale.describing import describe_to
from cbid.scale.encoding import encode_to
from cbid.scale.evaluating import Evaluation, evaluate_to
from cbid.scale.fitting import FitReport, fit_from
from cbid.scale.mining import Mined, mine_to
from cbid.scale.sources import open_rows
from cbid.search.milvus import MilvusError, MilvusStore, Sent, index_to

__all__ = [
    "ClusterError",
    "Evaluation",
    "FitReport",
    "MilvusError",
    "MilvusStore",
    "Mined",
    "Sent",
    "describe_to",
    "encode_to",
    "evaluate_to",
    "fit_from",
    "index_to",
    "mine_to",
    "open_rows",
]
