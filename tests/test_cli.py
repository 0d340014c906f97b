"""The program: exit status, errors in one line without a traceback, and the time to start."""

import json
import os
import resource
import signal
import subprocess
import sys
import threading
import warnings

import pytest

import cbid
from cbid.cli import main, run

HEAVY = {"numpy", "scipy", "sklearn", "numba", "faiss", "PIL", "cv2"}
COMPLETION = {"_CBID_COMPLETE": "complete_bash", "COMP_WORDS": "cbid e", "COMP_CWORD": "1"}


def program(*arguments, **options):
    return subprocess.run([sys.executable, "-m", "cbid", *arguments], capture_output=True, text=True, **options)


def test_version_and_help(capsys):
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"cbid {cbid.__version__}\n"
    assert run(["--help"]) == 0
    assert "fit" in capsys.readouterr().out
    assert run([]) == 2
    captured = capsys.readouterr()
    assert "Usage" in captured.out + captured.err


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["fit", "--help"]])
def test_start_without_heavy_imports(arguments):
    code = (
        "import sys\nfrom cbid.cli import run\n"
        f"status = run({arguments!r})\n"
        f"sys.stderr.write(' '.join({HEAVY!r} & set(sys.modules)))\nsys.exit(status)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "variables"),
    [(["--version"], {}), (["--help"], {}), ([], COMPLETION)],
    ids=["version", "help", "complete"],
)
def test_processor_time_to_start(arguments, variables):
    """Under 0.3 s on an idle machine; the bound allows for a busy one."""
    times = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert program(*arguments, env={**os.environ, **variables}).returncode == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        if times[-1] < 0.3:
            break
    assert min(times) < 0.6


def test_shell_completion():
    done = program(env={**os.environ, **COMPLETION})
    assert done.stdout.split() == ["encode", "evaluate", "export"]
    # Which shell calls is not known in every environment: name it instead of detecting it.
    named = {**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    assert "_CBID_COMPLETE" in program("--show-completion", "bash", env=named).stdout


def test_as_a_process():
    done = program("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"cbid {cbid.__version__}\n", "")
    done = program("nonsense")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "nonsense" in done.stderr


@pytest.mark.parametrize("arguments", [["data", "--nonsense"], ["nonsense"], ["data", "a", "b"], ["data", "--root"]])
def test_a_wrong_call_is_reported_in_one_line(capsys, arguments):
    assert run(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("cbid: ")
    assert captured.err.count("\n") == 1
    assert "--help)" in captured.err


def failing_with(monkeypatch, error):
    def fail(*arguments):
        raise error

    monkeypatch.setattr("cbid.commands.paper._set_info", fail)


@pytest.mark.parametrize(
    ("error", "status", "line"),
    [
        (ValueError("wrong\nthing"), 1, "cbid: wrong thing\n"),
        (FileNotFoundError(2, "No such file", "x"), 1, "cbid: x: No such file\n"),
        (OSError(28, "No space left on device"), 1, "cbid: No space left on device\n"),
        (OSError("the device is gone"), 1, "cbid: the device is gone\n"),
        (ImportError("needs the extra 'tables'"), 1, "cbid: needs the extra 'tables'\n"),
        (KeyboardInterrupt(), 130, "cbid: interrupted\n"),
        (ValueError("caf\udce9"), 1, "cbid: caf\\udce9\n"),
    ],
)
def test_an_error_is_reported_in_one_line(monkeypatch, capsys, error, status, line):
    failing_with(monkeypatch, error)
    assert run(["data"]) == status
    assert capsys.readouterr().err == line


def test_an_error_after_a_commit_says_so(monkeypatch, capsys):
    for error in (OSError(5, "Input/output error", "index"), KeyError("index")):
        error.add_note("the commit took place before this error")
        failing_with(monkeypatch, error)
        assert run(["data"]) == 1
        assert "; the commit took place before this error" in capsys.readouterr().err
    error = KeyboardInterrupt()
    error.add_note("the commit took place before this error")
    failing_with(monkeypatch, error)
    assert run(["data"]) == 130
    assert capsys.readouterr().err == "cbid: interrupted; the commit took place before this error\n"


def test_an_internal_error_names_its_type_and_the_way_to_a_traceback(monkeypatch, capsys):
    failing_with(monkeypatch, ZeroDivisionError("by 0"))
    assert run(["data"]) == 1
    shown = capsys.readouterr().err
    assert "ZeroDivisionError: by 0" in shown
    assert "CBID_TRACEBACK=1" in shown
    assert shown.count("\n") == 1


def test_a_traceback_on_request(monkeypatch):
    failing_with(monkeypatch, ValueError("wrong"))
    monkeypatch.setenv("CBID_TRACEBACK", "1")
    with pytest.raises(ValueError, match="wrong"):
        run(["data"])


def test_ctrl_c_in_a_process():
    """The process says when it is in the middle of a command, and then gets SIGINT."""
    program = (
        "import sys, time\nfrom cbid.cli import main\nimport cbid.commands.paper as paper\n"
        "def wait(*_):\n    print('ready', flush=True)\n    time.sleep(60)\n"
        "paper._set_info = wait\nmain(['data'])\n"
    )
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert err.startswith("cbid: interrupted")
    assert err.count("\n") == 1


def test_warnings_are_reported_in_one_line(monkeypatch, capsys):
    def warn(*arguments):
        warnings.warn("careful", UserWarning, stacklevel=1)
        raise ValueError("wrong")

    monkeypatch.setattr("cbid.commands.paper._set_info", warn)
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        run(["data"])
    assert capsys.readouterr().err == "cbid: warning: careful\ncbid: wrong\n"


def test_without_typer_the_extra_is_named(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "typer", None)
    assert run(["data"]) == 1
    assert "pip install 'pillow" in capsys.readouterr().err


def test_a_closed_pipe_is_not_reported(tmp_path):
    command = [sys.executable, "-m", "cbid", "data", "graz02", "--root", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stdout.close()  # before the program writes
        assert process.stderr.read() == ""
    assert process.returncode == 1


def test_json_is_valid(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("CBID_DATA", str(tmp_path))
    assert run(["data", "graz02", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["state"] == "absent"


def test_the_program_runs_in_another_thread(capsys):
    statuses = []

    def call():
        with pytest.raises(SystemExit) as end:
            main(["--version"])
        statuses.append(end.value.code)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert statuses == [0]
