"""Runs all scripts of examples/ and keeps the pictures of docs/examples.md: ``python docs/pictures/examples.py``."""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main():
    for script in sorted((HERE.parent.parent / "examples").glob("*.py")):
        print(f"== {script.name}", flush=True)
        subprocess.run([sys.executable, script, HERE / f"example_{script.stem}.png"], check=True)


if __name__ == "__main__":
    main()
