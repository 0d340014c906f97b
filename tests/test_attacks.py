"""Run every script in attacks/; each must withstand within a minute, or five if it is long."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPTS = sorted(p.stem for p in (ROOT / "attacks").glob("*.py") if p.stem not in ("__init__", "target"))


LONG = {"hostile_images"}


@pytest.mark.parametrize("script", [pytest.param(s, marks=[pytest.mark.long] * (s in LONG)) for s in SCRIPTS])
def test_attack(script):
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-m", f"attacks.{script}"],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True,
        timeout=300 if script in LONG else 60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_every_script_is_documented():
    text = (ROOT / "attacks" / "README.md").read_text()
    assert all(f"`{script}`" in text for script in SCRIPTS)
