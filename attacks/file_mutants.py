"""Files with changed, missing or added bytes. Expected: an error of cbid, or a report of `cbid check`; never a crash.

    python -m attacks.file_mutants [MUTANTS [FILE]]

Mutates one file of each format in turn, MUTANTS (300) in all, and reads everything in it. Each mutant is

- rejected: a ValueError or OSError, or a problem that `cbid check` reports,
- the same: all content is as before, for example if an unused byte of a database has changed,
- accepted: the content differs, and nothing has noticed it,
- failed: any other error, the end of the process, or more than 20 seconds.

Formats that belong to others, such as `.npy`, have no checksums and may accept damage. All others must not. With
FILE, the counts are stored there as JSON; a run that is stopped continues where it was, and one that is complete only
shows its counts (remove FILE to start again). The number of a mutant is the seed of its change.
"""

import json
import multiprocessing
import random
import shutil
import sys
import tempfile
import time
import warnings
from collections import Counter
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from attacks.formats import FORMATS, Format, about
from cbid.storage.atomic import whole_file

SECONDS = 20.0  # for one mutant
_BATCH = 500  # mutants between two writes of the result
_SHARE = {"project": 4, "index": 2, "vector index": 2, "coder": 2}  # of the mutants; 1 for others


def mutated(content: bytes, rng: random.Random) -> bytes:
    """Return other bytes: some changed, cut off, left out or inserted."""
    data = bytearray(content)
    while data == content:
        place = rng.randrange(len(data) + 1)
        kind = rng.randrange(5)
        if kind == 0 and data:
            for _ in range(rng.choice((1, 1, 1, 8))):
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del data[place:]
        elif kind == 2:
            del data[place : place + rng.randrange(1, 64)]
        elif kind == 3:
            data[place : place + 4] = rng.choice((bytes(4), b"\xff" * 4, b"    ", rng.randbytes(4)))
        else:
            data[place:place] = rng.choice((b"\n", b" ", rng.randbytes(rng.randrange(1, 64))))
    return bytes(data)


def _kind(path: Path, folder: Path) -> str:
    """Return the name under which the mutants of a file are counted."""
    parts = path.relative_to(folder).parts
    if parts[0] == "p.cbid":
        return "index of a project" if len(parts) > 2 else parts[1].partition("-")[0]
    return parts[-1].partition("-")[0]


def attack(format: Format, made: Path, name: str, numbers: range, found: Connection) -> None:
    """Read mutants of a format; send number, kind of file, outcome, seconds and error of each."""
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(shutil.copytree(made, temporary, dirs_exist_ok=True))
        sound = format.read(folder)
        names = sorted(path for path in folder.rglob("*") if path.is_file() and path.stat().st_size)
        contents = {path: path.read_bytes() for path in names}
        kinds = sorted({_kind(path, folder) for path in names})
        for i in numbers:
            rng = random.Random(f"{name} {i}")
            path = rng.choice([path for path in names if _kind(path, folder) == kinds[i % len(kinds)]])
            path.write_bytes(mutated(contents[path], rng))
            found.send((i, _kind(path, folder), None, 0.0, ""))
            begun, error = time.monotonic(), ""
            try:
                outcome = "same" if format.read(folder) == sound else "accepted"
            except (ValueError, OSError):
                outcome = "rejected"
            except Exception as other:
                outcome, error = "failed", f"{type(other).__name__}: {other}"[:300]
            found.send((i, _kind(path, folder), outcome, time.monotonic() - begun, error))
            for file, content in contents.items():  # a reader may remove a damaged file
                if file == path or not file.exists():
                    file.write_bytes(content)
            for file in folder.rglob("*"):
                if file.is_file() and file not in contents:
                    file.unlink()


def made(name: str, folder: Path) -> None:
    """Make the files of a format in a separate process: its threads are gone when the next one is forked."""
    process = multiprocessing.get_context("fork").Process(target=FORMATS[name].make, args=(folder,))
    process.start()
    process.join()
    assert process.exitcode == 0, name


def run(name: str, folder: Path, numbers: range, result: dict[str, Any]) -> None:
    """Attack in a separate process and count the outcomes. After a crash or a hang, continue with the next."""
    fork = multiprocessing.get_context("fork")
    while numbers:
        ours, theirs = fork.Pipe()
        process = fork.Process(target=attack, args=(FORMATS[name], folder, name, numbers, theirs), daemon=True)
        process.start()
        theirs.close()
        last, kind, outcome, seconds, error = numbers.start, "", None, 0.0, ""
        try:
            while outcome is None or last + 1 < numbers.stop:
                if not ours.poll(SECONDS if kind else 120):
                    error = f"no answer after {SECONDS:g} s"
                    break
                last, kind, outcome, seconds, error = ours.recv()
                if outcome is not None:
                    _count(result, name, last, kind, outcome, seconds, error)
        except EOFError:
            process.join()
            error = f"the process ends with status {process.exitcode}"
        process.kill()
        process.join()
        if outcome is None:
            if not kind:
                raise RuntimeError(f"{name}: {error} before the first mutant")
            _count(result, name, last, kind, "failed", SECONDS, error)
        numbers = range(last + 1, numbers.stop)


def _count(result: dict[str, Any], name: str, i: int, kind: str, outcome: str, seconds: float, error: str) -> None:
    key = f"project: {kind}" if name == "project" else name
    counts = result["formats"].setdefault(key, {"checksums": FORMATS[name].has_checksums, "slowest": 0.0})
    counts[outcome] = counts.get(outcome, 0) + 1
    counts["slowest"] = max(counts["slowest"], round(seconds, 3))
    if outcome == "failed" or (outcome == "accepted" and FORMATS[name].has_checksums):
        result["findings"].append({"format": name, "mutant": i, "file": kind, "outcome": outcome, "error": error})


def _store(out: str, result: dict[str, Any]) -> None:
    with whole_file(out) as temporary:
        temporary.write_text(json.dumps(result, indent=1) + "\n")


def main(mutants: str = "300", out: str | None = None) -> None:
    """Run the attack."""
    total = sum(_SHARE.get(name, 1) for name in FORMATS)
    result: dict[str, Any] = {"formats": {}, "findings": [], "done": {}}
    if out is not None and Path(out).exists():
        result = json.loads(Path(out).read_text())
    for name in FORMATS:
        wanted = -(-int(mutants) * _SHARE.get(name, 1) // total)
        if result["done"].get(name, 0) >= wanted:
            continue
        with tempfile.TemporaryDirectory() as folder:
            made(name, Path(folder))
            while (first := result["done"].get(name, 0)) < wanted:
                last = min(first + _BATCH, wanted)
                run(name, Path(folder), range(first, last), result)
                result["done"][name] = last
                if out is not None:
                    _store(out, result)
    if out is not None:
        _store(out, {**about(), **result})  # only now: it starts threads, and a fork must not copy them
    every: Counter[str] = Counter()
    for name, counts in result["formats"].items():
        print(name, counts)
        every.update({k: v for k, v in counts.items() if k not in ("checksums", "slowest")})
    print(f"{every.total()} mutants: {dict(every)}")
    assert not result["findings"], result["findings"]


if __name__ == "__main__":
    main(*sys.argv[1:])
