"""Run every script in attacks/; each must withstand within a minute, or five for many files."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
OTHERS = ("__init__", "target", "formats")
SLOW = {"hostile_images", "file_mutants", "reader_fuzz"}
SCRIPTS = sorted(p.stem for p in (ROOT / "attacks").glob("*.py") if p.stem not in OTHERS)


@pytest.mark.long  # the tests of each package check the same defences one by one
@pytest.mark.parametrize("script", SCRIPTS)
def test_attack(script):
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-m", f"attacks.{script}"],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True,
        timeout=300 if script in SLOW else 60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_every_script_is_documented():
    text = (ROOT / "attacks" / "README.md").read_text()
    assert all(f"`{script}`" in text for script in SCRIPTS)
