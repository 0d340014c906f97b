"""How accurate a few bytes are: handwritten digits, from 4 to 64 bits.

python examples/digits.py [digits.png]
"""

import sys

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier

from cbid import CBID, CodeKNeighborsClassifier


def main(picture: str = "digits.png") -> None:
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=600, random_state=0, stratify=y)
    pixels = KNeighborsClassifier(5).fit(X_train, y_train).score(X_test, y_test)

    # One fit: every prefix of a code is a code.
    coder = CBID(n_bits=64).fit(X_train, y_train)
    lengths = [4, 8, 12, 16, 24, 32, 48, 64]
    accuracy = []
    for n_bits in lengths:
        short = coder.truncate(n_bits)
        knn = CodeKNeighborsClassifier(5, bit_weights=short.weights_).fit(short.transform(X_train), y_train)
        accuracy.append(knn.score(short.transform(X_test), y_test))
        print(f"{n_bits:3} bits  {accuracy[-1]:.1%}")
    print(f"64 pixels {pixels:.1%}")

    figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
    axes.plot(lengths, [100 * share for share in accuracy], "o-", color="#00798c", label="learned bits")
    axes.axhline(100 * pixels, color="k", lw=0.8, ls=":", label="64 pixels (256 bytes as float32)")
    axes.set(xlabel="bits", ylabel="5-NN accuracy, %", title="600 digits not learned from, 1,197 learned from")
    axes.legend(frameon=False, loc="lower right")
    figure.savefig(picture, dpi=90)


if __name__ == "__main__":
    main(*sys.argv[1:])
