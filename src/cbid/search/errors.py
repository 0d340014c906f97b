"""What can be wrong with an index: each error says what was found and what to do."""

__all__ = ["IndexConflictError", "IndexCorruptError", "IndexLockedError", "UnknownIdError"]


class UnknownIdError(KeyError, ValueError):
    """An id that the index does not hold."""

    def __str__(self) -> str:
        # KeyError shows the repr of its argument; here the argument is a sentence.
        return str(self.args[0])


class IndexCorruptError(ValueError):
    """A directory that is not an index, or one whose files are not those that were committed."""


class IndexLockedError(OSError):
    """Another process (or another open index) holds the writer lock."""


class IndexConflictError(OSError):
    """Another writer has committed since this index was opened."""
