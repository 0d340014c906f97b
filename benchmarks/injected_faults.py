"""Every write, flush, renaming and removal of every change fails once, or is followed by kill -9.

    python -m benchmarks.injected_faults [--every N]

A small library, compiled with ``cc`` and loaded by LD_PRELOAD, counts the calls of the C library that change files,
also those of SQLite. For each call of each change and each kind of fault, a child process makes the change on a fresh
copy, and the fault happens at that call. Then another process reads what is there. It must be the old or the new
state, whole (``cbid check`` finds nothing), and what the caller was told must be true: a change that returned
took place; one that raised took place only if the error says so. At last the change is made again, without a fault,
and must succeed.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path

import numpy as np

SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static long counted, at = -1;
static int how, number, armed;
void arm(long n, int kind, int error) { counted = 0; at = n; how = kind; number = error; armed = 1; }
long disarm(void) { armed = 0; return counted; }

/* 1: fail instead of working; 2: work, then fail; 3: work, then be killed; 4: be killed first */
static int is_file(int fd) {
    struct stat info;
    return fstat(fd, &info) == 0 && (S_ISREG(info.st_mode) || S_ISDIR(info.st_mode));
}
#define WRAP(type, name, parameters, arguments, counts)                  \
    type name parameters {                                              \
        static type (*real) parameters;                                 \
        if (!real) real = dlsym(RTLD_NEXT, #name);                      \
        if (!armed || !(counts) || counted++ != at) return real arguments; \
        if (how == 4) kill(getpid(), SIGKILL);                          \
        if (how == 1) { errno = number; return -1; }                    \
        type result = real arguments;                                   \
        if (how == 3) kill(getpid(), SIGKILL);                          \
        if (result >= 0) { errno = number; return -1; }                 \
        return result;                                                  \
    }
WRAP(ssize_t, write, (int fd, const void *data, size_t n), (fd, data, n), is_file(fd))
WRAP(ssize_t, pwrite, (int fd, const void *data, size_t n, off_t place), (fd, data, n, place), is_file(fd))
WRAP(ssize_t, pwrite64, (int fd, const void *data, size_t n, off64_t place), (fd, data, n, place), is_file(fd))
WRAP(ssize_t, writev, (int fd, const struct iovec *parts, int n), (fd, parts, n), is_file(fd))
WRAP(int, fsync, (int fd), (fd), is_file(fd))
WRAP(int, fdatasync, (int fd), (fd), is_file(fd))
WRAP(int, ftruncate, (int fd, off_t size), (fd, size), is_file(fd))
WRAP(int, ftruncate64, (int fd, off64_t size), (fd, size), is_file(fd))
WRAP(int, rename, (const char *old, const char *new), (old, new), 1)
WRAP(int, unlink, (const char *path), (path), 1)
WRAP(int, unlinkat, (int fd, const char *path, int flags), (fd, path, flags), 1)
"""
EIO, ENOSPC = 5, 28
FAULTS = {
    "EIO": (1, EIO),
    "ENOSPC": (1, ENOSPC),
    "EIO after the work": (2, EIO),
    "kill after the work": (3, 0),
    "kill before the work": (4, 0),
}
X = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)
Y = np.arange(40) % 2
COMMITTED = ("took place", "was saved", "project.json was written", "was committed")  # what errors after a commit say


# The changes: how the old state is made, the change, and what a reader sees


def _codes(n):
    return np.random.default_rng(n).integers(0, 256, (n, 3), dtype=np.uint8)


def _new_index():
    from cbid.search import CodeIndex

    index = CodeIndex(24)
    index.add(_codes(50), labels=np.arange(50))
    return index


def make_nothing(path):
    """No files at all."""
    path.mkdir()


def make_index(path):
    """An index of codes."""
    path.mkdir()
    _new_index().save(path / "index")


def save_index(path):
    """Save a new index."""
    _new_index().save(path / "index")


def add_codes(path):
    """Add codes to a stored index."""
    from cbid.search import CodeIndex

    index = CodeIndex.open(path / "index")
    index.add(_codes(20), labels=np.arange(20))
    index.save()


def remove_codes(path):
    """Remove codes from a stored index."""
    from cbid.search import CodeIndex

    index = CodeIndex.open(path / "index")
    index.remove(np.arange(10, 40))
    index.save()


def see_index(path):
    """Return ids, codes and labels."""
    from cbid.search import CodeIndex

    if not (path / "index" / "manifest.json").exists():
        return None  # never committed
    index = CodeIndex.open(path / "index")
    index.verify()
    return [index.ids.tolist(), index.reconstruct(index.ids).tolist(), index.labels.tolist()]


