"""The program: one line for an error, exit status 0, 1 or 2, no traceback."""

import json
import subprocess
import sys
import threading
import warnings

import pytest

import cbid
from cbid.cli import main, run


def program(*arguments, **options):
    return subprocess.run([sys.executable, "-m", "cbid", *arguments], capture_output=True, text=True, **options)


def test_version_and_help(capsys):
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"cbid {cbid.__version__}\n"
    assert run(["--help"]) == 0
    assert "data" in capsys.readouterr().out
    assert run([]) == 2
    captured = capsys.readouterr()
    assert "Usage" in captured.out + captured.err


def test_as_a_process():
    done = program("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"cbid {cbid.__version__}\n", "")
    done = program("nonsense")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "nonsense" in done.stderr


@pytest.mark.parametrize("arguments", [["data", "--nonsense"], ["nonsense"], ["data", "a", "b"], ["data", "--root"]])
def test_a_wrong_call_is_told_in_one_line(capsys, arguments):
    assert run(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("cbid: ")
    assert captured.err.count("\n") == 1
    assert "--help)" in captured.err


def failing_with(monkeypatch, error):
    def fail(*arguments):
        raise error

    monkeypatch.setattr("cbid.commands.data._found", fail)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ValueError("wrong\nthing"), "cbid: wrong thing\n"),
        (FileNotFoundError(2, "No such file", "x"), "cbid: [Errno 2] No such file: 'x'\n"),
        (ImportError("needs the extra 'tables'"), "cbid: needs the extra 'tables'\n"),
        (KeyboardInterrupt(), "cbid: interrupted\n"),
        (ValueError("caf\udce9"), "cbid: caf\\udce9\n"),
        (ZeroDivisionError("by 0"), "cbid: internal error, ZeroDivisionError: by 0 (CBID_TRACEBACK=1 shows where)\n"),
    ],
)
def test_an_error_is_told_in_one_line(monkeypatch, capsys, error, told):
    failing_with(monkeypatch, error)
    assert run(["data"]) == 1
    assert capsys.readouterr().err == told


def test_a_traceback_when_asked_for(monkeypatch):
    failing_with(monkeypatch, ValueError("wrong"))
    monkeypatch.setenv("CBID_TRACEBACK", "1")
    with pytest.raises(ValueError, match="wrong"):
        run(["data"])


def test_warnings_are_told_in_one_line(monkeypatch, capsys):
    def warn(*arguments):
        warnings.warn("careful", UserWarning, stacklevel=1)
        raise ValueError("wrong")

    monkeypatch.setattr("cbid.commands.data._found", warn)
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        run(["data"])
    assert capsys.readouterr().err == "cbid: warning: careful\ncbid: wrong\n"


def test_without_typer_the_extra_is_named(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "typer", None)
    assert run(["data"]) == 1
    assert capsys.readouterr().err == "cbid: the command line needs the extra 'cli': pip install 'cbid[cli]'\n"


def test_a_reader_that_stops_is_no_trouble(tmp_path):
    command = [sys.executable, "-m", "cbid", "data", "graz02", "--root", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stdout.close()  # before the program has begun to write
        assert process.stderr.read() == ""
    assert process.returncode == 1


def test_json_is_json(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("CBID_DATA", str(tmp_path))
    assert run(["data", "graz02", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["state"] == "absent"


def test_another_thread_may_run_the_program(capsys):
    ended = []

    def call():
        with pytest.raises(SystemExit) as end:
            main(["--version"])
        ended.append(end.value.code)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert ended == [0]
