"""Exceptions of the index."""

from cbid.storage.lock import DirectoryLockedError

__all__ = ["IndexConflictError", "IndexCorruptError", "IndexLockedError", "UnknownIdError"]

IndexLockedError = DirectoryLockedError
"""Another process, or another open index, holds the writer lock."""


class UnknownIdError(KeyError, ValueError):
    """The index does not store this id."""

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError would show the repr of the message


class IndexCorruptError(ValueError):
    """The directory is not an index, or its files differ from what was committed."""


class IndexConflictError(OSError):
    """Another writer committed after this index was opened."""