def make_project(path):
    """A project of vectors."""
    from cbid.project import Project

    path.mkdir()
    np.savez(path / "v.npz", X=X + 3 * Y[:, None], y=Y)
    Project.fit(path / "p.cbid", path / "v.npz", n_bits=8).close()
    np.savez(path / "v.npz", X=(X + 3 * Y[:, None])[5:], y=Y[5:])


def make_vectors(path):
    """Vectors, and no project."""
    path.mkdir()
    np.savez(path / "v.npz", X=X + 3 * Y[:, None], y=Y)


def add_images(path):
    """Add to a project."""
    from cbid.project import Project

    with Project.open(path / "p.cbid", write=True) as project:
        project.add(X[:3] + 1, labels=["0", "1", "0"])


def remove_images(path):
    """Remove from a project."""
    from cbid.project import Project

    with Project.open(path / "p.cbid", write=True) as project:
        project.remove([3, 4])


def relabel_images(path):
    """Change labels in a project."""
    from cbid.project import Project

    with Project.open(path / "p.cbid", write=True) as project:
        project.relabel([4, 6], "1")


def fit(path):
    """Fit a new project, or fit one again."""
    from cbid.project import Project

    Project.fit(path / "p.cbid", path / "v.npz", n_bits=8).close()


def see_project(path):
    """Return ids, labels and codes of a project in which ``check`` finds no damage."""
    from cbid.project import Project, ProjectError

    try:
        Project.open(path / "p.cbid").close()
    except (ProjectError, FileNotFoundError) as error:
        if "not finished" in str(error) or "does not exist" in str(error) or "has no project.json" in str(error):
            return None
        raise
    problems, _ = Project.check(path / "p.cbid")
    assert not problems, problems
    with Project.open(path / "p.cbid", write=True) as project:
        ids = project.ids.tolist()
        records = project.records(0, 1000)
        assert [record.id for record in records] == ids
        assert set(project.search(X[0], len(ids)).ids[0].tolist()) == set(ids)
        return [ids, [record.label for record in records], project.index.reconstruct(project.ids).tolist()]


def _new_vector_index():
    from cbid import VectorIndex
    from cbid.coders import LSH

    index = VectorIndex(LSH(n_bits=16).fit(X), keep="float16")
    index.add(X, labels=Y)
    return index


def make_vector_index(path):
    """An index of vectors."""
    path.mkdir()
    _new_vector_index().save(path / "index")


def save_vector_index(path):
    """Save a new index of vectors."""
    _new_vector_index().save(path / "index")


def add_vectors(path):
    """Add vectors to a stored index and save it."""
    from cbid import VectorIndex

    index = VectorIndex.open(path / "index")
    index.add(X[:5] + 9, labels=Y[:5])
    index.save(path / "index")


def see_vector_index(path):
    """Return ids and what a search finds."""
    from cbid import VectorIndex

    if not list(path.glob("index/**/manifest.json")):
        return None  # never committed
    index = VectorIndex.open(path / "index")
    found = index.search(X[:3] + 9, k=5)
    return [len(index), found.ids.tolist(), np.round(found.distances, 5).tolist()]


CHANGES = {
    "CodeIndex.save": (make_nothing, save_index, see_index),
    "CodeIndex.add": (make_index, add_codes, see_index),
    "CodeIndex.remove": (make_index, remove_codes, see_index),
    "Project.add": (make_project, add_images, see_project),
    "Project.remove": (make_project, remove_images, see_project),
    "Project.relabel": (make_project, relabel_images, see_project),
    "Project.fit, new": (make_vectors, fit, see_project),
    "Project.fit, again": (make_project, fit, see_project),
    "VectorIndex.save, new": (make_nothing, save_vector_index, see_vector_index),
    "VectorIndex.save, again": (make_vector_index, add_vectors, see_vector_index),
}


# One process with the library loaded forks a child for every fault


def _in_child(function):
    """Return what a forked child says: the JSON value of the function, or its signal."""
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        signal.alarm(120)  # a child that hangs is killed, and its state does not fit
        os.close(read)
        try:
            answer = json.dumps(function())
        except BaseException as error:
            notes = " ".join(getattr(error, "__notes__", []))
            answer = json.dumps({"error": f"{type(error).__name__}: {error} {notes}"})
        os.write(write, answer.encode())  # a pipe, which is not counted
        os._exit(0)
    os.close(write)
    with open(read, "rb") as pipe:
        answer = pipe.read()
    status = os.waitpid(child, 0)[1]
    return {"killed": os.WTERMSIG(status)} if os.WIFSIGNALED(status) else json.loads(answer)


