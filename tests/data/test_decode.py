"""One image from a file: every kind of picture, and every way to harm one."""

import io
import os
import struct
import threading
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from cbid.data import ImageError, read_image
from cbid.data.decode import image_size
from tests.data.pictures import encoded, picture, png_of_claimed_size

RGB = picture()
GRAY = RGB[:, :, 0]
WHOLE = {
    "jpeg": encoded(RGB, "JPEG"),
    "progressive": encoded(RGB, "JPEG", progressive=True),
    "gray jpeg": encoded(GRAY, "JPEG"),
    "cmyk jpeg": encoded(Image.fromarray(RGB).convert("CMYK"), "JPEG"),
    "png": encoded(RGB, "PNG"),
    "png 16": encoded(GRAY.astype(np.uint16) * 257, "PNG"),
    "palette": encoded(Image.fromarray(RGB).convert("P"), "PNG"),
    "webp": encoded(RGB, "WEBP"),
    "gif": encoded(RGB, "GIF"),
    "bmp": encoded(RGB, "BMP"),
    "tiff": encoded(RGB, "TIFF"),
    "tiff lzw": encoded(RGB, "TIFF", compression="tiff_lzw"),
    "ppm": encoded(RGB, "PPM"),
}


@pytest.mark.parametrize("format", ["PNG", "BMP", "TIFF", "PPM"])
def test_lossless_formats_give_the_pixels_back(format):
    np.testing.assert_array_equal(read_image(encoded(RGB, format)), RGB)
    np.testing.assert_array_equal(read_image(encoded(GRAY, format)), GRAY)


def test_a_file_and_its_bytes_are_the_same_image_and_may_be_written_to(tmp_path):
    (tmp_path / "été 猫.jpg").write_bytes(WHOLE["jpeg"])
    image = read_image(tmp_path / "été 猫.jpg")
    np.testing.assert_array_equal(image, read_image(WHOLE["jpeg"]))
    np.testing.assert_array_equal(image, np.asarray(Image.open(tmp_path / "été 猫.jpg")))
    assert image.dtype == np.uint8
    assert image.flags.writeable
    assert image.flags.c_contiguous


def test_the_name_does_not_tell_the_format(tmp_path):
    (tmp_path / "a.jpg").write_bytes(encoded(RGB, "PNG"))
    np.testing.assert_array_equal(read_image(tmp_path / "a.jpg"), RGB)


# Kinds of pixels


def test_alpha_is_laid_on_white():
    """Half opaque black on white: 255 - 128 = 127; transparent: white, whatever the colour beneath."""
    alpha = np.array([[[0, 0, 0, 128], [10, 20, 30, 255], [90, 80, 70, 0]]], np.uint8)
    np.testing.assert_array_equal(read_image(encoded(alpha, "PNG")), [[[127] * 3, [10, 20, 30], [255] * 3]])
    gray = np.array([[[0, 128], [10, 255], [90, 0]]], np.uint8)
    np.testing.assert_array_equal(read_image(encoded(Image.fromarray(gray, "LA"), "PNG")), [[127, 10, 255]])


def test_transparent_colours_of_palettes_and_of_gray():
    palette = Image.fromarray(np.array([[0, 1, 2]], np.uint8), "P")
    palette.putpalette([10, 20, 30, 40, 50, 60, 70, 80, 90])
    np.testing.assert_array_equal(
        read_image(encoded(palette, "PNG", transparency=1)), [[[10, 20, 30], [255] * 3, [70, 80, 90]]]
    )
    np.testing.assert_array_equal(read_image(encoded(palette, "PNG")), [[[10, 20, 30], [40, 50, 60], [70, 80, 90]]])
    gray = Image.fromarray(np.array([[5, 6]], np.uint8))
    np.testing.assert_array_equal(read_image(encoded(gray, "PNG", transparency=5)), [[255, 6]])


