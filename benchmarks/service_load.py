"""The service under load, compared with the index alone: 50 clients for 30 seconds against 1 million codes.

    python -m benchmarks.service_load [--images 1000000] [--clients 50] [--seconds 30]
    python -m benchmarks.service_load --soak --seconds 600

Claims: no error; memory stays flat; a client that sends slowly, huge uploads and decompression bombs do not disturb
the others. Reported: requests a second and the times of requests (p50, p99), beside one query at a time on the bare
index in the same run, before and after.

The project holds vectors around 10 centres; CBID learns 64 bits from 2,000 of them, the rest is added. The server is
a process of its own (``cbid serve``), the clients are another: on few cores they take processor time from each other,
so the figures of the service are a lower bound. Each client keeps one connection and asks by code for the 10
nearest, one request after the other. Processor time is reported too: it depends less on other load. A project of
vectors rejects images before it decodes them; ``--soak`` has images.

With ``--soak`` the project holds 400 images, and all attackers run beside the clients all the time, from other
addresses: also hostile images (``attacks.hostile_images``), slow cookies, a flood of connections, and smuggled
requests. Claims: no error for the clients; memory and descriptors of the server stay flat (the line through the last
half of the run rises by at most half a percent in a minute); decoding processes are no more than in the first half.
Stored as ``service_soak``.
"""

import argparse
import asyncio
import contextlib
import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
from attacks.hostile_images import families

from benchmarks.results import store
from cbid.data import ImageItems
from cbid.data.tables import VectorTable
from cbid.project import Project

N_BITS, N_VALUES, N_CLASSES, N_LEARNED = 64, 32, 10, 2_000
K = 10
CHUNK = 100_000


def vectors(rng, n):
    labels = rng.integers(0, N_CLASSES, n)
    centres = np.random.default_rng(1).normal(0, 2, (N_CLASSES, N_VALUES))
    return (centres[labels] + rng.normal(size=(n, N_VALUES))).astype(np.float32), labels


def build(path, n):
    """A project of n vectors."""
    rng = np.random.default_rng(0)
    names = np.array([f"class {c}" for c in range(N_CLASSES)])
    values, labels = vectors(rng, N_LEARNED)
    table = VectorTable(values, np.array([f"learned {i}" for i in range(N_LEARNED)]), labels, names)
    Project.fit(path, table, n_bits=N_BITS).close()
    with Project.open(path, write=True) as project:
        while len(project) < n:
            first, size = len(project), min(CHUNK, n - len(project))
            values, labels = vectors(rng, size)
            project.add(values, names[labels].tolist(), [f"row {first + i}" for i in range(size)])


def bare(path, queries):
    """Seconds of each query alone on the index, which uses all processors; and of processor time."""
    with Project.open(path) as project:
        project.search(queries[:1], K)
        times, spent = [], []
        for query in queries:
            begun = time.perf_counter(), time.process_time()
            project.index.search(query, K, weights=project.weights(N_BITS))
            times.append(time.perf_counter() - begun[0])
            spent.append(time.process_time() - begun[1])
    return {"seconds": times, "processor_seconds": spent}


def processor_seconds(pid):
    """That a process has used so far, all threads together."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def request(path, body, kind="application/json"):
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


async def answered(reader):
    """Status and body of one answer."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(re.search(rb"content-length: (\d+)", head.lower())[1])
    return int(head.split()[1]), await reader.readexactly(length)


