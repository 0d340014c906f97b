"""Data sets of the detection experiment."""

import json

import numpy as np
import pytest

import cbid.detection
from cbid.detection import AnnotationError
from cbid.paper.detection import open_annotated, training_images
from cbid.paper.sets import DataAbsent
from tests.data.pictures import pgm, write_tree


def test_names_of_0_1_0_still_work():
    assert cbid.detection.open_annotated is open_annotated
    assert cbid.detection.training_images is training_images


def inria(tmp_path, boxes):
    files = {"train/positive/0.pgm": pgm(1), "train/negative/0.pgm": pgm(2), "test/images/x.pgm": pgm(3)}
    folder = {f"inria_person/{name}": data for name, data in files.items()}
    folder["inria_person/test/boxes.json"] = json.dumps({"x.pgm": {"boxes": boxes}}).encode()
    return write_tree(tmp_path, folder)


def test_the_layout_of_inria(tmp_path):
    root = inria(tmp_path, [[0, 0, 2, 2]])
    test = open_annotated("inria_person", root)
    assert len(test) == 1
    assert test.annotations[0].boxes.tolist() == [[0, 0, 2, 2]]
    positives, negatives = training_images("inria_person", root)
    assert (list(positives.names), list(negatives.names)) == (["train/positive/0.pgm"], ["train/negative/0.pgm"])


def test_a_box_outside_its_photograph_is_reported_when_it_is_read(tmp_path):
    test = open_annotated("inria_person", inria(tmp_path, [[5000, 0, 5002, 2]]))
    with pytest.raises(AnnotationError, match=r"x\.pgm: box .* is outside the image"):
        list(test)


def test_the_layout_of_tud_brussels(tmp_path):
    tree = {"images/f.pgm": pgm(1), "images/g.pgm": pgm(2), "annotation.idl": b'"f.pgm": (2, 3, 1, 0);\n"g.pgm";\n'}
    root = write_tree(tmp_path, {f"tud_brussels/{name}": data for name, data in tree.items()})
    test = open_annotated("tud_brussels", root)
    np.testing.assert_array_equal(test.annotations[0].boxes, [[1, 0, 2, 3]])
    assert len(test.annotations[1].boxes) == 0
    with pytest.raises(AnnotationError, match="TUD-Brussels has no training windows"):
        training_images("tud_brussels", root)


def test_sets_that_are_not_there(tmp_path):
    with pytest.raises(DataAbsent, match="INRIA Person is missing"):
        open_annotated("inria_person", tmp_path)
    with pytest.raises(ValueError, match="name='digits'"):
        open_annotated("digits")