def test_one_bit_and_sixteen_bits():
    bits = np.array([[True, False, True]])
    np.testing.assert_array_equal(read_image(encoded(Image.fromarray(bits), "PNG")), [[255, 0, 255]])
    deep = np.array([[0, 128, 129, 257, 32768, 65407, 65535]], np.uint16)
    scaled = np.rint(deep / 257).astype(np.uint8)
    for format in ("PNG", "TIFF"):
        np.testing.assert_array_equal(read_image(encoded(deep, format)), scaled)
    assert scaled.max() == 255
    assert scaled[0, 4] == 128  # not clipped
    np.testing.assert_array_equal(read_image(b"P5 2 1 65535 " + struct.pack(">HH", 257, 65535)), [[1, 255]])


def test_integers_and_floats_of_32_bits():
    def read(values):
        return read_image(encoded(Image.fromarray(np.array(values)), "TIFF"))[0].tolist()

    assert read(np.array([[0, 257, 65535]], np.int32)) == [0, 1, 255]  # as 16 bits
    assert read(np.array([[-100, 0, 100_000]], np.int32)) == [0, 0, 255]  # stretched: 100 / 100,100 of 255 is 0
    assert read(np.array([[0, 0.5, 1]], np.float32)) == [0, 128, 255]
    assert read(np.array([[10, 20, 30]], np.float32)) == [0, 128, 255]  # 127.5 goes to the even one
    assert read(np.array([[7, 7]], np.float32)) == [0, 0]
    with pytest.raises(ImageError, match="not finite"):
        read(np.array([[0, np.nan]], np.float32))


def test_cmyk_and_ycbcr_become_rgb():
    for mode in ("CMYK", "YCbCr"):
        image = Image.fromarray(RGB).convert(mode)
        read = read_image(encoded(image, "TIFF"))
        assert read.shape == RGB.shape
        assert np.abs(read.astype(int) - RGB).max() <= 3


@pytest.mark.parametrize("format", ["GIF", "WEBP", "TIFF", "PNG"])
def test_the_first_of_several_frames(format):
    frames = [Image.fromarray(picture(seed=s)) for s in range(3)]
    options = {"lossless": True} if format == "WEBP" else {}
    image = read_image(encoded(frames[0], format, save_all=True, append_images=frames[1:], **options))
    alone = read_image(encoded(frames[0], format, **options))
    np.testing.assert_array_equal(image, alone)


# Orientation


@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP", "TIFF"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation(format, orientation):
    """The eight ways a camera may have been held, undone; against numpy's own turns."""
    upright = np.kron(np.arange(6, dtype=np.uint8).reshape(2, 3) * 40, np.ones((16, 16), np.uint8))
    stored = {
        1: upright,
        2: np.fliplr(upright),
        3: np.rot90(upright, 2),
        4: np.flipud(upright),
        5: upright.T,
        6: np.rot90(upright, 1),
        7: np.rot90(upright, 2).T,
        8: np.rot90(upright, -1),
    }[orientation]
    exif = Image.Exif()
    exif[0x0112] = orientation
    options = {"JPEG": {"quality": 100}, "WEBP": {"lossless": True}}.get(format, {})
    read = read_image(encoded(np.ascontiguousarray(stored), format, exif=exif, **options))
    read = read if read.ndim == 2 else read[:, :, 0]
    assert read.shape == upright.shape
    assert np.abs(read.astype(int) - upright).max() <= 1


def test_damaged_exif_data_counts_as_absent():
    exif = Image.Exif()
    exif[0x0112] = 6
    whole = encoded(RGB, "PNG", exif=exif)
    assert read_image(whole).shape == (60, 48, 3)
    start = whole.index(b"eXIf") + 4
    length = struct.unpack(">I", whole[start - 8 : start - 4])[0]
    from tests.data.pictures import png_chunk

    damaged = whole[: start - 8] + png_chunk(b"eXIf", bytes(length)) + whole[start + length + 4 :]
    np.testing.assert_array_equal(read_image(damaged), RGB)


