"""The store of rows, against a plain dictionary of images."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbid.classify.patches import PatchStore, UnknownImageError

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 2), st.lists(st.integers(1, 4), min_size=1, max_size=3)),
        st.tuples(st.just("remove"), st.integers(0, 20), st.none()),
    ),
    max_size=12,
)


@given(STEPS)
def test_the_store_equals_a_dictionary(steps):
    store, kept = PatchStore(), [{}, {}, {}]
    for c in range(3):
        store.insert_class(c)
    value = 0
    for what, number, sizes in steps:
        if what == "add":
            ids = store.new_ids(None, len(sizes))
            rows = []
            for image, size in zip(ids, sizes):
                rows.append(np.arange(value, value + 2 * size).reshape(size, 2))
                kept[number][image] = rows[-1]
                value += 2 * size
            store.add(number, rows, ids)
        elif number in store:
            c = next(c for c in range(3) if number in kept[c])
            assert store.remove(number) == c
            del kept[c][number]
        else:
            with pytest.raises(UnknownImageError):
                store.remove(number)
    assert store.n_images == sum(map(len, kept))
    for c, images in enumerate(kept):
        assert store.ids[c] == list(images)
        if images:
            np.testing.assert_array_equal(store.parts[c], np.concatenate(list(images.values())))
    for c in range(2, -1, -1):
        if not kept[c]:
            store.drop_class(c)
    if store.parts:
        again = PatchStore.from_arrays(store.arrays(), [image for ids in store.ids for image in ids])
        assert (again.ids, again.sizes) == (store.ids, store.sizes)
        for a, b in zip(again.parts, store.parts, strict=True):
            np.testing.assert_array_equal(a, b)


def test_new_classes_come_between_old_ones():
    store = PatchStore()
    for c, image in ((0, "a"), (1, "b"), (1, "c")):  # c between a and b
        store.insert_class(c)
        store.add(c, [np.full((1, 1), ord(image))], [image])
    assert store.ids == [["a"], ["c"], ["b"]]
    assert store.remove("b") == 2
