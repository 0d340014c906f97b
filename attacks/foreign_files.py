"""Files whose names look like those of a project, in the output directory. Expected: refused, nothing is removed."""

import tempfile
from pathlib import Path

import numpy as np

from cbid.project import Project, ProjectError


def main() -> None:
    """Run the attack."""
    for name in ("coder-thesis.tex", "index-cards", "images.sqlite", "vectors.f32", "evaluation-notes.txt"):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / name
            file.write_text("precious")
            source = Path(folder).parent / f"{Path(folder).name}.npy"
            np.save(source, np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32))
            try:
                Project.fit(folder, source, n_bits=2, coder="LSH")
            except ProjectError:
                pass
            else:
                raise AssertionError(f"a directory with {name} was accepted")
            finally:
                source.unlink()
            assert file.read_text() == "precious"


if __name__ == "__main__":
    main()
