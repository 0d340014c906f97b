"""Files with changed, missing or added bytes. Expected: an error of cbid, or a report of `cbid check`; never a crash.

    python -m attacks.file_mutants [SECONDS [FILE]]

Mutates the files of a project, an index and a model in turn, for SECONDS (10), and reads each mutant with everything
that reads it. An error of any other kind than ValueError and OSError is a failure. Mutants in which neither reading
nor `cbid check` finds damage are counted as accepted. With FILE, the counts are stored there as JSON.
"""

import json
import random
import shutil
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path

import numpy as np

from attacks.target import made_project


def mutated(content: bytes, rng: random.Random) -> bytes:
    """Return other bytes: some changed, cut off, left out or inserted."""
    data = bytearray(content)
    place = rng.randrange(len(data) + 1)
    kind = rng.randrange(4)
    if kind == 0 and data:
        for _ in range(rng.choice((1, 1, 1, 8))):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    elif kind == 1:
        del data[place:]
    elif kind == 2:
        del data[place : place + rng.randrange(1, 64)]
    else:
        data[place:place] = rng.randbytes(rng.randrange(1, 64))
    return bytes(data)


def read(path: Path) -> bool:
    """Read a project in every way; return whether damage was found."""
    from cbid.project import Project

    try:
        problems, _ = Project.check(path)
        with Project.open(path) as project:
            project.search(np.zeros((1, 6), np.float32), 3)
            project.records(0, 100)
    except (ValueError, OSError):
        return True
    return bool(problems)


def main(seconds: str = "10", out: str | None = None) -> None:
    """Run the attack."""
    rng, end = random.Random(0), time.monotonic() + float(seconds)
    tried: Counter[str] = Counter()
    accepted: Counter[str] = Counter()
    slowest = 0.0
    with made_project() as path, tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert not read(path)
        files = sorted(file.relative_to(path) for file in path.rglob("*") if file.is_file() and file.stat().st_size)
        while time.monotonic() < end:
            name = rng.choice(files)
            here = Path(shutil.copytree(path, Path(folder) / "p.cbid"))
            content = (here / name).read_bytes()
            mutant = mutated(content, rng)
            (here / name).write_bytes(mutant)
            begun = time.monotonic()
            found = read(here)
            slowest = max(slowest, time.monotonic() - begun)
            kind = name.name.partition("-")[0] if name.parent == Path() else "index"
            tried[kind] += 1
            accepted[kind] += mutant != content and not found
            shutil.rmtree(here)
    print(
        f"{sum(tried.values())} mutants, {sum(accepted.values())} accepted {dict(+accepted)}, slowest {slowest:.1f} s"
    )
    if out is not None:
        result = {"mutants": tried, "accepted": accepted, "slowest_seconds": slowest}
        Path(out).write_text(json.dumps(result, indent=1) + "\n")
    assert slowest < 20
    assert not accepted["vectors.f32"] + accepted["coder"] + accepted["index"], accepted


if __name__ == "__main__":
    main(*sys.argv[1:])
