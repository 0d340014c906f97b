"""Kernel descriptors of images as vectors: match kernels over patches, words learned on training images."""

import numpy as np
from numpy.typing import NDArray

from cbid.paper.base import Context
from cbid.paper.sets import NamedSet
from cbid.paper.vectors import mapped_bags

__all__ = ["kernel_vectors"]

Rows = NDArray[np.int64]
KERNELS = ("gradient", "shape")


def kernel_vectors(
    data: NamedSet, train: Rows, test: Rows, context: Context, *, n_words: int, step: int, seed: int
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Training and test vectors: gradient and shape descriptors, pooled by EMK over the image and its quarters."""
    from cbid.descriptors import KernelDescriptors
    from cbid.pooling import EMK

    found = []
    for kernel in KERNELS:
        descriptor = KernelDescriptors(kernel=kernel, step=step)
        emk = EMK(n_words=n_words, pyramid=(1, 2), random_state=seed)
        learned = emk.fit_transform(mapped_bags(data, train, descriptor, context))
        found.append((learned, emk.transform(mapped_bags(data, test, descriptor, context))))
    learned, tested = (np.concatenate(parts, axis=1) for parts in zip(*found))
    return learned, tested
