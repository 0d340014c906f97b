"""A detector from a hundred small pictures: HOG and an SVM propose windows, codes of the same vectors verify.

Needs ``pip install 'cbid[images,plots]'``; the pictures come with scikit-image.

python examples/faces.py [faces.png]
"""

import sys

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
from skimage import data

from cbid.detection import CBIDVerifier, SlidingWindowDetector
from cbid.detection.drawing import crop, draw_boxes


def main(picture: str = "faces.png") -> None:
    pictures = (255 * data.lfw_subset()).astype("uint8")  # 100 faces of 25 x 25 pixels, then 100 others
    faces = pictures[:100, :24, :24]
    without = [data.coffee(), data.rocket(), data.brick(), data.chelsea(), data.coins(), data.grass()]

    detector = SlidingWindowDetector(
        window=(24, 24), border=0, cell=4, step=2, C=1.0, verifier=CBIDVerifier(n_bits=128), random_state=0
    )
    detector.fit(faces, without)

    photograph = data.astronaut()
    found = detector.detect(photograph)
    print(f"{len(found.scores)} windows, scores from the best:", *(f"{score:.2f}" for score in found.scores[:5]))
    print("the best:", *(f"{edge:.0f}" for edge in found.boxes[0]))

    figure = plt.figure(figsize=(9, 4.2), layout="constrained")
    left, right = figure.subfigures(1, 2)
    show(left.subplots(), draw_boxes(photograph, found.boxes[:1], thickness=4), "the best window")
    for axes, box, score in zip(right.subplots(3, 4).flat, found.boxes, found.scores):
        show(axes, crop(photograph, box), f"{score:.2f}")
    figure.savefig(picture, dpi=90)


def show(axes, image, title: str) -> None:
    axes.imshow(image)
    axes.set(title=title, xticks=[], yticks=[])


if __name__ == "__main__":
    main(*sys.argv[1:])
