"""Every coder over vectors, with settings small enough for tests."""

import inspect

import cbid.coders
from cbid.coders import Coder, PatchCBID

EVERY = [
    cls
    for cls in (getattr(cbid.coders, name) for name in cbid.coders.__all__)
    if isinstance(cls, type)
    and issubclass(cls, Coder)
    and not inspect.isabstract(cls)
    and cls is not PatchCBID  # it learns from bags
]

# Used if a coder has a parameter of that name.
_SMALL = {"n_anchors": 15, "n_iter": 5, "max_iter": 10, "n_trees": 20}
# Two bits, or one if a method gives no more for two classes or few columns.
_FEWER = {"LDASign": 1, "LaplacianCoHashing": 1, "SignEmbedding": 1}


def make(cls, n_bits=None, **params):
    """Return an instance with few bits and small settings."""
    known = inspect.signature(cls).parameters
    n_bits = n_bits or _FEWER.get(cls.__name__, 2)
    return cls(n_bits=n_bits, **{**{k: v for k, v in _SMALL.items() if k in known}, **params})
