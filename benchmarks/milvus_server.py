"""A real Milvus server for tests and measurements: PyPI's ``milvus`` 2.3.5, in a virtual environment of its own.

It is installed once, into the folder that CBID_MILVUS_SERVER names, or else into the user's cache. Ports are free
ones; data, configuration and logs lie in one folder; the process is ended by its id.
"""

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

VERSION = "2.3.5"
VARIABLE = "CBID_MILVUS_SERVER"
_START_SECONDS = 180

# Run by the server's own Python: its package writes the configuration, with ports that are free.
_UNPACK = "import sys, milvus; milvus._initialize_data_files(sys.argv[1])"
_CONFIGURE = """
import json, sys, milvus
config = milvus.MilvusServerConfig(data_dir=sys.argv[1])
config.set("common.session.ttl", 10)  # seconds after a kill -9 until it lets its successor in
config.resolve()
metrics, sock = config.resolve_port(9091)
sock.close()
print(json.dumps({"port": config.get("proxy_port"), "metrics_port": metrics}))
"""


class NotInstalled(RuntimeError):
    """The server cannot be installed here."""


def installed() -> Path:
    """The folder of the server, installed if it was not."""
    named = os.environ.get(VARIABLE)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = Path(named) if named else cache / "cbid" / f"milvus-{VERSION}"
    done = folder / "installed"
    if not done.exists():
        pip = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        for command in (
            [sys.executable, "-m", "venv", folder],
            [*pip, f"milvus=={VERSION}"],
            [folder / "bin" / "python", "-c", _UNPACK, folder / "server"],
        ):
            ended = subprocess.run(command, capture_output=True, text=True, check=False)
            if ended.returncode:
                last = (ended.stderr.strip().splitlines() or ["no word"])[-1]
                raise NotInstalled(f"the Milvus server cannot be installed into {folder}: {last}")
        done.touch()
    return folder


def _free_ports(n: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(n)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


class MilvusServer:
    """A server with its data in ``folder``; started and ended as often as one likes, always at the same port."""

    def __init__(self, folder: Path) -> None:
        self._home, self.folder = installed(), Path(folder)
        configure = [self._home / "bin" / "python", "-c", _CONFIGURE, self.folder]
        ports = json.loads(subprocess.run(configure, stdout=subprocess.PIPE, text=True, check=True).stdout)
        self.port, self._metrics_port = ports["port"], ports["metrics_port"]
        # The etcd inside would listen on its usual ports, where another one may be.
        client, peer = (f"http://127.0.0.1:{port}" for port in _free_ports(2))
        settings = {
            "name": "default",
            "listen-client-urls": client,
            "advertise-client-urls": client,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": f"default={peer}",
        }
        self._etcd = self.folder / "configs" / "etcd.yaml"
        self._etcd.write_text(json.dumps(settings))
        self._process: subprocess.Popen | None = None

    def address(self, collection: str) -> str:
        return f"milvus://127.0.0.1:{self.port}/{collection}"

    def start(self, *, wait: bool = True) -> "MilvusServer":
        programs = self._home / "server" / "bin"
        environment = {
            **os.environ,
            "DEPLOY_MODE": "STANDALONE",
            "METRICS_PORT": str(self._metrics_port),
            "ETCD_CONFIG_PATH": str(self._etcd),
            "MILVUS_RUN_DIR": str(self.folder / "run"),
            "LD_LIBRARY_PATH": str(programs),
        }
        with open(self.folder / "logs" / "output.log", "ab") as log:
            self._process = subprocess.Popen(
                [programs / "milvus", "run", "standalone"],
                cwd=self.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        if wait:
            self.wait()
        return self

    def wait(self) -> None:
        """Until it says that it is healthy."""
        until = time.monotonic() + _START_SECONDS
        while time.monotonic() < until:
            assert self._process is not None
            if self._process.poll() is not None:
                raise RuntimeError(f"the Milvus server ended with {self._process.returncode}; see {self.folder}/logs")
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self._metrics_port}/healthz", timeout=5) as answer:
                    if b"OK" in answer.read():
                        return
            except OSError:  # refused, or not ready
                pass
            time.sleep(0.2)
        raise RuntimeError(f"the Milvus server was not healthy within {_START_SECONDS} s; see {self.folder}/logs")

    def kill(self) -> None:
        """kill -9, by its id; asked to end, it would take half a minute."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def __enter__(self) -> "MilvusServer":
        return self.start()

    def __exit__(self, *error: object) -> None:
        self.kill()
