"""Small files that cost a decoder minutes or gigabytes. Expected: decoded or rejected within the service's limits.

`families()` returns 24 files, each of another kind. Every one is sent to a running service as a query, while ordinary
searches go on. A request may take two seconds of the decoder's processor time, and 300 MB in the service and its
decoders together. A sound WebP photograph of 25 million pixels must be accepted.

    python -m attacks.hostile_images [ROUNDS [FILE]]

The service, the searches and the attacker are three processes. In each of ROUNDS (1), searches go on for ten seconds
without the attack and then during it, at the same rate. With FILE, the time and the memory of each family, and the
times of the searches, are stored there as JSON. Wall-clock times mean something on a quiet machine only; the checks
allow for a busy one.
"""

import contextlib
import io
import json
import multiprocessing
import os
import struct
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from attacks.formats import about
from attacks.target import request, served_alone

SECONDS, MEMORY = 2.0, 300 * 10**6
SLACK = 10.0  # seconds for sending 15 MB, a new process, the descriptor, and a busy machine
_WARM_UP, _QUIET, _PAUSE = 2.0, 10.0, 0.01  # seconds: before the rounds, without the attack, between two searches
SOUND = "WebP, sound"


def families() -> dict[str, bytes]:
    """Return the files by the name of their kind."""
    return {name: make() for name, make in _FAMILIES.items()}


# JPEG


def _jpeg(side: int = 2000, **options: object) -> bytes:
    return _saved(Image.new("L", (side, side), 128), "JPEG", **options)


def _scan_of(jpeg: bytes) -> tuple[bytes, bytes]:
    """Split a JPEG into what is before its first scan, and that scan without the end marker."""
    start = jpeg.index(b"\xff\xda")
    return jpeg[:start], jpeg[start:-2]


def _many_scans() -> bytes:
    """Sequential, 12,000 scans of the first of three components: the decoder waits for the others to the end."""
    head, _ = _scan_of(_saved(Image.new("RGB", (1200, 1200), (128, 128, 128)), "JPEG"))
    return head + (b"\xff\xda\x00\x08\x01\x01\x00\x00\x3f\x00" + b"\x28") * 12_000 + b"\xff\xd9"


def _progressive_scans() -> bytes:
    """The last scan of a progressive image, again and again."""
    jpeg = _jpeg(4900, progressive=True)
    last = jpeg.rindex(b"\xff\xda")
    return jpeg[:-2] + jpeg[last:-2] * 150 + b"\xff\xd9"


def _short_scans() -> bytes:
    """Scans of a few bytes each, in an image of one component."""
    head, _ = _scan_of(_jpeg(2000))
    return head + b"\xff\xda\x00\x08\x01\x01\x00\x00\x3f\x00\x00" * 12_000 + b"\xff\xd9"


def _arithmetic() -> bytes:
    """The frame says arithmetic coding; the data are zeros, which are valid in it."""
    head, _ = _scan_of(_jpeg(4900))
    head = head.replace(b"\xff\xc0", b"\xff\xc9", 1)
    scan = b"\xff\xda\x00\x08\x01\x01\x00\x00\x3f\x00" + bytes(200)
    return head + scan * 200 + b"\xff\xd9"


def _arithmetic_progressive() -> bytes:
    head, _ = _scan_of(_jpeg(4900))
    head = head.replace(b"\xff\xc0", b"\xff\xca", 1)
    scans = [b"\xff\xda\x00\x08\x01\x01\x00\x00\x00\x00" + bytes(60)]
    scans += [b"\xff\xda\x00\x08\x01\x01\x00\x01\x3f\x00" + bytes(60)] * 150
    return head + b"".join(scans) + b"\xff\xd9"


def _fill_bytes() -> bytes:
    return b"\xff\xd8" + b"\xff" * (15 * 2**20) + _jpeg(64)[2:]


def _empty_segments() -> bytes:
    return b"\xff\xd8" + b"\xff\xe5\x00\x02" * (3 * 2**20) + _jpeg(64)[2:]


def _exif_segments() -> bytes:
    """Many EXIF blocks, which Pillow joins."""
    exif = b"Exif\0\0" + b"II*\0\x08\0\0\0" + b"\0" * 65_000
    return b"\xff\xd8" + (b"\xff\xe1" + struct.pack(">H", len(exif) + 2) + exif) * 200 + _jpeg(64)[2:]


def _restart_markers() -> bytes:
    """A restart interval of one block, and data that are restart markers only."""
    head, scan = _scan_of(_jpeg(4900))
    markers = b"".join(b"\xff" + bytes([0xD0 + i % 8]) for i in range(8)) * 40_000
    return head + b"\xff\xdd\x00\x04\x00\x01" + scan[:12] + markers + b"\xff\xd9"


