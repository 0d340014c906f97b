"""Learn binary codes for handwritten digits and see what they keep of the raw pixels.

Needs nothing but the package (the digits come with scikit-learn).
"""

import time

from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier

from cbid import CBID


def main() -> None:
    console = Console()
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=600, random_state=0, stratify=y)

    start = time.perf_counter()
    coder = CBID(n_bits=32, verbose=1).fit(X_train, y_train)
    seconds = time.perf_counter() - start

    table = Table(title=f"{len(X_test)} unseen digits, 5 nearest of {len(X_train)}")
    for column, side in (("representation", "left"), ("bytes per image", "right"), ("accuracy", "right")):
        table.add_column(column, justify=side)  # type: ignore[arg-type]

    def row(name: str, n_bytes: int, train: object, test: object, **distance: str) -> None:
        accuracy = KNeighborsClassifier(5, **distance).fit(train, y_train).score(test, y_test)
        table.add_row(name, str(n_bytes), f"{accuracy:.1%}")

    row("64 raw pixels (float32)", 4 * 64, X_train, X_test)
    for n_bits in (8, 16, 32):
        short = coder.truncate(n_bits)
        row(
            f"{n_bits} learned bits", n_bits // 8, short.transform(X_train), short.transform(X_test), metric="hamming"
        )
    console.print(table)
    console.print(
        f"Learned in {seconds:.1f} s. The weights of the {coder.n_bits_} bits are within "
        f"{coder.gap_[-1] / coder.objective_[-1]:.1e} of the optimum, by their duality gap."
    )


if __name__ == "__main__":
    main()
