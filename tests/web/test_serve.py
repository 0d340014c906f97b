"""``cbid serve``: requests, the end by a signal, and errors."""

import os
import re
import signal
import subprocess
import sys

import httpx2 as httpx
import pytest

from cbid.cli import run
from cbid.web import listen


def test_serves_until_sigterm(fitted):
    environment = {**os.environ, "CBID_API_KEY": "a key of many letters", "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "cbid", "serve", str(fitted), "--port", "0", "--read-only"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            line = process.stdout.readline()
            address = re.search(r"\(48 images\) at (http://127\.0\.0\.1:\d+) ", line)[1]
            assert httpx.get(f"{address}/health", timeout=60).json() == {"status": "ok", "images": 48}
            assert httpx.get(f"{address}/api/project").status_code == 401
            headers = {"x-api-key": environment["CBID_API_KEY"]}
            assert httpx.get(f"{address}/api/project", headers=headers).json()["writable"] is False
        finally:
            process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, "", "")


@pytest.mark.parametrize(
    ("arguments", "status", "named"),
    [
        (["--host", "0.0.0.0"], 2, "host='0.0.0.0'"),
        (["--host", "::"], 2, "host='::'"),
        (["--api-key", "short"], 1, "api_key"),
        (["--rate", "-1"], 1, "rate=-1.0"),
        (["--port", "99999"], 2, "--port"),
        (["--port", "0"], 1, "none"),
    ],
)
def test_failures_in_one_line(tmp_path, capsys, monkeypatch, arguments, status, named):
    monkeypatch.delenv("CBID_API_KEY", raising=False)
    assert run(["serve", str(tmp_path / "none"), *arguments]) == status
    shown = capsys.readouterr()
    assert named in shown.err
    assert shown.err.count("\n") == 1
    assert shown.out == ""


def test_a_port_that_is_taken(tmp_path, capsys):
    with listen("127.0.0.1", 0) as sock:
        assert run(["serve", str(tmp_path), "--port", str(sock.getsockname()[1])]) == 1
    assert "127.0.0.1 port" in capsys.readouterr().err
