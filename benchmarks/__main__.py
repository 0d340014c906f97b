"""All benchmarks, one after the other: ``python -m benchmarks [NAME ...]``."""

import importlib
import sys

NAMES = [
    "learner_speed",
    "learner_growth",
    "learner_accuracy",
    "search_speed",
    "index_scale",
    "index_durability",
]

if __name__ == "__main__":
    for name in sys.argv[1:] or NAMES:
        print(f"== {name}", flush=True)
        importlib.import_module(f"benchmarks.{name}").main()
