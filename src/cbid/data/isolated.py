"""Decode untrusted images in separate processes with limits of memory and time.

A file of a few kilobytes can take a decoder minutes or gigabytes, or crash it. A process that exceeds a limit is
killed and replaced, and only its image is lost. The processes run ``cbid.data.pixels`` as a script, so that they load
Pillow and numpy only. They stay alive between calls, one for each call that runs at the same time.
``start_decoders`` starts them ahead of the first call.
"""

import atexit
import contextlib
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cbid.checks import check_integer, check_real
from cbid.data import pixels
from cbid.data.decode import MAX_PIXELS, upright
from cbid.data.pixels import FILE_SIZE, REPLY, REQUEST, ImageError
from cbid.extras import missing_extra

__all__ = ["DecodeLimits", "decode_all", "decode_isolated", "size_isolated", "start_decoders"]

_MOST = 16  # images that are sent at once
_START_SECONDS = 60
_BUSY, _BUSY_NICE = 2.0, 4.0  # wall-clock seconds per second of the processor; with a lower priority
_KEPT = 2**24  # bytes of the shared file of an idle process
# Memory of one image is used again for the next: returning it to the system costs more than decoding small images.
_MALLOC = {"MALLOC_MMAP_THRESHOLD_": str(2**25), "MALLOC_TRIM_THRESHOLD_": str(2**26), "MALLOC_TOP_PAD_": str(2**22)}


@dataclass(frozen=True)
class DecodeLimits:
    """Limits for decoding one image.

    Parameters
    ----------
    seconds : float, default=20
        Time of the processor. The limit of wall-clock time is twice as long, for a busy machine, and four times with
        a lower priority.
    memory : int, default=1.5 GiB
        Bytes of the decoding process, of which it uses about 32 MiB when it is idle, and of two copies of the file
        outside of it. Decoding needs 4 to 10 bytes per pixel, animated WebP up to 16.
    max_pixels : int, default=50,000,000
        As in ``read_image``.
    niceness : int, default=0
        How much lower the priority of the decoding process is than that of this one, up to 19. A service sets it, so
        that a costly image does not take the processor from other requests.
    """

    seconds: float = 20.0
    memory: int = 3 * 2**29
    max_pixels: int = MAX_PIXELS
    niceness: int = 0

    def __post_init__(self) -> None:
        check_real("seconds", self.seconds, 0, open_below=True)
        check_integer("memory", self.memory, 2**20)
        check_integer("max_pixels", self.max_pixels, 1)
        check_integer("niceness", self.niceness, 0, 19)

    @property
    def wall_seconds(self) -> float:
        """The limit of wall-clock time."""
        return self.seconds * (_BUSY_NICE if self.niceness else _BUSY)


def decode_isolated(data: bytes, limits: DecodeLimits) -> NDArray[np.uint8]:
    """Decode the content of a file like ``decode_image``, in another process."""
    (image,) = decode_all([data], limits)
    if isinstance(image, ImageError):
        raise image
    return image


def size_isolated(data: bytes, limits: DecodeLimits) -> tuple[int, int]:
    """Return height and width like ``image_size``, in another process."""
    with _worker(limits) as worker:
        worker.send([data], limits, only_size=True)
        reply = worker.receive()
    if isinstance(reply, ImageError):
        raise reply
    assert reply is not None  # the shared file has room for the first image
    return reply.height, reply.width


def decode_all(contents: Sequence[bytes], limits: DecodeLimits) -> Iterator[NDArray[np.uint8] | ImageError]:
    """Yield the image of each file, or its error, in order. The process works ahead of the caller."""
    with _worker(limits) as worker:
        done = 0
        while done < len(contents):
            worker.send(contents[done : done + _MOST], limits)
            while worker.n_waiting:
                reply = worker.receive()
                if reply is None:  # the shared file is full: ask for the rest again
                    break
                done += 1
                yield reply if isinstance(reply, ImageError) else worker.pixels(reply)


