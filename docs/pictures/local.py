"""Draws the pictures of docs/descriptors_local.md, from photographs inside scikit-image.

python docs/pictures/local.py
"""

from pathlib import Path

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Rectangle
from PIL import Image
from skimage import data

from cbid.data.images import resize_longest
from cbid.descriptors import DenseSIFT, KernelDescriptors
from cbid.descriptors.deep import Preprocessing
from cbid.descriptors.kernel_descriptors import over_angles, over_line

HERE = Path(__file__).parent
COLOURS = ("#e69f00", "#56b4e9", "#009e73", "#d55e00")


def box(axes, x, y, side, colour):
    axes.add_patch(Rectangle((x - side / 2, y - side / 2), side, side, fill=False, edgecolor=colour, linewidth=1.6))


def bins(axes, values, x, y, side, colour):
    """Arrows of each orientation in each of the 4 x 4 bins, as long as the value."""
    angles = np.arange(8) * np.pi / 4
    width = side / 4
    for i in range(4):
        for j in range(4):
            cx, cy = x + (j - 1.5) * width, y + (i - 1.5) * width
            lengths = values.reshape(4, 4, 8)[i, j] / values.max() * 0.6 * width
            for length, angle in zip(lengths, angles):
                tip = cx + length * np.cos(angle), cy - length * np.sin(angle)
                axes.plot([cx, tip[0]], [cy, tip[1]], color=colour, linewidth=1.6)
    for t in np.arange(-2, 3) * width:
        axes.plot([x - side / 2, x + side / 2], [y + t, y + t], color=colour, linewidth=0.5)
        axes.plot([x + t, x + t], [y - side / 2, y + side / 2], color=colour, linewidth=0.5)


def dense_sift():
    image = resize_longest(data.camera(), 150)
    sift = DenseSIFT()
    values, frames, _ = sift.describe(image)
    figure, axes = plt.subplots(1, 5, figsize=(11, 2.7), gridspec_kw={"width_ratios": [1.35, 1, 1, 1, 1]})
    axes[0].imshow(image, cmap="gray")
    grid = frames[frames[:, 2] == 16]
    axes[0].plot(grid[::1, 0], grid[:, 1], ",", color="#e69f00", alpha=0.6)
    axes[0].set_title(f"{len(values):,} patches, every {sift.step} pixels", fontsize=9)
    centre = np.array([72, 40])
    for panel, side, colour in zip(axes[1:], sift.sides, COLOURS):
        rows = np.flatnonzero(frames[:, 2] == side)
        row = rows[np.argmin(((frames[rows, :2] - centre) ** 2).sum(1))]
        x, y, _ = frames[row]
        box(axes[0], x, y, side, colour)
        blurred, _ = sift._blurred(np.float32(image), side / 4)
        panel.imshow(blurred, cmap="gray", alpha=0.55, vmin=0, vmax=255)
        bins(panel, values[row], x, y, side, colour)
        panel.set_xlim(x - 0.62 * side, x + 0.62 * side)
        panel.set_ylim(y + 0.62 * side, y - 0.62 * side)
        panel.set_title(f"side {side}", fontsize=9)
    finish(figure, "dense_sift.png")


def kernel_descriptors():
    """The first components of what a pixel shows and of where it lies, and how near inner products come."""
    figure, axes = plt.subplots(1, 3, figsize=(11, 2.9), gridspec_kw={"width_ratios": [1, 1, 1.15]})
    angles = np.linspace(0, 2 * np.pi, 200)
    directions = over_angles(25, 5.0)
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    for t, line in enumerate(directions.components(circle, np.arange(5)).T):
        axes[0].plot(np.degrees(angles), line, label=f"{t + 1}")
    axes[0].set_title("direction: first components", fontsize=9)
    axes[0].set_xticks([0, 90, 180, 270, 360])
    axes[0].set_xlabel("degrees", fontsize=8)
    places = np.linspace(0, 1, 100, dtype=np.float32)
    for line in over_line(5, 3.0).components(places[:, None], np.arange(4)).T:
        axes[1].plot(places, line)
    axes[1].set_title("position along an axis: first components", fontsize=9)
    axes[1].set_xlabel("from one edge of the patch to the other", fontsize=8)
    image = resize_longest(data.astronaut(), 150)
    counts = [10, 25, 50, 100, 200, 400]
    for kernel, colour in zip(("gradient", "shape", "colour"), COLOURS):
        whole, _, _ = KernelDescriptors(kernel=kernel, n_components=625, sides=(16,)).describe(image)
        exact = whole @ whole.T
        errors = [np.abs(whole[:, :n] @ whole[:, :n].T - exact).mean() / exact.mean() for n in counts]
        axes[2].loglog(counts, errors, "o-", color=colour, label=kernel, markersize=3)
    axes[2].set_xticks(counts, [str(n) for n in counts])
    axes[2].minorticks_off()
    axes[2].set_title("mean error of the kernel, beside 625 components", fontsize=9)
    axes[2].set_xlabel("components", fontsize=8)
    axes[2].legend(fontsize=8)
    finish(figure, "kernel_descriptors.png", ticks=True)


def onnx_embedding():
    image = np.asarray(data.coffee())
    ways = {
        "the image": None,
        'fit "crop", crop 0.875': {"crop": 0.875},
        'fit "crop", crop 1': {"crop": 1.0},
        'fit "stretch"': {"fit": "stretch"},
    }
    figure, axes = plt.subplots(1, 4, figsize=(11, 2.8), gridspec_kw={"width_ratios": [1.5, 1, 1, 1]})
    for panel, (name, entries) in zip(axes, ways.items()):
        if entries is None:
            panel.imshow(image)
            for crop, colour in ((0.875, COLOURS[0]), (1.0, COLOURS[1])):
                h, w = image.shape[:2]
                box(panel, w / 2, h / 2, crop * min(h, w) - 4, colour)
        else:
            chosen = Preprocessing.of({**entries, "scale": 1, "mean": 0, "std": 1})
            panel.imshow(np.uint8(chosen.settled((224, 224), "NHWC", "RGB", "").apply(image)))
        panel.set_title(name, fontsize=9)
    finish(figure, "onnx_preprocessing.png")


def finish(figure, name, ticks=False):
    for panel in figure.axes:
        if not ticks:
            panel.set_xticks([])
            panel.set_yticks([])
        panel.tick_params(labelsize=7)
    figure.tight_layout()
    figure.savefig(HERE / name, dpi=100)
    plt.close(figure)
    Image.open(HERE / name).convert("RGB").quantize(160).save(HERE / name, optimize=True)  # a third of the bytes


if __name__ == "__main__":
    dense_sift()
    kernel_descriptors()
    onnx_embedding()
