"""``cbid serve``: requests, the end by a signal, and errors."""

import inspect
import json
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import httpx2 as httpx
import pytest

from cbid.cli import run
from cbid.commands.serve import serve
from cbid.web import ServiceSettings, listen
from cbid.web.server import run_workers

ROOT = Path(__file__).parents[2]


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


def children_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(child) for child in file.read().split()]


@pytest.mark.long
def test_two_processes_serve_log_and_are_replaced(fitted):
    """Both answer on one address; one that is killed is replaced; SIGTERM ends all, with status 0."""
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    environment.pop("CBID_API_KEY", None)
    program = "from cbid import cli; from cbid.web import server; server._MIN_SECONDS = 0.1; cli.main()"
    command = [sys.executable, "-c", program, "serve", fitted, "--port", "0", "--workers", "2", "--log", "json"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            address = re.search(r"at (http://127\.0\.0\.1:\d+) with 2 processes", process.stdout.readline())[1]
            answer = httpx.get(f"{address}/health", timeout=60, headers={"x-request-id": "abc.1"})
            assert answer.headers["x-request-id"] == "abc.1"
            children = children_of(process.pid)
            assert len(children) == 2
            os.kill(children[0], signal.SIGKILL)
            assert httpx.get(f"{address}/health", timeout=60).status_code == 200
            for _ in range(300):
                if len(now := children_of(process.pid)) == 2 and children[0] not in now:
                    break
                time.sleep(0.1)
            httpx.get(f"{address}/health", timeout=60, headers={"x-request-id": "abc.2"})
        finally:
            process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 0
    lines = [json.loads(line) for line in err.splitlines()]
    access = next(line for line in lines if line["request"] == "abc.2")  # the killed one may have served abc.1
    assert (access["method"], access["path"], access["status"]) == ("GET", "/health", 200)
    assert any("another is started" in line["message"] for line in lines)


def test_a_worker_that_cannot_start_ends_the_service(tmp_path):
    with listen("127.0.0.1", 0) as sock, pytest.raises(OSError, match="ended at its start"):
        run_workers(tmp_path / "none", ServiceSettings(), sock, 1)


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


def test_the_documented_unit_and_container(capsys, monkeypatch):
    """Their commands reach the project, which is missing here; the extras of the container exist."""
    monkeypatch.setenv("CBID_API_KEY", "a key of many letters")
    page = (ROOT / "docs" / "service.md").read_text()
    unit = re.search(r"^ExecStart=(.*)$", page, re.MULTILINE)[1].split()
    container = json.loads(re.search(r"^CMD (\[.*\])$", page, re.MULTILINE)[1])
    for command in (unit, container):
        assert command[0].endswith("cbid")
        assert run(command[1:]) == 1
        assert f"{command[2]} does not exist" in capsys.readouterr().err
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(re.search(r"/src\[(.*)\]'", page)[1].split(",")) <= set(known)


def test_a_port_that_is_taken(tmp_path, capsys):
    with listen("127.0.0.1", 0) as sock:
        assert run(["serve", str(tmp_path), "--port", str(sock.getsockname()[1])]) == 1
    assert "127.0.0.1 port" in capsys.readouterr().err


def test_the_command_has_the_defaults_of_the_settings():
    settings, given = ServiceSettings(), inspect.signature(serve).parameters
    same = ("max_pixels", "decode_seconds", "seconds", "upload_seconds", "rate", "threads", "read_only", "store")
    for name in same:
        assert given[name].default == getattr(settings, name), name
    for name in ("max_upload", "decode_memory"):
        assert given[name].default * 2**20 == getattr(settings, name), name
    assert int(5 * given["rate"].default) == settings.burst
