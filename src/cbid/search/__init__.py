"""Search over packed codes: the index, its results and its exceptions."""

from cbid.search.checks import IndexConflictError, IndexCorruptError, IndexLockedError, UnknownIdError
from cbid.search.index import CodeIndex
from cbid.search.matches import Match, Matches, QueryMatches, RangeMatches
from cbid.search.pairs import DuplicateGroup, Pairs
from cbid.search.scan import prepare_search

__all__ = [
    "CodeIndex",
    "DuplicateGroup",
    "IndexConflictError",
    "IndexCorruptError",
    "IndexLockedError",
    "Match",
    "Matches",
    "Pairs",
    "QueryMatches",
    "RangeMatches",
    "UnknownIdError",
    "prepare_search",
]
