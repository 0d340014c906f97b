"""What the attacks are aimed at: a small project, and a service for it."""

import contextlib
import re
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from cbid.project import Project

KEY = "a key of many letters"
_HEALTH = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"


@contextlib.contextmanager
def made_project(labels: tuple[str, str] = ("cat", "dog")) -> Iterator[Path]:
    """Yield the path of a project of 40 vectors."""
    with tempfile.TemporaryDirectory() as folder:
        X = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)
        X[:20] += 3
        np.savez(Path(folder) / "v.npz", X=X, y=np.repeat(labels, 20))
        Project.fit(Path(folder) / "p.cbid", Path(folder) / "v.npz", n_bits=8).close()
        yield Path(folder) / "p.cbid"


@contextlib.contextmanager
def made_images() -> Iterator[Path]:
    """Yield the path of a project of 12 small images."""
    from PIL import Image

    with tempfile.TemporaryDirectory() as folder:
        rng = np.random.default_rng(0)
        for i in range(12):
            path = Path(folder) / "images" / ("dark", "light")[i % 2] / f"{i}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray((rng.integers(0, 128, (64, 64)) + 127 * (i % 2)).astype(np.uint8)).save(path)
        Project.fit(Path(folder) / "p.cbid", Path(folder) / "images", n_bits=8).close()
        yield Path(folder) / "p.cbid"


@contextlib.contextmanager
def served(*, images: bool = False, **settings: object) -> Iterator[tuple[str, int]]:
    """Yield the address of a running service, of images or of vectors."""
    from cbid.web import ServiceSettings, create_app, listen, make_server

    with made_images() if images else made_project() as path, listen("127.0.0.1", 0) as sock:
        server = make_server(create_app(path, ServiceSettings(**settings)))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]}, daemon=True)
        thread.start()
        address = sock.getsockname()[:2]
        try:
            request(address, _HEALTH, 120)
            yield address
        finally:
            server.should_exit = True
            thread.join(30)


@contextlib.contextmanager
def served_alone(*options: str) -> Iterator[tuple[tuple[str, int], int]]:
    """Yield the address of a service of images in a separate process (``cbid serve``), and its process id."""
    with made_images() as path:
        command = [sys.executable, "-m", "cbid", "serve", str(path), "--port", "0", *options]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            found = re.search(r"http://127\.0\.0\.1:(\d+)", process.stdout.readline())
            assert found is not None, "the service does not start"
            address = "127.0.0.1", int(found[1])
            request(address, _HEALTH, 120)  # it may compile kernels first
            yield address, process.pid
        finally:
            process.terminate()
            process.wait(30)
            process.stdout.close()


def request(address: tuple[str, int], content: bytes, seconds: float = 30) -> bytes:
    """Send bytes and return what comes back until the connection is closed."""
    with socket.create_connection(address, timeout=seconds) as sock:
        sock.sendall(content)
        parts = []
        while part := sock.recv(65536):
            parts.append(part)
    return b"".join(parts)