# Large ones


def test_the_limit_is_checked_by_the_header_and_is_ours_alone():
    with pytest.raises(ImageError, match="30000 x 30000 pixels: expected at most 50000000"):
        read_image(png_of_claimed_size(30_000, 30_000))
    with pytest.raises(ImageError, match="60 x 48 pixels: expected at most 2879"):
        read_image(WHOLE["jpeg"], max_pixels=2879)
    assert read_image(WHOLE["jpeg"], max_pixels=2880).shape == (48, 60, 3)
    # Pillow warns from 89 million pixels on and refuses from 179 million on; what is asked for here is read.
    wide = Image.new("1", (10_000, 9_000))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_image(encoded(wide, "PNG"), max_pixels=100_000_000).shape == (9_000, 10_000)


def test_the_size_comes_from_the_header():
    assert image_size(encoded(picture()[:5, :7], "PNG")) == (5, 7)
    assert image_size(png_of_claimed_size(4000, 3000)) == (3000, 4000)
    for wrong in (png_of_claimed_size(30_000, 30_000), b"", b"text", b"\x89PNG\r\n\x1a\n"):
        with pytest.raises(ImageError):
            image_size(wrong)


def test_one_pixel_and_one_row():
    assert read_image(encoded(np.full((1, 1), 7, np.uint8), "PNG")).tolist() == [[7]]
    assert read_image(encoded(np.zeros((1, 10_000), np.uint8), "JPEG")).shape == (1, 10_000)
    assert read_image(encoded(np.zeros((10_000, 1, 3), np.uint8), "PNG")).shape == (10_000, 1, 3)


def test_a_file_larger_than_its_pixels_can_be_is_not_read(tmp_path):
    path = tmp_path / "large.ppm"
    with open(path, "wb") as file:
        file.truncate(10**9)
    with pytest.raises(ImageError, match="1000000000 bytes"):
        read_image(path)


def test_a_jpeg_of_countless_scans_is_refused():
    many = WHOLE["progressive"][:-2] + b"\xff\xda\x00\x02" * 300 + b"\xff\xd9"
    with pytest.raises(ImageError, match="more than 200 scans"):
        read_image(many)


def test_what_follows_a_jpeg_does_not_count():
    """Telephones append a film to a picture, whose bytes hold anything."""
    np.testing.assert_array_equal(read_image(WHOLE["jpeg"] + b"\xff\xda" * 500), read_image(WHOLE["jpeg"]))


def test_arguments_are_checked():
    with pytest.raises(ValueError, match="max_pixels=0"):
        read_image(WHOLE["png"], max_pixels=0)
    with pytest.raises(ValueError, match="formats='PDF'"):
        read_image(WHOLE["png"], formats=("PDF",))


def test_a_hint_decodes_a_jpeg_at_a_fraction():
    large = encoded(picture(480, 640), "JPEG")
    assert read_image(large).shape == (480, 640, 3)
    assert read_image(large, longest=100).shape == (120, 160, 3)  # a quarter; an eighth would be smaller than asked
    assert read_image(large, longest=80).shape == (60, 80, 3)
    assert read_image(large, longest=400).shape == (480, 640, 3)
    assert read_image(large, longest=4000).shape == (480, 640, 3)
    assert read_image(encoded(picture(480, 640), "PNG"), longest=80).shape == (480, 640, 3)


# What is no image


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "it is empty"),
        (b"this is a text", "expected one of JPEG, PNG"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "expected one of"),
        (b"%PDF-1.7", "expected one of"),
        (b"\xff\xd8\xff", "cannot be read"),
        (b"P5 0 0 255 ", "cannot be read"),
    ],
)
def test_what_is_no_image_is_named(tmp_path, content, reason):
    (tmp_path / "a.jpg").write_bytes(content)
    with pytest.raises(ImageError, match=r"a.jpg cannot be read") as caught:
        read_image(tmp_path / "a.jpg")
    assert reason in str(caught.value)


