"""Near-duplicates: changed copies of photographs are found again by their codes, without labels.

python examples/near_duplicates.py [near_duplicates.png]
"""

import sys

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import numpy as np
from skimage import data, transform

from cbid import CodeIndex
from cbid.coders import ITQ
from cbid.descriptors import HOG


def main(picture: str = "near_duplicates.png") -> None:
    photographs = [data.astronaut(), data.chelsea(), data.coffee(), data.rocket()]
    rng = np.random.default_rng(0)
    tiles = [p[y : y + 128, x : x + 128] for p in photographs for y in range(0, 256, 64) for x in range(0, 256, 64)]
    smaller = transform.resize(tiles[5], (80, 80), anti_aliasing=True)  # floats in 0..1
    darker = (0.7 * tiles[20]).astype(np.uint8)
    noisy = np.clip(tiles[40] + rng.normal(0, 12, tiles[40].shape), 0, 255).astype(np.uint8)
    images = [*tiles, smaller, darker, noisy]

    vectors = HOG(size=(128, 128), cell=16).transform(images)
    coder = ITQ(n_bits=63).fit(vectors)  # no labels
    index = CodeIndex(n_bits=63)
    index.add(coder.encode(vectors))
    groups = [group for group in index.groups(radius=5) if len(group.ids) > 1]
    print(len(images), "images;", "groups of copies:", *(list(group.ids) for group in groups))

    figure, axes = plt.subplots(2, max(len(groups), 2), figsize=(7, 4.6), layout="constrained")
    for axis in axes.flat:
        axis.axis("off")
    for column, group in enumerate(groups):
        for axis, id in zip(axes[:, column], group.ids[:2]):
            axis.imshow(images[id])
            axis.set_title(f"image {id}")
    figure.savefig(picture, dpi=90)


if __name__ == "__main__":
    main(*sys.argv[1:])
