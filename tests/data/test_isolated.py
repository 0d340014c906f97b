"""Decoding in another process: the same pixels, and limits of memory and time that end one image only."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from attacks.hostile_images import families
from PIL import Image

from cbid.data import isolated
from cbid.data.decode import ImageError, decode_image, image_size
from cbid.data.isolated import DecodeLimits, _idle, decode_all, decode_isolated, size_isolated
from cbid.descriptors import HOG, describe
from cbid.project import Project, ProjectWarning
from cbid.web import ServiceSettings
from tests.data.pictures import encoded, picture, png_of_claimed_size, write_tree

LIMITS = DecodeLimits(seconds=10, memory=2**28)
RGB = picture()
TURNED = b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0" + bytes(4)
FILES = {
    "jpeg": encoded(RGB, "JPEG"),
    "turned": encoded(RGB, "JPEG", exif=TURNED),
    "gray png": encoded(RGB[:, :, 0], "PNG"),
    "16 bits": encoded(RGB[:, :, 0].astype(np.uint16) * 257, "PNG"),
    "float": encoded(Image.fromarray(RGB[:, :, 0].astype(np.float32)), "TIFF"),
    "integers": encoded(Image.fromarray(RGB[:, :, 0].astype(np.int32) - 50), "TIFF"),
    "alpha": encoded(np.dstack([RGB, RGB[:, :, 0]]), "PNG"),
    "palette": encoded(Image.fromarray(RGB).convert("P"), "PNG", transparency=3),
    "webp": encoded(RGB, "WEBP"),
}  # fmt: skip
COMMENTS = b"P5\n" + b"#\n" * 2**22 + b"8 8 255\n" + bytes(64)  # takes seconds


@pytest.mark.parametrize("name", FILES)
def test_the_pixels_are_those_of_this_process(name):
    image = decode_isolated(FILES[name], LIMITS)
    np.testing.assert_array_equal(image, decode_image(FILES[name]))
    assert image.flags.writeable
    assert size_isolated(FILES[name], LIMITS) == image_size(FILES[name])


def test_large_images_are_converted_in_bands(monkeypatch):
    """Bands of one row each give the pixels of one band."""
    whole = {name: decode_image(data) for name, data in FILES.items()}
    monkeypatch.setattr("cbid.data.pixels._BAND", 1)
    for name, data in FILES.items():
        np.testing.assert_array_equal(decode_image(data), whole[name])


def test_many_images_come_in_order_and_a_full_file_is_emptied():
    big = encoded(np.zeros((3000, 3000, 3), np.uint8), "PNG")  # 27 MB of pixels; the file holds 64
    contents = [FILES["jpeg"], b"no image", big, big, big, FILES["gray png"], *[FILES["webp"]] * 130]
    found = list(decode_all(contents, LIMITS))
    assert [getattr(image, "shape", None) for image in found[:6]] == [
        (48, 60, 3), None, *[(3000, 3000, 3)] * 3, (48, 60),
    ]  # fmt: skip
    assert "format is unknown" in str(found[1])
    assert len(found) == 136
    np.testing.assert_array_equal(found[-1], decode_image(FILES["webp"]))


def test_too_long_too_large_and_a_crash_end_one_image_only():
    small = DecodeLimits(seconds=0.5, memory=2**26)
    tile = families_of("TIFF, a large tile")
    contents = [FILES["jpeg"], COMMENTS, FILES["jpeg"], encoded(np.zeros((7000, 7000, 3), np.uint8), "PNG"), tile,
                FILES["jpeg"]]  # fmt: skip
    begun = time.perf_counter()
    found = list(decode_all(contents, small))
    assert time.perf_counter() - begun < 10
    assert [isinstance(image, ImageError) for image in found] == [False, True, False, True, True, False]
    assert "longer than 0.5 seconds" in str(found[1])
    assert "more than 64 MiB" in str(found[3])


def test_the_limit_of_memory_covers_the_copies_of_the_file():
    """The caller and the shared file hold the content too: 10 MiB behind the image cost 30 MiB, not 10."""
    image = encoded(np.zeros((2000, 2000), np.uint8), "PNG")
    longer = image + bytes(10 * 2**20)
    limits, higher = (DecodeLimits(seconds=10, memory=mib * 2**20) for mib in (63, 93))  # of no other process here
    with pytest.raises(ImageError, match="more than 63 MiB"):
        decode_isolated(longer, limits)
    assert decode_isolated(image, limits).size == decode_isolated(longer, higher).size == 2000**2


@pytest.mark.parametrize("alpha", [False, True])
@pytest.mark.parametrize("lossless", [False, True])
def test_a_large_webp_has_the_pixels_that_pillow_reads(alpha, lossless, monkeypatch):
    small = np.random.default_rng(0).integers(0, 256, (40, 30, 3 + alpha), dtype=np.uint8)
    exif = Image.Exif()
    exif[0x0112] = 6
    big = Image.fromarray(small).resize((2100, 2000))
    content = encoded(np.asarray(big), "WEBP", lossless=lossless, quality=0, method=0, exif=exif)
    limits = DecodeLimits(seconds=10, memory=90 * 2**20)  # Pillow needs 67 MB beside the process and the file
    found = decode_isolated(content, limits)
    monkeypatch.setattr("cbid.data.pixels._LARGE", 10**9)
    np.testing.assert_array_equal(found, decode_image(content))
    assert found.shape == (2100, 2000, 3)
    with pytest.raises(ImageError, match="2100 x 2000 pixels"):
        decode_isolated(content, DecodeLimits(max_pixels=10**6))


def test_a_damaged_large_webp_is_rejected():
    content = bytearray(encoded(np.zeros((2001, 2000, 3), np.uint8), "WEBP", lossless=True, quality=0, method=0))
    for place in range(20, len(content)):
        damaged = content[:place] + bytes([content[place] ^ 0xFF]) + content[place + 1 :]
        with contextlib.suppress(ImageError):
            assert decode_image(bytes(damaged)).ndim == 3


def families_of(name):
    from attacks import hostile_images

    return hostile_images._FAMILIES[name]()


def test_a_process_that_dies_while_it_decodes_is_replaced():
    with isolated._worker(LIMITS) as worker:
        worker.send([COMMENTS], LIMITS)
        os.kill(worker._process.pid, signal.SIGKILL)
        assert "ends the decoder" in str(worker.receive())
    np.testing.assert_array_equal(decode_isolated(FILES["jpeg"], LIMITS), decode_image(FILES["jpeg"]))


def test_a_process_that_dies_between_two_images_costs_none_of_them():
    decode_isolated(FILES["jpeg"], LIMITS)
    for worker in _idle:
        os.kill(worker._process.pid, signal.SIGKILL)
        os.waitid(os.P_PID, worker._process.pid, os.WEXITED | os.WNOWAIT)
    np.testing.assert_array_equal(decode_isolated(FILES["jpeg"], LIMITS), decode_image(FILES["jpeg"]))


def test_no_image_waits_for_the_start_of_a_process(monkeypatch):
    """Processes start ahead of the first image, and in place of those that exceed a limit."""
    limits = DecodeLimits(seconds=0.5, memory=2**26 + 2**20)  # of no other test: two new processes

    def running():
        return {w._process.pid for w in _idle if w.memory == limits.memory and w._process.poll() is None}

    for _ in range(2):  # the second call finds them
        isolated.start_decoders(limits, 2)
        before = running()
        assert len(before) == 2
    with pytest.raises(ImageError, match=r"longer than 0\.5 seconds"):
        decode_isolated(COMMENTS, limits)
    assert len(running()) == 2
    assert len(running() & before) == 1
    with pytest.raises(ImageError, match="more than 65 MiB"):
        decode_isolated(encoded(np.zeros((7000, 7000, 3), np.uint8), "PNG"), limits)
    assert len(running()) == 2
    monkeypatch.setattr(subprocess, "Popen", None)
    for _ in range(2):
        np.testing.assert_array_equal(decode_isolated(FILES["jpeg"], limits), decode_image(FILES["jpeg"]))


def test_ctrl_c_does_not_reach_the_process():
    """A terminal sends the signal to the whole group: a service still answers the requests it is working on."""
    with isolated._worker(LIMITS) as worker:
        worker.start()
        assert os.getpgid(worker._process.pid) != os.getpgid(0)


def test_limits_of_pixels_and_their_arguments():
    with pytest.raises(ImageError, match="expected at most 100"):
        decode_isolated(FILES["jpeg"], DecodeLimits(max_pixels=100))
    with pytest.raises(ImageError, match="pixels"):
        size_isolated(png_of_claimed_size(10**6, 10**6), LIMITS)
    for wrong in ({"seconds": 0}, {"memory": 10}, {"max_pixels": 0}):
        with pytest.raises(ValueError, match=f"{next(iter(wrong))}="):
            DecodeLimits(**wrong)


def test_the_process_of_a_service_has_a_lower_priority():
    """Processes are not shared between priorities."""
    own = os.getpriority(os.PRIO_PROCESS, 0)
    for niceness in (7, 0):
        with isolated._worker(DecodeLimits(niceness=niceness)) as worker:
            worker.send([b"P5 1 1 255 a"], DecodeLimits(niceness=niceness))
            assert worker.receive().height == 1
            assert os.getpriority(os.PRIO_PROCESS, worker._process.pid) == min(19, own + niceness)
    limits = ServiceSettings().limits
    assert limits.niceness > 0
    assert limits.wall_seconds > 2 * limits.seconds  # it waits for the processor
    with pytest.raises(ValueError, match="niceness=20"):
        DecodeLimits(niceness=20)


def test_threads_have_a_process_each():
    images = [[] for _ in range(4)]

    def work(found):
        found += decode_all([FILES["jpeg"], FILES["alpha"]] * 10, LIMITS)

    threads = [threading.Thread(target=work, args=(found,)) for found in images]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for found in images:
        np.testing.assert_array_equal(found[-1], decode_image(FILES["alpha"]))


def test_a_caller_that_stops_early_leaves_no_replies_behind():
    some = decode_all([FILES["jpeg"]] * 20, LIMITS)
    next(some)
    some.close()
    np.testing.assert_array_equal(decode_isolated(FILES["alpha"], LIMITS), decode_image(FILES["alpha"]))


def test_a_forked_child_starts_its_own_process():
    code = (
        "import os\nfrom cbid.data.isolated import DecodeLimits, decode_isolated as d\n"
        "limits = DecodeLimits()\ndata = b'P5 1 1 255 \\x07'\nassert d(data, limits)[0, 0] == 7\n"
        "child = os.fork()\nassert d(data, limits)[0, 0] == 7\n"
        "if child:\n    assert os.waitpid(child, 0)[1] == 0\n    assert d(data, limits)[0, 0] == 7\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_describe_gives_the_same_values_and_skips_the_offender(tmp_path, n_jobs):
    write_tree(tmp_path, {f"{i}.png": encoded(picture(seed=i), "PNG") for i in range(6)} | {"3.png": COMMENTS})
    paths = [tmp_path / f"{i}.png" for i in range(6)] + [tmp_path / "missing.png"]
    hog, limits = HOG(size=(32, 32)), DecodeLimits(seconds=0.5)
    found = describe(paths, hog, on_error="skip", n_jobs=n_jobs, limits=limits)
    expected = describe([paths[i] for i in (0, 1, 2, 4, 5)], hog)
    np.testing.assert_array_equal(found.values, expected.values)
    assert found.rows.tolist() == [0, 1, 2, 4, 5]
    (name, reason), (missing, _) = found.failures
    assert name.endswith("3.png")
    assert "longer than 0.5 seconds" in reason
    assert missing.endswith("missing.png")


def test_a_fit_names_and_skips_the_offender(tmp_path):
    files = {f"{'ab'[i % 2]}/{i}.png": encoded(picture(seed=i), "PNG") for i in range(12)}
    write_tree(tmp_path / "in", files | {"a/tile.png": families_of("TIFF, a large tile")})
    with pytest.warns(ProjectWarning, match=r"a/tile\.png"):
        project = Project.fit(tmp_path / "p.cbid", tmp_path / "in", n_bits=8)
    with project:
        assert len(project) == 12


@pytest.mark.long
def test_no_family_exceeds_its_limits():
    limits = ServiceSettings().limits
    for name, content in families().items():
        begun = time.perf_counter()
        found = next(iter(decode_all([content], limits)))
        assert time.perf_counter() - begun < 5, name
        assert isinstance(found, (ImageError, np.ndarray))
