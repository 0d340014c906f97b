"""What an index on disk consists of, for comparison."""

from pathlib import Path


def content(index):
    labels = index.labels
    return (
        index.ids.tolist(),
        index.reconstruct(index.ids).tolist(),
        None if labels is None else labels.tolist(),
    )


def listing(directory):
    return {p.name: p.read_bytes() for p in sorted(Path(directory).iterdir())}
