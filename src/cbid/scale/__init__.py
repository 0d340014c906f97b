"""Past one process: sets larger than memory, and the workers of a Dask cluster."""

from cbid.scale.encoding import encode_to
from cbid.scale.fitting import FitReport, fit_from
from cbid.scale.sources import open_rows

__all__ = [
    "FitReport",
    "encode_to",
    "fit_from",
    "open_rows",
]
