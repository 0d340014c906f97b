"""Kernel descriptors of images as vectors: match kernels over patches, words learned on training images."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbid.data import NamedSet, describe
from cbid.experiments.base import Context

__all__ = ["kernel_vectors"]

Rows = NDArray[np.int64]
KERNELS = ("gradient", "shape")


def kernel_vectors(
    data: NamedSet, train: Rows, test: Rows, context: Context, *, n_words: int, step: int, seed: int
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Training and test vectors: gradient and shape descriptors, pooled by EMK over the image and its quarters."""
    from cbid.descriptors import KernelDescriptors
    from cbid.pooling import EMK

    parts = []
    for kernel in KERNELS:
        descriptor = KernelDescriptors(kernel=kernel, step=step)
        bags: Any = describe(data.images[np.concatenate([train, test])], descriptor, cache=context.cache).values
        emk = EMK(n_words=n_words, pyramid=(1, 2), random_state=seed)
        emk.fit(bags.take(np.arange(len(train))))
        parts.append(emk.transform(bags).astype(np.float32))
    values = np.concatenate(parts, axis=1)
    return values[: len(train)], values[len(train) :]
