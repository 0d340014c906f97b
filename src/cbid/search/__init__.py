"""Search over packed codes: the index, its results and its exceptions."""

from cbid.search.errors import IndexConflictError, IndexCorruptError, IndexLockedError, UnknownIdError
from cbid.search.index import CodeIndex
from cbid.search.matches import Match, Matches, QueryMatches, RangeMatches

__all__ = [
    "CodeIndex",
    "IndexConflictError",
    "IndexCorruptError",
    "IndexLockedError",
    "Match",
    "Matches",
    "QueryMatches",
    "RangeMatches",
    "UnknownIdError",
]
