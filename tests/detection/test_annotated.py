import json

import pytest

from cbid.detection import AnnotationError, read_coco


def coco(**changes):
    content = {
        "images": [
            {"id": 1, "file_name": "a.pgm", "height": 10, "width": 20},
            {"id": 2, "file_name": "b.pgm", "height": 10, "width": 20},
        ],
        "annotations": [
            {"id": 5, "image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4]},
            {"id": 6, "image_id": 1, "category_id": 1, "bbox": [0, 0, 20, 10], "iscrowd": 1},
            {"id": 7, "image_id": 1, "category_id": 9, "bbox": [5, 5, 1, 1]},
        ],
        "categories": [{"id": 1, "name": "person"}, {"id": 9, "name": "dog"}],
    }
    return {**content, **changes}


def written(tmp_path, content):
    path = tmp_path / "boxes.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_coco(tmp_path):
    found = read_coco(written(tmp_path, coco()), tmp_path, category="person")
    assert list(found.images.names) == ["a.pgm", "b.pgm"]
    assert found.annotations[0].boxes.tolist() == [[1, 2, 4, 6], [0, 0, 20, 10]]
    assert found.annotations[0].ignore.tolist() == [False, True]
    assert len(found.annotations[1].boxes) == 0  # a photograph without objects is one
    assert len(read_coco(written(tmp_path, coco()), tmp_path).annotations[0].boxes) == 3
    assert read_coco(written(tmp_path, coco()), tmp_path, category=9).annotations[0].boxes.tolist() == [[5, 5, 6, 6]]


def annotation(**changes):
    return {"id": 5, "image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4], **changes}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "boxes.json is not JSON"),
        ("[" * 100_000, "boxes.json is not JSON"),
        ("[]", "COCO"),
        (coco(annotations=[annotation(bbox=10**400)]), "COCO"),
        ({"images": []}, "COCO"),
        (coco(annotations=[]), "has no box in any photograph"),
        (coco(annotations=[annotation(image_id=3)]), "annotation 5 .*3"),
        (coco(annotations=[annotation(bbox=[1, 2, 3])]), "COCO"),
        (coco(annotations=[annotation(bbox=[1, 2, 3, "x"])]), "COCO"),
        (coco(annotations=[annotation(bbox=[1, 2, 0, 4])]), r"a.pgm: box .* has no area"),
        (coco(annotations=[annotation(bbox=[30, 2, 3, 4])]), r"a.pgm: box .* is outside the image of 20 x 10"),
    ],
)
def test_damaged_annotations(tmp_path, content, message):
    with pytest.raises(AnnotationError, match=message):
        read_coco(written(tmp_path, content), tmp_path, category=1)


def test_a_category_that_is_not_there(tmp_path):
    with pytest.raises(AnnotationError, match=r"category='cat'.*'person', 'dog'"):
        read_coco(written(tmp_path, coco()), tmp_path, category="cat")


def test_photographs_with_bad_boxes_are_left_out_by_name(tmp_path):
    content = coco(annotations=[annotation(bbox=[1, 2, 0, 4]), annotation(image_id=2)])
    found = read_coco(written(tmp_path, content), tmp_path, on_error="skip")
    assert list(found.images.names) == ["b.pgm"]
    assert found.problems[0][0] == "a.pgm"
    assert "has no area" in found.problems[0][1]
