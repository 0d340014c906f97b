"""Negative training windows: random ones, then hard negatives, the false positives of the detector."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbid.data.names import printable
from cbid.detection.scan import Scanner, Windows
from cbid.progress import image_progress
from cbid.threads import ordered_map

Floats = NDArray[np.float32]


def random_windows(scanner: Scanner, image: NDArray[Any], n: int, rng: np.random.Generator) -> Floats:
    """Return HOG vectors (n, d) of windows drawn uniformly from all positions and scales of a photograph."""
    image = scanner.check_photograph(image)
    layout, margin = scanner.layout, scanner.layout.margin
    sizes = scanner.shapes(image.shape)
    # Positions of a window at each scale, by height and by width.
    positions = np.array(sizes) + 2 * scanner.border - np.array(layout.window) + 1
    chosen = rng.choice(len(sizes), size=n, p=positions.prod(axis=1) / positions.prod(axis=1).sum())
    descriptor = layout.descriptor()
    values = np.empty((n, layout.n_features), np.float32)
    for k in np.unique(chosen):
        scaled = scanner.scaled(image, sizes[k])
        for row in np.flatnonzero(chosen == k):
            y, x = (int(rng.integers(count)) for count in positions[k])
            height, width = (side + 2 * margin for side in layout.window)
            values[row] = descriptor.describe(scaled[y : y + height, x : x + width])
    return values


@dataclass
class NegativeWindows:
    """Windows of photographs without objects, collected round by round without repeats.

    A photograph gives at most ``most`` hard windows in a round, highest scores first.
    """

    scanner: Scanner
    photographs: Sequence[NDArray[Any]]
    most: int
    n_jobs: int = 1
    verbose: int = 0
    features: list[Floats] = field(default_factory=list)
    _known: dict[int, set[tuple[float, ...]]] = field(default_factory=dict)

    def add_random(self, n: int, rng: np.random.Generator) -> None:
        """Add n random windows of each photograph."""
        seeds = rng.integers(2**63, size=len(self.photographs))

        def draw(i: int) -> Floats:
            return random_windows(self.scanner, self._read(i), n, np.random.default_rng(seeds[i]))

        self.features += self._map(draw, "random windows")

    def add_hard(self, coef: NDArray[Any], intercept: float, threshold: float) -> int:
        """Add new windows with a score of at least ``threshold``; return their number."""

        def mine(i: int) -> Windows:
            return self.scanner.scan(self._read(i), coef, intercept, threshold, self.most)

        added = 0
        for i, found in enumerate(self._map(mine, "hard windows")):
            known = self._known.setdefault(i, set())
            new = [row for row, box in enumerate(found.boxes) if tuple(box) not in known]
            known.update(tuple(found.boxes[row]) for row in new)
            self.features.append(found.features[new])
            added += len(new)
        return added

    def rows(self) -> Floats:
        """Return the HOG vectors (n, d) of all windows."""
        return np.concatenate(self.features)

    def _read(self, i: int) -> NDArray[Any]:
        """Return photograph i; a ValueError names it if no window fits."""
        image = self.photographs[i]
        try:
            return self.scanner.check_photograph(image)
        except ValueError as error:
            names = getattr(self.photographs, "names", None)
            name = f"photograph {i}" if names is None else printable(names[i])
            raise ValueError(f"negatives: {name}: {error}") from error

    def _map(self, function: Callable[[int], Any], title: str) -> list[Any]:
        results = []
        with image_progress(len(self.photographs), title, shown=bool(self.verbose)) as advance:
            tasks = ((i, (i,)) for i in range(len(self.photographs)))
            for _, result in ordered_map(function, tasks, self.n_jobs, threads=True):
                results.append(result)
                advance(1)
        return results