def test_what_is_no_file_is_named(tmp_path):
    with pytest.raises(ImageError, match=r"nothing.jpg cannot be read: No such file"):
        read_image(tmp_path / "nothing.jpg")
    with pytest.raises(ImageError, match="not a regular file"):
        read_image(tmp_path)
    os.mkfifo(tmp_path / "pipe.jpg")  # opening it would block
    with pytest.raises(ImageError, match="not a regular file"):
        read_image(tmp_path / "pipe.jpg")
    odd = os.fsdecode(bytes(tmp_path) + b"/caf\xe9\n.jpg")
    with pytest.raises(ImageError, match=r"caf\\udce9\\n.jpg") as caught:
        read_image(odd)
    str(caught.value).encode()  # can be printed anywhere


def test_formats_can_be_restricted():
    with pytest.raises(ImageError, match=r"expected one of JPEG, PNG$"):
        read_image(WHOLE["tiff"], formats=("JPEG", "PNG"))
    assert read_image(WHOLE["png"], formats=("JPEG", "PNG")).shape == RGB.shape


@pytest.mark.parametrize("name", WHOLE)
def test_a_truncated_file_is_an_error_never_half_a_picture(name):
    """Wherever it is cut, either an error, or only what follows the pixels is gone."""
    data, whole = WHOLE[name], read_image(WHOLE[name])
    for cut in {*range(0, len(data), 1 + len(data) // 60), *range(len(data) - 30, len(data))}:
        try:
            image = read_image(data[:cut])
        except ImageError:
            continue
        np.testing.assert_array_equal(image, whole)


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(sorted(set(WHOLE) - {"tiff lzw"})),  # whose library writes of its errors to the terminal
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), min_size=1, max_size=6),
    st.booleans(),
)
def test_damage_gives_an_image_or_an_image_error(name, changes, in_header):
    data = bytearray(WHOLE[name])
    span = min(len(data), 150) if in_header else len(data)
    for where, value in changes:
        data[int(where * (span - 1))] = value
    try:
        image = read_image(bytes(data), max_pixels=10**6)
    except ImageError:
        return
    assert image.dtype == np.uint8
    assert image.ndim in (2, 3)


def test_a_tiff_whose_pages_lead_in_a_circle():
    data = bytearray(encoded(GRAY, "TIFF"))
    (first,) = struct.unpack("<I", data[4:8])
    (entries,) = struct.unpack("<H", data[first : first + 2])
    following = first + 2 + 12 * entries
    data[following : following + 4] = struct.pack("<I", first)
    np.testing.assert_array_equal(read_image(bytes(data)), GRAY)


def test_threads_read_at_once_and_leave_no_trace():
    """What one thread reads does not depend on what the others do; Pillow's settings stay as they were."""
    from PIL import ImageFile

    before = Image.MAX_IMAGE_PIXELS, ImageFile.LOAD_TRUNCATED_IMAGES, warnings.filters[:]
    expected = {name: read_image(data) for name, data in WHOLE.items()}
    wrong = []

    def work(names):
        for name in names:
            if not np.array_equal(read_image(WHOLE[name]), expected[name]):
                wrong.append(name)
            with pytest.raises(ImageError):
                read_image(WHOLE[name][: len(WHOLE[name]) // 2])

    threads = [threading.Thread(target=work, args=(list(WHOLE)[s:] * 2,)) for s in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert before == (Image.MAX_IMAGE_PIXELS, ImageFile.LOAD_TRUNCATED_IMAGES, warnings.filters[:])


def test_without_pillow_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "PIL.PngImagePlugin", None)
    with pytest.raises(ImportError, match=r"extra .images."):
        read_image(io.BytesIO(WHOLE["png"]).getvalue())