def start_decoders(limits: DecodeLimits, n: int) -> None:
    """Start processes for n calls at the same time, unless there are as many, and wait until they are ready."""
    with contextlib.ExitStack() as lent:
        workers = [lent.enter_context(_worker(limits)) for _ in range(n)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.wait_until_ready()


class _Reply(NamedTuple):
    """What a process says about an image."""

    height: int
    width: int
    channels: int
    orientation: int
    place: int  # of the pixels in the shared file


class _Worker:
    """One decoding process, its pipes, and the file through which images and pixels pass."""

    def __init__(self, memory: int, niceness: int) -> None:
        self.memory, self.niceness = memory, niceness
        self.n_waiting = 0  # images whose replies have not been received
        self._file = _shared_file()
        self._process: subprocess.Popen[bytes] | None = None
        self._is_ready = False
        self._limits, self._deadline = DecodeLimits(), 0.0
        self._ended_by = 0  # the signal that ended the last process

    def send(self, contents: Sequence[bytes], limits: DecodeLimits, *, only_size: bool = False) -> None:
        """Let the process decode files. Replies to earlier files are dropped."""
        if self.n_waiting:
            self._drop()
        self.start()
        self.wait_until_ready()
        place = 0
        for content in contents:
            place += _write(self._file, content, place)
        request = [REQUEST.pack(len(contents), limits.max_pixels, limits.seconds, only_size)]
        request += [FILE_SIZE.pack(len(content)) for content in contents]
        self._limits, self._deadline = limits, time.monotonic() + limits.wall_seconds
        self.n_waiting = len(contents)
        assert self._process is not None
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has died; ``receive`` reports it
            self._process.stdin.write(b"".join(request))

    def receive(self) -> _Reply | ImageError | None:
        """Return the reply to the next image; None if it has to be sent again. After a failure, none waits."""
        limits, reply = self._limits, self._read(REPLY.size)
        if reply is None:
            return ImageError(f"decoding it takes longer than {limits.seconds:g} seconds")
        if len(reply) < REPLY.size:
            if self._ended_by == signal.SIGPROF:
                return ImageError(f"decoding it takes longer than {limits.seconds:g} seconds")
            return ImageError("decoding it ends the decoder, by its limits of memory and time or by an error")
        outcome, height, width, channels, orientation, place, n_text = REPLY.unpack(reply)
        text = self._read(n_text) or b""
        self.n_waiting = max(0, self.n_waiting - 1)
        self._deadline = time.monotonic() + limits.wall_seconds
        if outcome == pixels.NOT_YET:
            return None
        if outcome == pixels.NO_MEMORY:
            self.close()  # a fresh process has all its memory again
            return ImageError(f"decoding it needs more than {limits.memory >> 20} MiB")
        if outcome != pixels.DONE:
            return ImageError("".join(c if c.isprintable() else " " for c in text.decode(errors="replace")))
        if height * width > limits.max_pixels:
            return ImageError("the decoder reports a wrong size")
        return _Reply(height, width, channels, orientation, place)

    def pixels(self, reply: _Reply) -> NDArray[np.uint8] | ImageError:
        """Return the upright image of a reply."""
        shape = (reply.height, reply.width) if reply.channels == 1 else (reply.height, reply.width, 3)
        values = np.empty(shape, dtype=np.uint8)
        content = values.data.cast("B")
        done = 0
        while done < len(content):
            n = os.preadv(self._file, [content[done:]], reply.place + done)
            if not n:
                return ImageError("the decoder reports a wrong size")
            done += n
        return upright(values, reply.orientation)

    def _drop(self) -> None:
        while self.n_waiting:
            self.receive()

    def _read(self, size: int) -> bytes | None:
        """Return bytes of the reply, fewer if the process has ended, or None after the deadline."""
        if self._process is None:
            return b""
        assert self._process.stdout is not None
        handle, content = self._process.stdout.fileno(), b""
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        while len(content) < size:
            if not poll.poll(max(0.0, 1000 * (self._deadline - time.monotonic()))):
                self.close()
                return None
            part = os.read(handle, size - len(content))
            if not part:
                self.close()
                break
            content += part
        return content

    def start(self) -> None:
        """Start the process unless it runs."""
        if self._process is not None and self._process.poll() is None:
            return
        self.close()
        path = os.pathsep.join(entry for entry in sys.path if os.path.isabs(entry))
        threads = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-s", str(pixels.__file__), str(self._file), str(self.memory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # libtiff writes warnings there
            bufsize=0,
            pass_fds=[self._file],
            process_group=0,  # Ctrl-C does not reach it: a service then finishes the images that it is decoding
            env={**os.environ, **threads, **_MALLOC, "PYTHONPATH": path},
        )
        if self.niceness:
            own = os.getpriority(os.PRIO_PROCESS, 0)
            with contextlib.suppress(ProcessLookupError):  # it has died; ``_read`` reports it
                os.setpriority(os.PRIO_PROCESS, self._process.pid, own + self.niceness)

    def wait_until_ready(self) -> None:
        """Wait until the process has started."""
        if not self._is_ready:
            self._deadline = time.monotonic() + _START_SECONDS
            if self._read(len(pixels.READY)) != pixels.READY:
                self.close()
                raise OSError(f"the process that decodes images does not start within {_START_SECONDS} seconds")
            self._is_ready = True

    def free(self) -> None:
        """Release most of the memory of the shared file; what stays makes the next images faster."""
        if os.fstat(self._file).st_size > _KEPT:
            os.ftruncate(self._file, _KEPT)

    def close(self) -> None:
        """Kill the process, if there is one."""
        process, self._process, self.n_waiting, self._is_ready = self._process, None, 0, False
        if process is not None:
            if process.poll() is None:
                process.kill()
            self._ended_by = -process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()

    def forget(self) -> None:
        """Leave the process to another owner."""
        self._process = None

    def __del__(self) -> None:
        self.close()
        os.close(self._file)


def _shared_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("cbid image", os.MFD_CLOEXEC)
    with tempfile.TemporaryFile() as file:  # pragma: no cover (Linux has memfd)
        return os.dup(file.fileno())


def _write(file: int, data: bytes, place: int) -> int:
    """Write all data at this place; return its size."""
    content, done = memoryview(data), 0
    while done < len(content):
        done += os.pwrite(file, content[done:], place + done)
    return done


_idle: list[_Worker] = []
_mutex = threading.Lock()


@contextlib.contextmanager
def _worker(limits: DecodeLimits) -> Iterator[_Worker]:
    """Lend a worker with this limit of memory and this priority."""
    if find_spec("PIL") is None:
        raise missing_extra("reading images", "images")
    wanted = limits.memory, limits.niceness
    with _mutex:
        found = next((worker for worker in _idle if (worker.memory, worker.niceness) == wanted), None)
        if found is not None:
            _idle.remove(found)
    worker = found or _Worker(*wanted)
    try:
        yield worker
    finally:
        if worker.n_waiting:  # the caller has stopped early
            worker.close()
        worker.free()
        with contextlib.suppress(OSError):  # the next image tries again, and reports it
            worker.start()  # in place of a process that was killed: the next image does not wait for it
        with _mutex:
            _idle.append(worker)


@atexit.register
def _end() -> None:
    with _mutex:
        for worker in _idle:
            worker.close()
        _idle.clear()


def _after_fork() -> None:
    """Forget the workers of the parent process; they and their pipes stay its own."""
    global _mutex
    _mutex = threading.Lock()
    for worker in _idle:
        worker.forget()
    _idle.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
