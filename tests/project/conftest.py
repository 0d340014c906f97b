"""One project for all tests that only read, and a copy of it for each that writes."""

import shutil

import pytest

from cbid.project import Project
from tests.project.made import fitted, write_images


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """The folder of images, and the directory of the project that was fitted on it."""
    root = tmp_path_factory.mktemp("project")
    images = write_images(root / "images", n=12)
    fitted(root / "images.cbid", images).close()
    return images, root / "images.cbid"


@pytest.fixture(scope="session")
def project(made):
    with Project.open(made[1]) as opened:
        yield opened


@pytest.fixture
def copied(made, tmp_path):
    """A copy of the project, to change."""
    shutil.copytree(made[1], tmp_path / "copy.cbid")
    return tmp_path / "copy.cbid"
