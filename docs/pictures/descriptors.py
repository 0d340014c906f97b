"""Draws the pictures of docs/descriptors.md, from photographs inside scikit-image.

python docs/pictures/descriptors.py
"""

from pathlib import Path

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.patches import Rectangle
from PIL import Image
from skimage import data

from cbid.data.images import as_gray, crop_to_fill, resize, to_float
from cbid.descriptors import GIST, HOG, HaarFeatures, PyramidHOG, RawPixels
from cbid.descriptors.census import census_transform
from cbid.descriptors.gist import gabor_filters, whiten
from cbid.descriptors.hog import cell_histograms

HERE = Path(__file__).parent
ORANGE, BLUE = "#e69f00", "#0072b2"


def show(axes, image, title, **options):
    axes.imshow(image, **({"cmap": "gray"} | options))
    axes.set_title(title, fontsize=9)
    axes.set_axis_off()


def strokes(axes, histograms, cell, *, reach=0.48, width=1.0):
    """In each cell a stroke along every edge direction (across the gradient), brighter for more."""
    rows, columns, orientations = histograms.shape
    angles = (np.arange(orientations) + 0.5) * np.pi / orientations + np.pi / 2
    y, x = np.indices((rows, columns)) * cell + cell / 2 - 0.5
    step = np.stack([np.cos(angles), np.sin(angles)], axis=1) * cell * reach
    centres = np.stack([x, y], axis=2)[:, :, None]
    lines = np.stack([centres - step, centres + step], axis=3).reshape(-1, 2, 2)
    strength = np.clip(histograms / np.quantile(histograms, 0.99), 0, 1).ravel()
    order = np.argsort(strength)
    axes.add_collection(LineCollection(lines[order], cmap="gray", array=strength[order], linewidths=width))
    axes.set_facecolor("black")
    axes.set(xlim=(-0.5, columns * cell - 0.5), ylim=(rows * cell - 0.5, -0.5), aspect="equal", xticks=[], yticks=[])


def pixels():
    image = to_float(data.astronaut()[:300, 80:380])
    figure, axes = plt.subplots(1, 4, figsize=(9, 2.5))
    show(axes[0], image, "photograph")
    size = (16, 16)
    show(axes[1], RawPixels(size=size, color=True).describe(image).reshape(*size, 3), "color=True")
    show(axes[2], RawPixels(size=size).describe(image / 3).reshape(size), "a third of the light", vmin=0, vmax=1)
    values = RawPixels(size=size, norm="contrast").describe(image / 3)
    show(axes[3], values.reshape(size), 'the same, norm="contrast"', vmin=-2, vmax=2)
    finish(figure, "pixels.png")


def hog():
    # A window of 128 x 64 about the walking man of the camera picture.
    window = crop_to_fill(data.camera()[40:470, 110:325], (128, 64))
    figure, axes = plt.subplots(1, 4, figsize=(8.4, 3.8))
    show(axes[0], window, "window of 128 x 64")
    strokes(axes[1], cell_histograms(window), 8)
    axes[1].set_title("16 x 8 cells, 9 orientations", fontsize=9)
    blocks = HOG().describe(window).reshape(15, 7, 2, 2, 9)
    # Each cell is in up to four blocks; here the mean of what they make of it.
    cells, times = np.zeros((16, 8, 9)), np.zeros((16, 8, 1))
    for i in range(2):
        for j in range(2):
            cells[i : i + 15, j : j + 7] += blocks[:, :, i, j]
            times[i : i + 15, j : j + 7] += 1
    strokes(axes[2], cells / times, 8)
    axes[2].set_title("the same in 105 blocks", fontsize=9)
    axes[3].bar(np.arange(36), blocks[3, 2].ravel(), color=[ORANGE, BLUE] * 18, width=1)
    axes[3].set_title("one block: 4 cells x 9", fontsize=9)
    axes[3].set_xticks([4, 13, 22, 31], ["cell 1", "2", "3", "4"])
    axes[3].tick_params(labelsize=7)
    axes[3].set_box_aspect(1)
    for axis in axes[:2]:
        axis.add_patch(Rectangle((15.5, 23.5), 16, 16, fill=False, edgecolor=ORANGE, linewidth=1.5))
    finish(figure, "hog.png")


