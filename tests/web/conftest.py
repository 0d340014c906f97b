"""One small project for all tests of the service, and servers for it."""

import contextlib
import shutil
import threading
import time

import httpx2 as httpx
import pytest
from starlette.testclient import TestClient

from cbid.project import Project
from cbid.web import ServiceSettings, create_app, listen, make_server
from tests.data.pictures import write_tree
from tests.web.shapes import KINDS, png

N_BITS = 24
PER_CLASS = 12


@pytest.fixture(scope="session")
def fitted(tmp_path_factory):
    """Return the path of a project that no test changes."""
    root = tmp_path_factory.mktemp("web")
    folder = write_tree(root / "shapes", {f"{k}/{k}_{i:02}.png": png(k, i) for k in KINDS for i in range(PER_CLASS)})
    path = root / "shapes.cbid"
    Project.fit(path, folder, descriptor="pixels", n_bits=N_BITS).close()
    return path


@pytest.fixture
def copied(fitted, tmp_path):
    """Return a copy of the project that a test may change."""
    return shutil.copytree(fitted, tmp_path / "shapes.cbid")


@pytest.fixture(scope="session")
def project(fitted):
    """Open the project, to compute the expected results."""
    with Project.open(fitted) as opened:
        yield opened


@contextlib.contextmanager
def client_of(path, **settings):
    """Yield a client of an application in this process."""
    app = create_app(path, ServiceSettings(**settings))
    with TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False) as client:
        yield client


@pytest.fixture(scope="session")
def client(fitted):
    with client_of(fitted, rate=0, read_only=True) as client:
        yield client


@pytest.fixture
def writing(copied):
    with client_of(copied, rate=0) as client:
        yield client


@contextlib.contextmanager
def running(path, **settings):
    """Start a real server on a free loopback port and yield its address."""
    app = create_app(path, ServiceSettings(**settings))
    sock = listen("127.0.0.1", 0)
    server = make_server(app)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]}, daemon=True)
    thread.start()
    address = f"http://127.0.0.1:{sock.getsockname()[1]}"
    try:
        for _ in range(600):
            with contextlib.suppress(httpx.TransportError):
                httpx.get(f"{address}/health", timeout=60)
                break
            time.sleep(0.05)
        yield address
    finally:
        server.should_exit = True
        thread.join(60)
        sock.close()
        assert not thread.is_alive(), "the server did not shut down"
