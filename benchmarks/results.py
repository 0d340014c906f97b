"""Raw results first: every benchmark writes one JSON file that says what ran on what."""

import json
import os
import platform
from importlib.metadata import version
from pathlib import Path

FOLDER = Path(__file__).parent / "results"
PACKAGES = ("numpy", "scipy", "scikit-learn", "faiss-cpu", "numba")


def store(name, results):
    """Write results (JSON values) under benchmarks/results/NAME.json."""
    FOLDER.mkdir(exist_ok=True)
    machine = {
        "cores": os.cpu_count(),
        "processor": platform.machine(),
        "python": platform.python_version(),
        "packages": {package: version(package) for package in PACKAGES},
    }
    path = FOLDER / f"{name}.json"
    path.write_text(json.dumps({"machine": machine, "results": results}, indent=1, default=float) + "\n")
    print(f"raw results: benchmarks/results/{path.name}")
