"""The release: what is built holds the whole package, and the wheel works in an environment of its own."""

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROGRAM = """
import numpy as np
import cbid

rng = np.random.default_rng(0)
y = np.repeat([0, 1], 50)
X = rng.normal(size=(100, 8)) + 3 * y[:, None]
coder = cbid.CBID(n_bits=8).fit(X, y)
index = cbid.CodeIndex(n_bits=coder.n_bits_, weights=coder.weights_)
index.add(coder.encode(X), labels=y)
assert (index.search(coder.encode(X), k=1).labels[:, 0] == y).mean() > 0.9
print(cbid.__version__, cbid.__file__)
"""


def run(*command, cwd=ROOT):
    # Without the variables that lead Python back to the source tree.
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "COV"))}
    done = subprocess.run([str(part) for part in command], cwd=cwd, env=clean, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A copy of the files under version control, so that leftovers of other builds cannot help."""
    copy = tmp_path_factory.mktemp("release") / "cbid"
    copy.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    return copy


@pytest.fixture(scope="module")
def built(tree):
    """The sdist, and the wheel that is built from it."""
    run(sys.executable, "-m", "build", "--outdir", tree / "dist", tree, cwd=tree)
    (sdist,) = (tree / "dist").glob("*.tar.gz")
    (wheel,) = (tree / "dist").glob("*.whl")
    return sdist, wheel


@pytest.mark.long
def test_built_files_hold_the_package(tree, built):
    sdist, wheel = built
    source = tree / "src"
    modules = {str(path.relative_to(source)) for path in source.rglob("*.py")}
    page = [path for path in (source / "cbid/web/page").iterdir() if path.is_file()]
    data = {"cbid/py.typed", *(str(path.relative_to(source)) for path in page)}
    assert page
    with zipfile.ZipFile(wheel) as file:
        names = set(file.namelist())
    assert modules | data <= names
    assert not [name for name in names if name.startswith("tests")]
    with tarfile.open(sdist) as file:
        names = {name.split("/", 1)[-1] for name in file.getnames()}
    assert {f"src/{name}" for name in modules | data} | {"LICENSE", "README.md", "pyproject.toml"} <= names


@pytest.mark.long
def test_wheel_works_in_an_empty_environment(built, tmp_path):
    """The library needs only its declared dependencies; the extra `cli` is enough for the program."""
    _, wheel = built
    run(sys.executable, "-m", "venv", tmp_path / "venv")
    python, program = tmp_path / "venv/bin/python", tmp_path / "venv/bin/cbid"
    install = (python, "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt")
    run(*install, wheel, cwd=tmp_path)
    version, place = run(python, "-c", PROGRAM, cwd=tmp_path).split()
    assert Path(place).is_relative_to(tmp_path / "venv")
    assert wheel.name.startswith(f"cbid-{version}-")

    run(*install, f"{wheel}[cli]", cwd=tmp_path)
    assert version in run(program, "--version", cwd=tmp_path)
    assert "search" in run(program, "--help", cwd=tmp_path)


def test_every_optional_dependency_can_be_imported():
    """Tests skip what is absent, so a broken dependency in this environment would otherwise go unnoticed."""
    names = (
        "PIL cv2 skimage onnxruntime pyarrow usearch matplotlib dask distributed pymilvus milvus_lite typer fastapi"
    )
    run(sys.executable, "-c", f"import {', '.join([*names.split(), 'uvicorn', 'multipart'])}")
