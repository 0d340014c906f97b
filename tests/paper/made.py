"""Made-up raw results, and small sets of photographs in the layouts of the real ones."""

import io

import numpy as np
from PIL import Image

from cbid.paper import Context, Results, Row


def row(result, **settings):
    return Row(settings, result, 0.0)


def accuracies(values, metric="accuracy", **settings):
    """One row of each repeat with a stored metric."""
    return [row({metric: v, "n_bits": settings.get("bits")}, **settings, repeat=i) for i, v in enumerate(values)]


def together(*groups):
    return Results([row for group in groups for row in group])


def context(tmp_path):
    return Context(str(tmp_path), tmp_path / "cache")


def striped(angle, seed, size=64):
    """A photograph of a class: stripes at its angle, with a phase and noise of its own."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:size, :size] / size
    waves = np.sin(2 * np.pi * (6 * (x * np.cos(angle) + y * np.sin(angle)) + rng.random()))
    return np.clip(128 + 90 * waves + 25 * rng.normal(size=(size, size)), 0, 255).astype(np.uint8)


def write_classes(folder, classes, images, size=64):
    """Folders of stripes, one angle a class."""
    for c, name in enumerate(classes):
        (folder / name).mkdir(parents=True)
        for i in range(images):
            buffer = io.BytesIO()
            Image.fromarray(striped(np.pi * c / len(classes), 100 * c + i, size)).save(buffer, "PNG")
            (folder / name / f"{i:03d}.png").write_bytes(buffer.getvalue())
