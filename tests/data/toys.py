"""Descriptors that are quick and whose values are easy to compute by hand; importable by worker processes."""

import os
import time

import numpy as np

from cbid.data.images import as_gray, to_float
from cbid.descriptors import Descriptor, LocalDescriptor


class Means(Descriptor):
    """Mean and largest value, ``repeat`` times over; ``pause`` seconds for each image."""

    def __init__(self, *, repeat=1, pause=0.0, log=None, n_jobs=None, verbose=0):
        self.repeat = repeat
        self.pause = pause
        self.log = log
        self.n_jobs = n_jobs
        self.verbose = verbose

    _NOT_SETTINGS = frozenset({"n_jobs", "verbose", "pause", "log"})

    def _check_params(self):
        if self.repeat < 1:
            raise ValueError(f"repeat={self.repeat}")

    def describe(self, image):
        if self.pause:
            time.sleep(self.pause)
        if self.log is not None:  # one byte for each image that was described, in any process
            descriptor = os.open(self.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.write(descriptor, b".")
            os.close(descriptor)
        gray = to_float(as_gray(image))
        return np.tile(np.array([gray.mean(), gray.max()], np.float32), self.repeat)


class ThreadedMeans(Means):
    _threads = True


class Flat(Descriptor):
    """All pixels: as many values as the image has."""

    def __init__(self, *, n_jobs=None):
        self.n_jobs = n_jobs

    def _check_params(self):
        pass

    def describe(self, image):
        if image.shape[0] == 1:
            raise ValueError("the image has one row; two are needed")
        return to_float(image).ravel()


class Rows(LocalDescriptor):
    """Each row of the image is a local descriptor, cut to 4 values."""

    _threads = True

    def __init__(self, *, n_jobs=None):
        self.n_jobs = n_jobs

    def _check_params(self):
        pass

    def describe(self, image):
        gray = to_float(as_gray(image))
        frames = np.array([(2, y, 4) for y in range(len(gray))], np.float32).reshape(-1, 3)
        return gray[:, :4], frames, gray.shape