# PNG


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def _png(
    width: int, height: int, data: bytes, *, kind: int = 0, depth: int = 8, interlace: int = 0, more: bytes = b""
) -> bytes:
    header = struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, interlace)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + more + _chunk(b"IDAT", data) + _chunk(b"IEND", b"")


def _png_of_claimed_size() -> bytes:
    return _png(2**31 - 1, 2**31 - 1, zlib.compress(bytes(100)))


def _png_of_largest_size() -> bytes:
    """As many pixels as the service accepts, with colour and transparency."""
    return _png(5000, 5000, zlib.compress(bytes(5000 * (4 * 5000 + 1)), 9), kind=6)


def _png_interlaced() -> bytes:
    sizes = ((8, 8, 0, 0), (8, 8, 4, 0), (4, 8, 0, 4), (4, 4, 2, 0), (2, 4, 0, 2), (2, 2, 1, 0), (1, 2, 0, 1))
    n = sum(-(-(4000 - y) // down) * (2 * -(-(4000 - x) // across) + 1) for across, down, x, y in sizes)
    return _png(4000, 4000, zlib.compress(bytes(n), 9), depth=16, interlace=1)


def _png_of_text() -> bytes:
    """Compressed comments of gigabytes."""
    text = zlib.compress(bytes(2**26), 9)
    return _png(8, 8, zlib.compress(bytes(72)), more=_chunk(b"zTXt", b"a\0\0" + text) * 60)


def _png_of_profile() -> bytes:
    return _png(8, 8, zlib.compress(bytes(72)), more=_chunk(b"iCCP", b"a\0\0" + zlib.compress(bytes(2**29), 9)))


def _png_of_chunks() -> bytes:
    return _png(8, 8, zlib.compress(bytes(72)), more=_chunk(b"tEXt", b"a\0") * 800_000)


def _png_of_frames() -> bytes:
    """An animation that promises a billion frames."""
    return _png(8, 8, zlib.compress(bytes(72)), more=_chunk(b"acTL", struct.pack(">II", 10**9, 0)))


# TIFF


def _tiff(entries: list[tuple[int, int, int, bytes]], data: bytes = b"") -> bytes:
    """Return a little-endian file: a header, one directory of (tag, type, count, value), and the data after it."""
    body = struct.pack("<H", len(entries))
    body += b"".join(struct.pack("<HHI", tag, kind, n) + value for tag, kind, n, value in sorted(entries))
    return b"II*\0" + struct.pack("<I", 8) + body + struct.pack("<I", 0) + data


def _long(value: int) -> bytes:
    return struct.pack("<I", value)


def _tiff_entries(width: int, height: int, compression: int) -> list[tuple[int, int, int, bytes]]:
    return [
        (256, 4, 1, _long(width)), (257, 4, 1, _long(height)), (258, 3, 1, _long(8)), (259, 3, 1, _long(compression)),
        (262, 3, 1, _long(1)), (277, 3, 1, _long(1)),
    ]  # fmt: skip


def _tiff_of_strips(n: int = 2_000_000, compression: int = 1) -> bytes:
    """Two million strips of one row, all at one place."""
    entries = [*_tiff_entries(1, n, compression), (278, 4, 1, _long(1))]
    place = 8 + 2 + 12 * 9 + 4
    entries += [(273, 4, n, _long(place)), (279, 4, n, _long(place + 4 * n))]
    return _tiff(entries, _long(8) * n + _long(1) * n)


def _tiff_of_tile() -> bytes:
    """One pixel in a tile of 40,000 x 40,000: 150 bytes."""
    entries = [
        *_tiff_entries(1, 1, 8), (322, 4, 1, _long(40_000)), (323, 4, 1, _long(40_000)), (324, 4, 1, _long(134)),
        (325, 4, 1, _long(8)),
    ]  # fmt: skip
    return _tiff(entries, zlib.compress(bytes(40)))


def _tiff_of_lzw() -> bytes:
    return _saved(Image.new("RGB", (5000, 4999)), "TIFF", compression="tiff_lzw")


# Others


def _pgm_of_comments() -> bytes:
    return b"P5\n" + b"#\n" * (7 * 2**20) + b"8 8 255\n" + bytes(64)


def _pgm_of_text() -> bytes:
    """Numbers as text, many blanks between them."""
    return b"P2\n3000 3000 255\n" + b"0 " * (9_000_000)


def _gif_of_frames() -> bytes:
    """A hundred thousand frames behind the first, which is as large as allowed."""
    first = _saved(Image.new("P", (5000, 5000)), "GIF")
    control = b"\x21\xf9\x04\x08\x00\x00\x00\x00"
    frame = control + b"\x2c" + struct.pack("<HHHHB", 0, 0, 1, 1, 0) + b"\x02\x02\x44\x01\x00"
    return first[:-1] + frame * 100_000 + b"\x3b"


def _webp_of_largest_size() -> bytes:
    return _saved(Image.new("RGB", (5000, 5000)), "WEBP", lossless=True, quality=0, method=0)


def _bmp_of_runs() -> bytes:
    """Run-length coding of an image whose runs all end at once."""
    header = struct.pack("<IiiHHIIiiII", 40, 5000, 5000, 1, 8, 1, 0, 0, 0, 256, 0)
    palette = bytes(1024)
    data = b"\x00\x00" * 5000 + b"\x00\x01"
    return b"BM" + struct.pack("<IHHI", 14 + 40 + 1024 + len(data), 0, 0, 14 + 40 + 1024) + header + palette + data


def sound_webp() -> bytes:
    """Return a photograph of as many pixels as the service accepts."""
    noise = Image.effect_noise((500, 500), 80).convert("RGB")
    return _saved(noise.resize((5000, 5000), Image.Resampling.BICUBIC), "WEBP", quality=80, method=0)


def _saved(image: Image.Image, format: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, format, **options)
    return buffer.getvalue()


_FAMILIES: dict[str, Callable[[], bytes]] = {
    "JPEG, sequential scans": _many_scans,
    "JPEG, progressive scans": _progressive_scans,
    "JPEG, 12,000 empty scans": _short_scans,
    "JPEG, arithmetic coding": _arithmetic,
    "JPEG, arithmetic and progressive": _arithmetic_progressive,
    "JPEG, fill bytes": _fill_bytes,
    "JPEG, empty segments": _empty_segments,
    "JPEG, EXIF segments": _exif_segments,
    "JPEG, restart markers": _restart_markers,
    "PNG, claimed size": _png_of_claimed_size,
    "PNG, largest size": _png_of_largest_size,
    "PNG, interlaced": _png_interlaced,
    "PNG, compressed text": _png_of_text,
    "PNG, compressed profile": _png_of_profile,
    "PNG, many chunks": _png_of_chunks,
    "PNG, many frames": _png_of_frames,
    "TIFF, 2 million strips": _tiff_of_strips,
    "TIFF, a large tile": _tiff_of_tile,
    "TIFF, LZW": _tiff_of_lzw,
    "PGM, comments": _pgm_of_comments,
    "PGM, text": _pgm_of_text,
    "GIF, many frames": _gif_of_frames,
    "WebP, largest size": _webp_of_largest_size,
    "BMP, runs": _bmp_of_runs,
}


# The attack


def _peak(pid: int) -> int:
    """Return the largest resident memory of a process so far, in bytes; 0 if it has ended."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/status", encoding="ascii") as file:
        for line in file:
            if line.startswith("VmHWM"):
                return 1024 * int(line.split()[1])
    return 0


def _decoders(service: int) -> list[int]:
    found = []
    for thread in Path(f"/proc/{service}/task").iterdir():
        with contextlib.suppress(OSError):
            found += [int(pid) for pid in (thread / "children").read_text().split()]
    return [pid for pid in found if _is_decoder(pid)]


def _is_decoder(pid: int) -> bool:
    """Whether the program has started: before that, a new process has the memory of its parent."""
    with contextlib.suppress(OSError):
        return b"pixels.py" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def _decoder_seconds(service: int) -> float:
    """Return the processor time of all decoding processes so far."""
    total = sum(_times(service)[2:])  # of those that have ended
    for pid in _decoders(service):
        with contextlib.suppress(OSError):
            total += sum(_times(pid)[:2])
    return total


def _times(pid: int) -> list[float]:
    """Return the seconds of a process: in user mode, in the system, and both of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return [int(field) / os.sysconf("SC_CLK_TCK") for field in fields[11:15]]


def _resident(pid: int) -> int:
    """Return the resident memory of a process in bytes; 0 if it has ended."""
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def _shared(pid: int) -> int:
    """Return the memory of the files in which a decoder and the service pass images to each other."""
    total = 0
    with contextlib.suppress(OSError):
        for handle in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                if os.readlink(handle).startswith("/memfd:"):
                    total += 512 * handle.stat().st_blocks
    return total


@contextlib.contextmanager
def _watched(service: int) -> Iterator[dict[str, int]]:
    """Yield a dictionary that gets the largest memory of a request, looked at every 10 ms.

    "decoder" is the peak of a decoder, "service" by how much the service grows at its peak. "together" is the most at
    one time: the decoders, the images that pass between them and the service, and the growth of the service.
    """
    found = {"decoder": 0, "service": 0, "together": 0}
    Path(f"/proc/{service}/clear_refs").write_text("5")  # resets the peak
    before, end = _peak(service), threading.Event()

    def watch() -> None:
        while not end.wait(0.01):
            decoders = _decoders(service)
            found["decoder"] = max([found["decoder"], *map(_peak, decoders)])
            now = sum(_resident(pid) + _shared(pid) for pid in decoders) + max(0, _resident(service) - before)
            found["together"] = max(found["together"], now)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield found
    finally:
        end.set()
        thread.join()
        found["service"] = _peak(service) - before


def _search(address: tuple[str, int]) -> bytes:
    body = b'{"query": {"id": 0}}'
    head = b"POST /api/search HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Type: application/json\r\n"
    return request(address, head + b"Content-Length: %d\r\n\r\n" % len(body) + body)


def _query(address: tuple[str, int], content: bytes) -> bytes:
    body = b'--x\r\nContent-Disposition: form-data; name="image"; filename="a"\r\n\r\n' + content + b"\r\n--x--\r\n"
    head = b"POST /api/search/image HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
    head += b"Content-Type: multipart/form-data; boundary=x\r\nContent-Length: %d\r\n\r\n" % len(body)
    return request(address, head + body)


def _go_on(address: tuple[str, int], told: Connection) -> None:
    """Search until something is received; then send milliseconds and errors, and wait for the next phase.

    An empty message ends it. It runs in a separate process, so that nothing else delays what it measures.
    """
    while told.recv():
        times, errors = [], []
        while not told.poll(_PAUSE):
            begun = time.perf_counter()
            answer = _search(address)
            times.append(1000 * (time.perf_counter() - begun))
            if not answer.startswith(b"HTTP/1.1 200 "):
                errors.append(answer[:200].decode("latin-1"))
        told.recv()
        told.send((times, errors))


@contextlib.contextmanager
def _searches(address: tuple[str, int]) -> Iterator[Callable[..., Any]]:
    """Yield a function that makes a context in which searches go on; it yields the list that gets their times."""
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=_go_on, args=(address, theirs), daemon=True)
    process.start()

    @contextlib.contextmanager
    def going_on() -> Iterator[list[float]]:
        times: list[float] = []
        ours.send("begin")
        try:
            yield times
        finally:
            ours.send("end")
            found, errors = ours.recv()
            times += found
        assert not errors, errors[0]

    try:
        yield going_on
    finally:
        ours.send("")
        process.join(30)


def main(rounds: str = "1", out: str | None = None) -> None:
    """Run the attack."""
    sent, results, quiet, attacked = [*families().items(), (SOUND, sound_webp())], [], [], []
    with served_alone() as (address, service), _searches(address) as going_on:
        with going_on():
            time.sleep(_WARM_UP)
        for number in range(int(rounds)):
            with going_on() as times:
                time.sleep(_QUIET)
            quiet.append(times)
            with going_on() as times:
                for name, content in sent:
                    results.append({"round": number, **_attacked(address, service, name, content)})
            attacked.append(times)
    searches = {"quiet": _percentiles(quiet), "attacked": _percentiles(attacked)}
    ratio = searches["attacked"]["p99"] / searches["quiet"]["p99"]
    print(json.dumps(searches, indent=1), f"\np99 during the attack: {ratio:.2f} times the quiet one")
    if out is not None:
        stored = {"load_average": os.getloadavg(), "p99_ratio": ratio, "searches": searches, "requests": results}
        Path(out).write_text(json.dumps({**about(), **stored}, indent=1) + "\n")
    assert len(results) == 25 * int(rounds)
    for result in results:
        assert result["status"] in ((200,) if result["family"] == SOUND else (200, 415)), result
        assert result["decoder_seconds"] < SECONDS, result
        assert result["seconds"] < SECONDS + SLACK, result
        assert result["together"] < MEMORY, result
    assert searches["attacked"]["p50"] < 2 * searches["quiet"]["p50"] + SLACK, searches


def _attacked(address: tuple[str, int], service: int, name: str, content: bytes) -> dict[str, Any]:
    """Send one image; return what it costs."""
    with _watched(service) as memory:
        begun, used = time.perf_counter(), _decoder_seconds(service)
        answer = _query(address, content)
        seconds, decoding = time.perf_counter() - begun, _decoder_seconds(service) - used
    status = int(answer.split()[1])
    peaks = " + ".join(f"{n // 10**6:4} MB" for n in memory.values())
    print(f"{name:34}{len(content):>10}{status:>5}{seconds:7.2f} s{decoding:7.2f} s {peaks}", flush=True)
    known = {"family": name, "bytes": len(content), "status": status}
    return {**known, "seconds": seconds, "decoder_seconds": decoding, **memory}


def _percentiles(rounds: list[list[float]]) -> dict[str, Any]:
    """Return the number of searches, percentiles of their milliseconds over all rounds, and the p99 of each."""
    every = np.concatenate(rounds)
    found = {f"p{p}": float(np.percentile(every, p)) for p in (50, 90, 99, 100)}
    return {"n": len(every), **found, "p99_by_round": [float(np.percentile(times, 99)) for times in rounds]}


if __name__ == "__main__":
    main(*sys.argv[1:])
