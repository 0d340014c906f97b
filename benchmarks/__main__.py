"""Run all benchmarks, or those named, then write docs/benchmarks.md: ``python -m benchmarks [NAME ...]``.

``python -m benchmarks figure PAGE [FIGURE]`` recomputes figures from the raw files instead: see ``figures.py``.
"""

import importlib
import sys

NAMES = [
    "learner_speed",
    "learner_accuracy",
    "defaults_study",
    "rivals",
    "rivals_mnist",
    "search_speed",
    "index_scale",
    "index_durability",
    "describe_folder",
    "descriptor_speed",
    "descriptor_study",
    "scene15_descriptors",
    "descriptors_program",
    "nbnn_times",
    "nbnn_report",
    "detector_speed",
    "program_demo",
    "service_load",
    "scale_encode",
    "scale_memory",
    "scale_index",
    "scale_report",
    "report",
]

if __name__ == "__main__":
    if sys.argv[1:2] == ["figure"]:
        from benchmarks.figures import main

        sys.exit(main(sys.argv[2:]))
    names, sys.argv = sys.argv[1:] or NAMES, sys.argv[:1]  # each script reads its own arguments
    for name in names:
        print(f"== {name}", flush=True)
        importlib.import_module(f"benchmarks.{name}").main()
