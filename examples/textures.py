"""Few images of each class: textures classified by their patches (NBNN), as float32 and as codes.

Needs ``pip install 'cbid[images,plots]'``; the photographs come with scikit-image.

python examples/textures.py [textures.png]
"""

import sys

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import numpy as np
from skimage import data

from cbid import NBNNClassifier, PatchCBID
from cbid.descriptors import DenseSIFT

PHOTOGRAPHS = {"brick": data.brick, "grass": data.grass, "gravel": data.gravel}
TRAIN = 4  # images of each class


def main(picture: str = "textures.png") -> None:
    images, labels = squares()
    train = np.concatenate([np.flatnonzero(labels == name)[:TRAIN] for name in PHOTOGRAPHS])
    test = np.setdiff1d(np.arange(len(images)), train)

    bags = DenseSIFT(step=8).transform(images)  # one bag of descriptors an image
    models = {"float32, exact": NBNNClassifier(search="exact")}
    models |= {f"{n} bits": NBNNClassifier(coder=PatchCBID(n_bits=n)) for n in (4, 8, 16, 32)}
    accuracy, size = [], []
    for name, model in models.items():
        model.fit([bags[i] for i in train], labels[train])
        accuracy.append(model.score([bags[i] for i in test], labels[test]))
        size.append(model.storage_per_image_)
        print(f"{name:15} {size[-1]:8,.0f} bytes an image   {accuracy[-1]:.1%}")

    figure, panels = plt.subplots(1, 4, figsize=(11, 2.9), layout="constrained", width_ratios=[1, 1, 1, 1.6])
    for axes, name in zip(panels, PHOTOGRAPHS):
        axes.imshow(images[np.flatnonzero(labels == name)[0]], cmap="gray")
        axes.set(title=name, xticks=[], yticks=[])
    bars = panels[3].barh(list(models), [100 * share for share in accuracy], color="#00798c")
    panels[3].bar_label(bars, [f"{x:,.0f} bytes" for x in size], label_type="center", color="white", fontsize=8)
    panels[3].invert_yaxis()
    panels[3].set(xlabel="accuracy, %", title=f"{TRAIN} images a class; bytes an image")
    figure.savefig(picture, dpi=90)


def squares(side: int = 64) -> tuple[list, np.ndarray]:
    """Squares of three photographs, in an order of their own."""
    images, labels = [], []
    for name, photograph in PHOTOGRAPHS.items():
        whole = photograph()
        parts = [whole[i : i + side, j : j + side] for i in range(0, 512, side) for j in range(0, 512, side)]
        images += [parts[i] for i in np.random.default_rng(0).permutation(len(parts))]
        labels += [name] * len(parts)
    return images, np.array(labels)


if __name__ == "__main__":
    main(*sys.argv[1:])