def inject(every, names, out):
    """Inject every n-th fault into the named changes; print one JSON line for each change."""
    import ctypes

    library = ctypes.CDLL(None)
    turn = 0
    for name in names:
        make, change, see = CHANGES[name]
        with tempfile.TemporaryDirectory() as root:
            old_path = Path(root) / "old"
            make(old_path)
            first = shutil.copytree(old_path, Path(root) / "first")
            with warnings.catch_warnings():  # import and compile everything here, not in each child
                warnings.simplefilter("ignore")
                change(first)
                see(first)
            result = {"change": name, "faults": Counter(), "told": Counter(), "failures": []}

            def attempt(n, kind, number, path, change=change):
                def run():
                    library.arm(ctypes.c_long(n), kind, number)
                    try:
                        with warnings.catch_warnings():
                            warnings.simplefilter("ignore")
                            change(path)
                    finally:
                        counted = library.disarm()
                    return {"done": counted}

                return _in_child(run)

            def seen(path, see=see):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    return _in_child(lambda: see(path))

            old = seen(old_path)
            new_path = shutil.copytree(old_path, Path(root) / "new")
            result["calls"] = attempt(-1, 0, 0, new_path)["done"]
            new = seen(new_path)
            assert old != new, name
            for n in range(result["calls"]):
                for fault, (kind, number) in FAULTS.items():
                    turn += 1
                    if turn % every:
                        continue
                    path = shutil.copytree(old_path, Path(root) / "here")
                    told = attempt(n, kind, number, path)
                    state = seen(path)
                    result["faults"][fault] += 1
                    says = next(iter(told))
                    error = told.get("error", "")
                    committed = "was not saved" not in error and any(words in error for words in COMMITTED)
                    result["told"][says + (", committed" if committed else "")] += 1
                    wrong = state not in (old, new)
                    wrong = wrong or (says == "done" and state != new) or (committed and state != new)
                    wrong = wrong or (says == "error" and not committed and state != old)
                    if not wrong:
                        again = attempt(-1, 0, 0, path) if state != new else {"done": 0}
                        # An id is never used twice, so the ids of a second attempt may be larger.
                        wrong = "done" not in again or (state != new and seen(path)[1:] != new[1:])
                        told = {**told, "again": again}
                    if wrong:
                        which = "old" if state == old else "new" if state == new else str(state)[:500]
                        result["failures"].append({"call": n, "fault": fault, "told": told, "state": which})
                    shutil.rmtree(path)
        with open(out, "a", encoding="utf-8") as file:
            file.write(json.dumps(result) + "\n")


def run(every=1, names=tuple(CHANGES), timeout=3600):
    """Compile the library, inject faults in a process that has loaded it, and return the result of each change."""
    with tempfile.TemporaryDirectory() as root:
        (Path(root) / "shim.c").write_text(SHIM)
        library, out = Path(root) / "shim.so", Path(root) / "out.jsonl"
        subprocess.run(["cc", "-shared", "-fPIC", "-w", "-o", library, Path(root) / "shim.c", "-ldl"], check=True)
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
        here = os.pathsep.join([str(Path(__file__).parents[1] / "src"), str(Path(__file__).parents[1])])
        subprocess.run(
            [sys.executable, "-m", "benchmarks.injected_faults", "--child", str(out), "--every", str(every), *names],
            env={**os.environ, **threads, "LD_PRELOAD": str(library), "PYTHONPATH": here},
            cwd=root, check=True, timeout=timeout,
        )  # fmt: skip
        return [json.loads(line) for line in out.read_text().splitlines()]


def main():
    """Run and store."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        inject(options.every, options.names, options.child)
        return
    from benchmarks.results import load, store
    from cbid.paper.raw import today

    for name in options.names or CHANGES:  # stored one by one: a run that is stopped loses one of them
        (result,) = run(options.every, (name,))
        n = sum(result["faults"].values())
        print(f"{name:24} {result['calls']:4} calls {n:5} faults {len(result['failures']):3} failures", flush=True)
        for failure in result["failures"][:5]:
            print("   ", failure)
        known = {stored["change"]: stored for stored in load("injected_faults", [])}
        known[name] = {**result, "made": today()}
        store("injected_faults", [known[change] for change in CHANGES if change in known])


if __name__ == "__main__":
    main()
