"""How fast the page without a server searches 100,000 images in the browser.

    python -m benchmarks.offline_page

Writes the page of a project of random vectors, opens it in chromium, and times ten searches: distances to all images,
sorting, and the first sixty cards. Raw results: benchmarks/results/offline_page.json.
"""

import json
import platform
import shutil
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
from playwright.sync_api import sync_playwright

from cbid.project import Project
from cbid.report.offline import write_offline_page

N_IMAGES, N_BITS, N_SEARCHES = 100_000, 128, 10
TARGET = Path(__file__).parent / "results" / "offline_page.json"


def main() -> None:
    """Measure and keep the results."""
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/v.npy", rng.normal(size=(N_IMAGES, 32)).astype(np.float32))
        with Project.fit(f"{folder}/p.cbid", f"{folder}/v.npy", coder="LSH", n_bits=N_BITS, held_out=0.0) as project:
            begun = time.perf_counter()
            made = write_offline_page(project, f"{folder}/page.html")
            writing = time.perf_counter() - begun
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            page = browser.new_page()
            page.goto(made.path.as_uri())
            page.wait_for_selector(".card")
            seconds = [
                page.evaluate(
                    "(id) => new Promise((done) => { const begun = performance.now(); addEventListener('hashchange', "
                    "() => done((performance.now() - begun) / 1000), { once: true }); location.hash = id; })",
                    str(id),
                )
                for id in range(N_SEARCHES)
            ]
            browser.close()
    result = {
        "images": N_IMAGES,
        "bits": N_BITS,
        "bytes": made.n_bytes,
        "writing_seconds": writing,
        "search_seconds": seconds,
        "median_seconds": statistics.median(seconds),
        "machine": platform.machine(),
    }
    TARGET.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