async def client(port, requests, until, times, errors):
    """One connection, one request after the other."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    i = 0
    while time.perf_counter() < until:
        begun = time.perf_counter()
        writer.write(requests[i % len(requests)])
        try:
            status, body = await answered(reader)
        except (OSError, asyncio.IncompleteReadError) as error:
            errors[type(error).__name__] += 1
            break
        if status != 200 or len(json.loads(body)["matches"]) != K:
            errors[status] += 1
        times.append((begun, time.perf_counter() - begun))
        i += 1
    writer.close()


def build_images(path, n=400):
    """A project of n small images."""
    rng = np.random.default_rng(0)
    labels = np.arange(n) % 4
    pictures = [(rng.integers(0, 99, (32, 32)) + 50 * label).astype(np.uint8) for label in labels]
    images = ImageItems(pictures, None, labels, np.array(["a", "b", "c", "d"]))
    Project.fit(path, images, descriptor="hog", n_bits=N_BITS, coder="ITQ").close()


async def sent_again(port, until, ended, contents, pause=0.05):
    """Send requests in turn, each on a connection of its own from another address."""
    i = 0
    while time.perf_counter() < until:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.2", 0))
            reply = asyncio.create_task(answered(reader))
            writer.write(contents[i % len(contents)])
            ended[await _status(reply)] += 1
            writer.close()
        except OSError as error:
            ended[type(error).__name__] += 1
        i += 1
        await asyncio.sleep(pause)


async def flood(port, until, ended):
    """Open connections from one address and keep them, more than it may."""
    while time.perf_counter() < until:
        kept = []
        try:
            opening = [asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.3", 0)) for _ in range(300)]
            kept = await asyncio.gather(*opening)
            ended["opened"] += len(kept)
        except OSError as error:
            ended[type(error).__name__] += 1
        await asyncio.sleep(1)
        for _, writer in kept:
            writer.close()


def hostile_requests():
    """The hostile images of ``attacks``, as uploads."""
    start = b'--x\r\nContent-Disposition: form-data; name="image"; filename="a"\r\n\r\n'
    kind = "multipart/form-data; boundary=x"
    return [request("/api/search/image", start + data + b"\r\n--x--\r\n", kind) for data in families().values()]


async def slow_client(port, until, ended):
    """Sends a byte now and then, until it is shown the door; then again."""
    while time.perf_counter() < until:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST /api/search HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9000\r\n")
        writer.write(b"Content-Type: application/json\r\n\r\n")
        reply = asyncio.create_task(answered(reader))
        while not reply.done() and time.perf_counter() < until:
            try:
                writer.write(b" ")
                await writer.drain()
            except OSError:
                break
            await asyncio.sleep(0.2)
        ended[await _status(reply)] += 1
        writer.close()


async def huge_upload(port, until, ended):
    """Send an endless body without a length."""
    head = "POST /api/search/image HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n"
    head += "Content-Type: multipart/form-data; boundary=x\r\n\r\n"
    part = b'--x\r\nContent-Disposition: form-data; name="image"; filename="a"\r\n\r\n'
    block = bytes(2**18)
    while time.perf_counter() < until:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        reply = asyncio.create_task(answered(reader))
        writer.write(head.encode() + b"%x\r\n%s\r\n" % (len(part), part))
        try:
            while not reply.done() and time.perf_counter() < until:
                writer.write(b"%x\r\n%s\r\n" % (len(block), block))
                await writer.drain()
        except OSError:
            pass
        ended[await _status(reply)] += 1
        writer.close()
        await asyncio.sleep(0.2)


async def bombs(port, until, ended):
    """A PNG of 60,000 x 60,000 pixels in 400 bytes, again and again."""
    body = b'--x\r\nContent-Disposition: form-data; name="image"; filename="bomb.png"\r\n\r\n'
    body += bomb() + b"\r\n--x--\r\n"
    while time.perf_counter() < until:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request("/api/search/image", body, "multipart/form-data; boundary=x"))
        ended[await _status(asyncio.create_task(answered(reader)))] += 1
        writer.close()
        await asyncio.sleep(0.1)


def bomb():
    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", 60_000, 60_000, 1, 0, 0, 0, 0)
    data = zlib.compress(bytes(200_000), 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


async def _status(reply):
    try:
        return (await asyncio.wait_for(reply, 5))[0]
    except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.CancelledError) as error:
        return type(error).__name__


async def watched_memory(pid, until, sizes, descriptors, children):
    """Resident MiB, open descriptors and child processes of the server, twice a second."""
    while time.perf_counter() < until:
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:
            sizes.append(int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20)
        descriptors.append(len(os.listdir(f"/proc/{pid}/fd")))
        found = 0
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):  # a thread that has ended
                found += len((thread / "children").read_text().split())
        children.append(found)
        await asyncio.sleep(0.5)


def trend(sizes, seconds):
    """The line through the last half of evenly spaced measurements: its rise per minute and standard error.

    The line goes through the means of ten blocks. Blocks count as independent; measurements close in time do not.
    """
    half = np.asarray(sizes[len(sizes) // 2 :], dtype=np.float64)
    if len(half) < 20:
        return None
    blocks = np.array([block.mean() for block in np.array_split(half, 10)])
    minutes = (np.arange(10) + 0.5) * seconds / 2 / 10 / 60
    centred = minutes - minutes.mean()
    slope = float(centred @ blocks / (centred @ centred))
    residual = blocks - blocks.mean() - slope * centred
    error = float(np.sqrt(residual @ residual / 8 / (centred @ centred)))
    return {"per_minute": slope, "standard_error": error, "mean": float(half.mean())}


def is_flat(found):
    """Whether a trend is surely below half a percent of the mean in a minute: also with twice its error added."""
    return found["per_minute"] + 2 * found["standard_error"] <= 0.005 * found["mean"]


async def load(port, pid, requests, n_clients, seconds, *, abused, soak=False):
    """All clients at once, with or without those who mean harm."""
    hostile = hostile_requests() if soak else []
    until = time.perf_counter() + seconds
    times, errors, sizes, descriptors, children = [], Counter(), [], [], []
    ended = defaultdict(Counter)
    tasks = [client(port, requests[i::n_clients], until, times, errors) for i in range(n_clients)]
    tasks.append(watched_memory(pid, until, sizes, descriptors, children))
    if soak:
        both = (
            b"POST /api/search HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        cookie = b'GET /api/project HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: a="' + b"\\" * 31_000 + b'"\r\n\r\n'
        tasks += [
            sent_again(port, until, ended["hostile image"], hostile),
            sent_again(port, until, ended["slow cookie"], [cookie]),
            sent_again(port, until, ended["smuggled"], [both + b"0\r\n\r\n"]),
            flood(port, until, ended["flood"]),
        ]
    if abused:
        tasks += [slow_client(port, until, ended["slow client"]) for _ in range(5)]
        tasks += [huge_upload(port, until, ended["huge upload"]), bombs(port, until, ended["bomb"])]
    begun, used = time.perf_counter(), processor_seconds(pid)
    await asyncio.gather(*tasks)
    lasted, used = time.perf_counter() - begun, processor_seconds(pid) - used
    spent = np.array([t for _, t in times]) * 1000
    return {
        "abused": abused,
        "clients": n_clients,
        "seconds": lasted,
        "requests": len(times),
        "per_second": len(times) / lasted,
        "milliseconds": {f"p{q}": float(np.percentile(spent, q)) for q in (50, 90, 99, 100)},
        "processor_milliseconds_per_request": 1000 * used / max(1, len(times)),
        "errors": dict(errors),
        "abusers_were_told": {name: {str(k): n for k, n in counts.items()} for name, counts in ended.items()},
        "trends": {
            name: trend(values, lasted) for name, values in (("resident_mib", sizes), ("descriptors", descriptors))
        },
        "resident_mib": [round(size, 1) for size in sizes],
        "descriptors": descriptors,
        "children": children,
    }


def serve(path, max_upload=2):
    """The server as a process, and its port; it accepts uploads only as far as 2 MiB, and waits 2 s for them."""
    command = [sys.executable, "-m", "cbid", "serve", str(path), "--port", "0", "--rate", "0", "--read-only"]
    command += ["--upload-seconds", "2", "--max-upload", str(max_upload)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"}
    )
    line = process.stdout.readline()
    return process, int(re.search(r":(\d+) ", line)[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=1_000_000)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--project", type=Path, help="made before; made if it is not there")
    parser.add_argument("--soak", action="store_true", help="all attackers together with the clients, against images")
    arguments = parser.parse_args()
    if arguments.soak:
        soak(arguments.clients, arguments.seconds)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = arguments.project or Path(folder) / "load.cbid"
        if not path.exists():
            build(path, arguments.images)
        rng = np.random.default_rng(2)
        with Project.open(path) as project:
            n = len(project)
            codes = project.encode(vectors(rng, 500)[0])
        requests = [
            request("/api/search", json.dumps({"query": {"code": code.tobytes().hex()}, "k": K}).encode())
            for code in codes
        ]
        alone = {"before": bare(path, codes[:200])}
        process, port = serve(path)
        try:
            asyncio.run(load(port, process.pid, requests, arguments.clients, 2, abused=False))  # warm
            runs = [
                asyncio.run(load(port, process.pid, requests, arguments.clients, arguments.seconds, abused=abused))
                for abused in (False, True)
            ]
        finally:
            process.terminate()
            process.wait()
        alone["after"] = bare(path, codes[:200])
    seconds = np.median([times["seconds"] for times in alone.values()])
    spent = np.mean([times["processor_seconds"] for times in alone.values()])
    results = {
        "images": n,
        "n_bits": N_BITS,
        "exit_status": process.returncode,
        "load_average": os.getloadavg(),
        "bare_index": alone,
        "bare_index_per_second": 1 / seconds,
        "bare_index_processor_milliseconds": 1000 * spent,
        "runs": runs,
    }
    store("service_load", results)
    print(summary(results))


def soak(n_clients, seconds):
    """Run clients and all attackers together, and store what they saw."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "soak.cbid"
        build_images(path)
        with Project.open(path) as project:
            codes = [project.code(id) for id in project.ids.tolist()]
        bodies = [json.dumps({"query": {"code": code.tobytes().hex()}, "k": K}).encode() for code in codes]
        requests = [request("/api/search", body) for body in bodies]
        process, port = serve(path, max_upload=20)
        try:
            warm = asyncio.run(load(port, process.pid, requests, n_clients, min(10, seconds), abused=False))
            run = asyncio.run(load(port, process.pid, requests, n_clients, seconds, abused=True, soak=True))
        finally:
            process.terminate()
            process.wait()
    results = {"exit_status": process.returncode, "load_average": os.getloadavg(), "runs": [warm, run]}
    store("service_soak", results)
    for entry in results["runs"]:
        print(line_of(entry))
    for name, found in run["trends"].items():
        if found is not None:
            print(f"{name}: mean {found['mean']:.1f} in the last half, {found['per_minute']:+.2f} a minute "
                  f"(standard error {found['standard_error']:.2f}), flat: {is_flat(found)}")  # fmt: skip


def line_of(run):
    """Describe one run in a line, and what abusers got."""
    sizes, ms = run["resident_mib"], run["milliseconds"]
    tenth = max(1, len(sizes) // 10)
    line = (
        f"{'with abusers' if run['abused'] else 'alone'}: {run['per_second']:.0f} requests a second, "
        f"p50 {ms['p50']:.1f} ms, p99 {ms['p99']:.1f} ms, "
        f"{run['processor_milliseconds_per_request']:.2f} ms of processor time each, "
        f"errors {run['errors'] or 'none'}, "
        f"resident {np.mean(sizes[:tenth]):.0f} to {np.mean(sizes[-tenth:]):.0f} MiB"
    )
    return line + (f"\n  abusers got: {run['abusers_were_told']}" if run["abused"] else "")


def summary(results):
    lines = [
        f"{results['images']:,} codes of {results['n_bits']} bits; the bare index, one query at a time: "
        f"{results['bare_index_per_second']:.0f} queries a second, "
        f"{results['bare_index_processor_milliseconds']:.2f} ms of processor time each"
    ]
    lines += [line_of(run) for run in results["runs"]]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
