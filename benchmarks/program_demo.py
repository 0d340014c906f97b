"""What ``cbid demo`` measures: the figures of docs/program.md.

The images come with scikit-learn and scikit-image. Run as ``python -m benchmarks.program_demo``.
"""

import tempfile
import time
from pathlib import Path

from benchmarks.results import store
from cbid.commands.demo import make_images
from cbid.commands.fit import summary
from cbid.project import Project
from cbid.project.models import descriptor_name

N_BITS = 64


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_images(folder)
        begun = time.perf_counter(), time.process_time()
        with Project.fit(folder / "images.cbid", folder / "images", n_bits=N_BITS) as project:
            seconds = {"wall": time.perf_counter() - begun[0], "processor": time.process_time() - begun[1]}
            summarised = summary(project)
            size = sum(file.stat().st_size for file in (folder / "images.cbid").rglob("*") if file.is_file())
            store(
                "program_demo",
                {
                    "descriptor": descriptor_name(project.descriptor),
                    "images": summarised["images"],
                    "classes": len(summarised["classes"]),
                    "parts": summarised["fit"]["images"],
                    "seconds": seconds,
                    "bytes of the project": size,
                    "evaluation": summarised["evaluation"],
                    "confusion": project.confusion,
                },
            )


if __name__ == "__main__":
    main()
