"""Writes golden.npz: a photograph, and its descriptors as independent implementations give them.

``python -m tests.descriptors.golden`` rewrites it. HOG and Haar-like features come from scikit-image; pyramid HOG,
GIST and CENTRIST from the plain definitions in the tests beside this file (numpy's histograms, Fourier transforms as
matrices, blocks cut out one by one). Nothing of it passes through the code that is tested.
"""

from pathlib import Path

import numpy as np

from tests.descriptors import photographs, test_census, test_gist, test_haar, test_hog, test_phog

PATH = Path(__file__).parent / "golden.npz"
PLACES = np.array([(0, 0, 4, 6), (3, 2, 5, 4), (7, 1, 2, 3), (1, 0, 17, 9)])  # top, left, height, width


def main():
    image = photographs.gray()[0][40:136, 60:156]
    half = ((image[::2, ::2].astype(int) + image[1::2, ::2] + image[::2, 1::2] + image[1::2, 1::2] + 2) // 4).astype(
        np.uint8
    )
    window = image[:19, :19] / 255
    blocks = [*test_census.plain_blocks(half, 1), *test_census.plain_blocks(image, 2)]
    values = {
        "HOG": test_hog.reference(image / 255),
        "PyramidHOG": test_phog.from_definition(image / 255, [(1, 1), (2, 2), (4, 4)], 9),
        "HaarFeatures": [test_haar.reference(window, "2-x")[tuple(place)] for place in PLACES.tolist()],
        "GIST": test_gist.from_definition(image / 255),
        "CENTRIST": np.concatenate([histogram[1:-1] for histogram, _, _ in blocks]),
    }
    np.savez_compressed(PATH, image=image, **{name: np.float32(row) for name, row in values.items()})


if __name__ == "__main__":
    main()
