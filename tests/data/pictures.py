"""Small pictures and files for the tests of this folder."""

import io
import struct
import zlib

import numpy as np
from PIL import Image


def picture(height=48, width=60, seed=0):
    """Smooth colours, so that JPEG keeps them nearly."""
    rng = np.random.default_rng(seed)
    corners = Image.fromarray(rng.integers(0, 256, (3, 4, 3), dtype=np.uint8))
    return np.asarray(corners.resize((width, height), Image.Resampling.BILINEAR))


def encoded(image, format, **options):
    """The bytes of an image file."""
    buffer = io.BytesIO()
    (image if isinstance(image, Image.Image) else Image.fromarray(image)).save(buffer, format, **options)
    return buffer.getvalue()


def png_chunk(kind, content):
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png_of_claimed_size(width, height):
    """A PNG whose header claims a size that its data does not have."""
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    chunks = png_chunk(b"IHDR", header) + png_chunk(b"IDAT", zlib.compress(bytes(1000))) + png_chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunks


def write_tree(root, files):
    """Files under a folder: {relative path: bytes}."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return root


def pgm(value, height=4, width=4):
    """A tiny gray image file of one value, made without any library."""
    return b"P5 %d %d 255 " % (width, height) + bytes([value]) * (height * width)