def phog():
    image = data.camera()[:, :]
    descriptor = PyramidHOG(orientations=9, norm="l1")
    values = descriptor.describe(image)
    figure, axes = plt.subplots(1, 5, figsize=(11, 2.6))
    show(axes[0], image[::2, ::2], "photograph")
    first = 0
    for level, panel in enumerate(axes[1:]):
        side = 2**level
        strokes(
            panel, values[first : first + side * side * 9].reshape(side, side, 9), 256 / side, width=2 - level / 3
        )
        first += side * side * 9
        panel.set_title(f"level {level}: {side} x {side}", fontsize=9)
    finish(figure, "phog.png")


def haar():
    face = resize(as_gray(to_float(data.astronaut()[75:175, 175:275])), (19, 19))
    descriptor = HaarFeatures()
    values = descriptor.describe(face)
    figure, axes = plt.subplots(1, 6, figsize=(11, 2.3))
    show(axes[0], face, "19 x 19 pixels")
    first = 0
    parts = {"2-x": (1, 2), "2-y": (2, 1), "3-x": (1, 3), "3-y": (3, 1), "4": (2, 2)}
    for panel, (kind, places) in zip(axes[1:], descriptor.rectangles()):
        own = values[first : first + len(places)]
        first += len(places)
        best = np.abs(own).argmax()
        top, left, height, width = places[best]
        show(panel, face, f'"{kind}": {len(own):,}\nlargest {own[best]:.0f}', alpha=0.8)
        for i in range(parts[kind][0]):
            for j in range(parts[kind][1]):
                color = ORANGE if (i + j) % 2 else BLUE
                corner = left + j * width - 0.5, top + i * height - 0.5
                panel.add_patch(Rectangle(corner, width, height, alpha=0.45, facecolor=color, edgecolor="white"))
    finish(figure, "haar.png")


def gist():
    image = data.camera()
    gray = crop_to_fill(to_float(image), (256, 256))
    low, high = gray.min(), gray.max()
    values = GIST().describe(image).reshape(4, 8, 4, 4)
    figure, axes = plt.subplots(1, 4, figsize=(10, 2.6))
    show(axes[0], gray, "photograph, 256 x 256")
    show(axes[1], whiten((gray - low) * (255 / (high - low)), 4.0), "whitened", vmin=-2, vmax=2)
    upright = values[:, 0].mean(axis=0)
    show(axes[2], upright, "answers to upright edges")
    # Every cell as the sum of its filters in the Fourier plane, as the authors draw it.
    filters = np.stack(gabor_filters(64, (8, 8, 8, 8)))
    both = np.fft.fftshift(filters + np.roll(filters[..., ::-1, ::-1], 1, axis=(2, 3)), axes=(2, 3))
    cells = np.einsum("soij,soab->iajb", values, both).reshape(256, 256)
    show(axes[3], cells, "4 x 4 cells, 32 filters each", vmax=np.quantile(cells, 0.997))
    for edge in (64, 128, 192):
        axes[3].axhline(edge - 0.5, color="white", linewidth=0.6)
        axes[3].axvline(edge - 0.5, color="white", linewidth=0.6)
    finish(figure, "gist.png")


def centrist():
    image = data.camera()[::2, ::2]
    figure, axes = plt.subplots(1, 4, figsize=(11, 2.6), gridspec_kw={"width_ratios": [1, 1, 1, 1.6]})
    show(axes[0], image, "photograph")
    census = census_transform(image)
    show(axes[1], census, "census transform")
    show(axes[2], image, "the 25 blocks of level 2")
    for i in range(4):
        for j in range(4):
            axes[2].add_patch(Rectangle((64 * j, 64 * i), 64, 64, fill=False, edgecolor=BLUE, linewidth=1.6))
    for i in range(3):
        for j in range(3):
            corner = (64 * j + 32, 64 * i + 32)
            axes[2].add_patch(Rectangle(corner, 64, 64, fill=False, edgecolor=ORANGE, linewidth=1, linestyle="--"))
    counts = np.bincount(census.ravel(), minlength=256) / census.size
    axes[3].bar(np.arange(1, 255), counts[1:-1], width=1, color=BLUE)
    axes[3].set_title("histogram of bins 1 to 254", fontsize=9)
    axes[3].set_xlim(0, 255)
    axes[3].tick_params(labelsize=7)
    finish(figure, "centrist.png")


def finish(figure, name):
    figure.tight_layout()
    figure.savefig(HERE / name, dpi=96, bbox_inches="tight", pad_inches=0.05)
    plt.close(figure)
    # A palette takes a third of the bytes.
    Image.open(HERE / name).convert("RGB").quantize(192).save(HERE / name, optimize=True)


if __name__ == "__main__":
    for draw in (pixels, hog, phog, haar, gist, centrist):
        draw()
