"""Embeddings of small networks made here, whose answer numpy gives."""

import builtins
import json

import numpy as np
import pytest
from PIL import Image

from cbid.data import ImageError
from cbid.descriptors import ONNXEmbedding
from cbid.descriptors.deep import Preprocessing

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("PIL")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

FLOAT = TensorProto.FLOAT
RNG = np.random.default_rng(0)
FILTERS = RNG.normal(size=(5, 3, 3, 3)).astype(np.float32)
PLAIN = {"scale": 1 / 255, "mean": 0, "std": 1, "crop": 1, "l2": False}  # pixels from 0 to 1, and no more


def write(path, nodes, shape, outputs, weights=(), kind=FLOAT):
    """A network with the input "image" of this shape, and outputs {name: shape}."""
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("image", kind, shape)],
        [helper.make_tensor_value_info(name, kind, of) for name, of in outputs.items()],
        [numpy_helper.from_array(value, name) for name, value in weights],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(made)
    onnx.save(made, path)
    return path


@pytest.fixture
def convolution(tmp_path):
    """Five filters of 3 x 3 over any size, the largest value of each, and the maps themselves."""
    return write(
        tmp_path / "convolution.onnx",
        [
            helper.make_node("Conv", ["image", "filters"], ["maps"]),
            helper.make_node("GlobalMaxPool", ["maps"], ["largest"]),
            helper.make_node("Flatten", ["largest"], ["vector"]),
        ],
        ["n", 3, "h", "w"],
        {"vector": ["n", 5], "maps": ["n", 5, "a", "b"]},
        [("filters", FILTERS)],
    )


@pytest.fixture
def image():
    return RNG.integers(0, 256, (12, 14, 3), dtype=np.uint8)


def maps_by_hand(pixels):
    """The filters (5, 3, 3, 3) over pixels (h, w, 3): (5, h - 2, w - 2)."""
    windows = np.lib.stride_tricks.sliding_window_view(pixels, (3, 3), axis=(0, 1))  # (h - 2, w - 2, 3, 3, 3)
    return np.einsum("yxcij,fcij->fyx", windows, FILTERS.astype(float))


def test_a_convolution_with_known_filters(convolution, image):
    embedding = ONNXEmbedding(model=convolution, preprocessing={**PLAIN, "size": [12, 14]})
    values = embedding.transform([image, image[::-1]])
    assert values.dtype == np.float32
    for row, given in zip(values, (image, image[::-1])):
        np.testing.assert_allclose(row, maps_by_hand(given / 255.0).max(axis=(1, 2)), rtol=1e-5)


@pytest.mark.parametrize("pooling", ["mean", "max", "first", "flatten"])
def test_spatial_maps_are_pooled(convolution, image, pooling):
    chosen = {**PLAIN, "size": [12, 14], "output": "maps", "pooling": pooling}
    values = ONNXEmbedding(model=convolution, preprocessing=chosen).describe(image)
    maps = maps_by_hand(image / 255.0)
    expected = {
        "mean": maps.mean(axis=(1, 2)),
        "max": maps.max(axis=(1, 2)),
        "first": maps[:, 0, 0],
        "flatten": maps.ravel(),
    }
    np.testing.assert_allclose(values, expected[pooling], rtol=1e-4, atol=1e-5)


def test_mean_deviation_order_and_length(convolution, image):
    chosen = {
        "size": [12, 14], "crop": 1, "scale": 1, "mean": [10, 20, 30], "std": [2, 3, 4],
        "channels": "BGR", "output": "vector", "l2": True,
    }  # fmt: skip
    values = ONNXEmbedding(model=convolution, preprocessing=chosen).describe(image)
    expected = maps_by_hand((image[:, :, ::-1] - np.array([10.0, 20, 30])) / [2, 3, 4]).max(axis=(1, 2))
    np.testing.assert_allclose(values, expected / np.linalg.norm(expected), rtol=1e-5)


def identity(path, shape, kind=FLOAT):
    return write(path, [helper.make_node("Identity", ["image"], ["same"])], shape, {"same": shape}, kind=kind)


def test_layout_channels_and_size_are_read_from_the_network(tmp_path):
    """Channels last, gray, 6 x 4: the input comes back as it was given."""
    model = identity(tmp_path / "same.onnx", [1, 6, 4, 1])
    image = RNG.integers(0, 256, (6, 4), dtype=np.uint8)
    values = ONNXEmbedding(model=model, preprocessing={**PLAIN, "pooling": "flatten"}).describe(image)
    np.testing.assert_allclose(values, image.ravel() / 255.0, rtol=1e-6)


@pytest.mark.parametrize("kind", [TensorProto.FLOAT16, TensorProto.DOUBLE])
def test_other_floats(tmp_path, kind):
    model = identity(tmp_path / "same.onnx", ["n", 3, 4, 4], kind)
    image = RNG.integers(0, 256, (4, 4, 3), dtype=np.uint8)
    values = ONNXEmbedding(model=model, preprocessing={**PLAIN, "pooling": "flatten"}).describe(image)
    assert values.dtype == np.float32
    np.testing.assert_allclose(values, image.transpose(2, 0, 1).ravel() / 255.0, atol=1e-3)


def test_a_network_with_a_fixed_number_of_images(tmp_path):
    model = identity(tmp_path / "same.onnx", [4, 3, 5, 5])
    images = RNG.integers(0, 256, (3, 5, 5, 3), dtype=np.uint8)
    values = ONNXEmbedding(model=model, preprocessing=PLAIN).transform(images)
    np.testing.assert_allclose(values, images.mean(axis=(1, 2)) / 255, rtol=1e-5)


def test_tokens_are_pooled_over_their_axis():
    tokens = np.arange(24.0).reshape(2, 3, 4)
    assert Preprocessing(l2=False).finish(tokens)[1].tolist() == [16, 17, 18, 19]
    assert Preprocessing(l2=False, pooling="first").finish(tokens)[1].tolist() == [12, 13, 14, 15]


def settled(**entries):
    return Preprocessing.of(entries).settled((4, 4), "NHWC", "gray", "out")


def test_the_centre_is_cut_out():
    """The middle half of 8 x 16 pixels in a square shape: rows 2 to 5, columns 6 to 9, one new pixel for each."""
    image = RNG.integers(0, 256, (8, 16), dtype=np.uint8)
    pixels = settled(crop=0.5, scale=1, mean=0, std=1).apply(image)
    np.testing.assert_allclose(pixels[:, :, 0], image[2:6, 6:10], atol=1e-4)


@pytest.mark.parametrize("channels", ["RGB", "gray"])
@pytest.mark.parametrize("shape", [(90, 70), (2, 4000), (300, 11)])
def test_a_large_image_is_never_copied_as_a_whole(monkeypatch, channels, shape):
    """Pillow gets bands of it. The values differ from those of one step by rounding."""
    image = np.random.default_rng(0).integers(0, 256, (*shape, 3), dtype=np.uint8)
    steps = Preprocessing(scale=1, mean=(0,), std=(1,)).settled((10, 10), "NHWC", channels, "out")
    expected, sizes, fromarray = steps.apply(image), [], Image.fromarray

    def counted(pixels):
        sizes.append(pixels.shape[0] * pixels.shape[1])
        return fromarray(pixels)

    monkeypatch.setattr("cbid.descriptors.deep._LARGE", 2000)
    monkeypatch.setattr(Image, "fromarray", counted)
    np.testing.assert_allclose(steps.apply(image), expected, atol=1)
    assert max(sizes) <= max(2000, shape[1], 10 * shape[0])


def test_stretching_takes_the_whole_image():
    """Blocks of 2 x 4 equal pixels become one pixel each, but for the reach of bilinear interpolation."""
    small = RNG.integers(0, 256, (4, 4), dtype=np.uint8)
    image = np.repeat(np.repeat(small, 2, axis=0), 4, axis=1)
    nearest = settled(fit="stretch", interpolation="nearest", scale=1, mean=0, std=1).apply(image)
    np.testing.assert_array_equal(nearest[:, :, 0], small)


def test_usual_mean_and_deviation():
    """A white pixel is (1 - mean) / std of ImageNet, red, green and blue; gray takes the mean of the three."""
    white = np.full((4, 4, 3), 255, np.uint8)
    rgb = Preprocessing().settled((4, 4), "NCHW", "RGB", "out").apply(white)
    np.testing.assert_allclose(rgb[:, 0, 0], (1 - np.array([0.485, 0.456, 0.406])) / [0.229, 0.224, 0.225], rtol=1e-5)
    bgr = Preprocessing().settled((4, 4), "NCHW", "BGR", "out").apply(white)
    np.testing.assert_allclose(bgr, rgb[::-1], rtol=1e-6)
    gray = Preprocessing().settled((4, 4), "NCHW", "gray", "out").apply(white)
    np.testing.assert_allclose(gray, (1 - 0.449) / 0.226, rtol=1e-5)


def test_the_file_next_to_the_model_is_read(convolution, image):
    beside = convolution.with_suffix(".json")
    beside.write_text(json.dumps({**PLAIN, "size": [12, 14], "output": "maps"}))
    same = ONNXEmbedding(model=convolution, preprocessing={**PLAIN, "size": [12, 14], "output": "maps"})
    np.testing.assert_array_equal(ONNXEmbedding(model=convolution).describe(image), same.describe(image))
    np.testing.assert_array_equal(
        ONNXEmbedding(model=str(convolution), preprocessing=beside).describe(image), same.describe(image)
    )
    assert ONNXEmbedding(model=convolution).fingerprint() == same.fingerprint()
    beside.write_text("{}")
    assert ONNXEmbedding(model=convolution).describe(image).shape == (5,)
    assert ONNXEmbedding(model=convolution).fingerprint() != same.fingerprint()


def test_fingerprint_is_of_the_content(tmp_path):
    first = identity(tmp_path / "a.onnx", ["n", 3, 4, 4])
    copy = tmp_path / "b.onnx"
    copy.write_bytes(first.read_bytes())
    other = identity(tmp_path / "c.onnx", ["n", 3, 4, 5])
    assert ONNXEmbedding(model=first, n_jobs=2).fingerprint() == ONNXEmbedding(model=copy).fingerprint()
    assert ONNXEmbedding(model=first).fingerprint() != ONNXEmbedding(model=other).fingerprint()


def test_fingerprint_follows_weights_kept_in_another_file(tmp_path, image):
    def external(folder, filters):
        folder.mkdir()
        weights = [("filters", filters)]
        path = write(
            folder / "net.onnx",
            [helper.make_node("Conv", ["image", "filters"], ["maps"])],
            ["n", 3, 8, 8],
            {"maps": ["n", 5, 6, 6]},
            weights,
        )
        onnx.save(onnx.load(path), path, save_as_external_data=True, location="net.weights", size_threshold=0)
        return ONNXEmbedding(model=path)

    one, same, other = (external(tmp_path / n, f) for n, f in (("1", FILTERS), ("2", FILTERS), ("3", 2 * FILTERS)))
    assert (tmp_path / "1" / "net.weights").exists()
    assert one.fingerprint() == same.fingerprint()
    assert one.fingerprint() != other.fingerprint()
    np.testing.assert_array_equal(one.describe(image), same.describe(image))


def test_threads_change_nothing(convolution):
    images = RNG.integers(0, 256, (40, 20, 20, 3), dtype=np.uint8)
    chosen = {"size": 16}
    one = ONNXEmbedding(model=convolution, preprocessing=chosen).transform(images)
    two = ONNXEmbedding(model=convolution, preprocessing=chosen, n_jobs=2).transform(images)
    np.testing.assert_array_equal(one, two)
    np.testing.assert_allclose(np.linalg.norm(one, axis=1), 1, rtol=1e-5)


def test_a_changed_model_is_opened_again(tmp_path):
    image = RNG.integers(0, 256, (4, 4, 3), dtype=np.uint8)
    path = identity(tmp_path / "net.onnx", ["n", 3, 4, 4])
    embedding = ONNXEmbedding(model=path, preprocessing={**PLAIN, "pooling": "flatten"})
    before, print_before = embedding.describe(image), embedding.fingerprint()
    write(path, [helper.make_node("Neg", ["image"], ["minus"])], ["n", 3, 4, 4], {"minus": ["n", 3, 4, 4]})
    np.testing.assert_allclose(embedding.describe(image), -before)
    assert embedding.fingerprint() != print_before


@pytest.mark.parametrize(
    ("entries", "word"),
    [
        ([1, 2], "list"),
        ({"sizes": 3}, "'sizes'.*size, fit"),
        ({"size": 0}, "size"),
        ({"size": [1, 2, 3]}, "size"),
        ({"fit": "pad"}, "fit"),
        ({"crop": 0}, "crop"),
        ({"crop": 1.5}, "crop"),
        ({"interpolation": "area"}, "interpolation"),
        ({"scale": "big"}, "scale"),
        ({"mean": [1, 2]}, "mean has 2 numbers"),
        ({"mean": "dark"}, "mean"),
        ({"std": 0}, "std"),
        ({"channels": "HSV"}, "channels"),
        ({"channels": "gray"}, "channels='gray'.* has 3"),
        ({"layout": "CHW"}, "layout"),
        ({"layout": "NHWC"}, "layout='NHWC'.* is NCHW"),
        ({"output": 3}, "output"),
        ({"output": "scores"}, "output='scores'.* vector, maps"),
        ({"pooling": "sum"}, "pooling"),
        ({"l2": "yes"}, "l2"),
    ],
)
def test_bad_preprocessing(convolution, entries, word):
    convolution.with_suffix(".json").write_text(json.dumps(entries))
    with pytest.raises(ValueError, match=word):
        ONNXEmbedding(model=convolution).fit([])


def test_preprocessing_of_another_kind(convolution, tmp_path):
    with pytest.raises(ValueError, match="preprocessing=3"):
        ONNXEmbedding(model=convolution, preprocessing=3).fit([])
    with pytest.raises(ValueError, match=r"gone\.json cannot be read"):
        ONNXEmbedding(model=convolution, preprocessing=tmp_path / "gone.json").fit([])
    for text in ('{"size": 3', "[" * 100_000):
        (tmp_path / "broken.json").write_text(text)
        with pytest.raises(ValueError, match=r"broken\.json is not a JSON file"):
            ONNXEmbedding(model=convolution, preprocessing=tmp_path / "broken.json").fit([])
    (tmp_path / "latin.json").write_bytes(b'{"output": "caf\xe9"}')
    with pytest.raises(ValueError, match=r"latin\.json is not a JSON file"):
        ONNXEmbedding(model=convolution, preprocessing=tmp_path / "latin.json").fit([])


def test_a_size_that_the_network_does_not_take(tmp_path):
    model = identity(tmp_path / "same.onnx", ["n", 3, 8, "w"])
    with pytest.raises(ValueError, match=r"size=\[4, 4\].*\[8, None\]"):
        ONNXEmbedding(model=model, preprocessing={"size": 4}).fit([])
    assert ONNXEmbedding(model=model, preprocessing={"size": [8, 3]}).settings()["preprocessing"]["size"] == (8, 3)
    assert ONNXEmbedding(model=model).settings()["preprocessing"]["size"] == (8, 224)


def test_files_that_are_not_models(tmp_path):
    with pytest.raises(ValueError, match=r"gone\.onnx.*No such file"):
        ONNXEmbedding(model=tmp_path / "gone.onnx").fit([])
    with pytest.raises(ValueError, match="model=None"):
        ONNXEmbedding(model=None).fit([])
    for name, content in (("empty", b""), ("text", b"not a network at all")):
        (tmp_path / f"{name}.onnx").write_bytes(content)
        with pytest.raises(ValueError, match=rf"{name}\.onnx.*cannot be opened"):
            ONNXEmbedding(model=tmp_path / f"{name}.onnx").fit([])


@pytest.mark.parametrize(
    ("shape", "kind", "word"),
    [
        (["n", 3, 8], FLOAT, "four axes"),
        (["n", 5, 8, 8], FLOAT, "1 or 3 channels"),
        (["n", 3, 8, 8], TensorProto.INT64, "int64"),
    ],
)
def test_networks_over_something_else(tmp_path, shape, kind, word):
    with pytest.raises(ValueError, match=word):
        ONNXEmbedding(model=identity(tmp_path / "other.onnx", shape, kind)).fit([])


def test_two_inputs(tmp_path):
    graph = helper.make_graph(
        [helper.make_node("Add", ["a", "b"], ["c"])],
        "two",
        [helper.make_tensor_value_info(name, FLOAT, [1, 3, 4, 4]) for name in "ab"],
        [helper.make_tensor_value_info("c", FLOAT, [1, 3, 4, 4])],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), tmp_path / "two.onnx"
    )
    with pytest.raises(ValueError, match=r"2 inputs \('a', 'b'\)"):
        ONNXEmbedding(model=tmp_path / "two.onnx").fit([])


def test_values_that_are_not_finite_name_the_image(tmp_path):
    """The logarithm of a black pixel."""
    model = write(
        tmp_path / "log.onnx", [helper.make_node("Log", ["image"], ["log"])], ["n", 3, 4, 4], {"log": ["n", 3, 4, 4]}
    )
    images = [np.full((4, 4, 3), 9, np.uint8), np.zeros((4, 4, 3), np.uint8)]
    with pytest.raises(ImageError, match=r"image 1.*not finite"):
        ONNXEmbedding(model=model, preprocessing=PLAIN).transform(images)


@pytest.mark.parametrize("shape", [(1, 1), (1, 10_000), (10_000, 1, 3)])
def test_tiny_and_thin_images(convolution, shape):
    values = ONNXEmbedding(model=convolution, preprocessing={"size": 8}).describe(np.full(shape, 7, np.uint8))
    assert np.isfinite(values).all()


def test_without_onnxruntime_the_extra_is_named(tmp_path, monkeypatch):
    real = builtins.__import__

    def missing(name, *args, **kwargs):
        if name == "onnxruntime":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(ImportError, match=r"extra 'deep'.*onnxruntime"):
        ONNXEmbedding(model=identity(tmp_path / "same.onnx", ["n", 3, 4, 4])).fit([])


def test_uint8_pixels_enter_as_they_are(tmp_path):
    model = identity(tmp_path / "bytes.onnx", ["n", 4, 4, 3], TensorProto.UINT8)
    image = RNG.integers(0, 256, (4, 4, 3), dtype=np.uint8)
    chosen = {"crop": 1, "l2": False, "pooling": "flatten"}
    values = ONNXEmbedding(model=model, preprocessing=chosen).fit([]).describe(image)
    np.testing.assert_array_equal(values, image.ravel())
    for entry in ({"mean": 127}, {"std": 2}, {"scale": 1}):
        with pytest.raises(ValueError, match=f"{next(iter(entry))}=.*uint8"):
            ONNXEmbedding(model=model, preprocessing={**chosen, **entry}).fit([])


def test_a_layer_by_its_name_or_its_output(convolution, image):
    """The maps before the pooling: as an output of the network, by the name of the value, and of the node."""
    chosen = {**PLAIN, "size": [12, 14]}
    network = onnx.load(convolution)
    network.graph.node[0].name = "first convolution"
    del network.graph.output[1]  # the maps are no output any more
    inner = convolution.with_name("inner.onnx")
    onnx.save(network, inner)
    expected = ONNXEmbedding(model=convolution, preprocessing={**chosen, "output": "maps"}).describe(image)
    for layer in ("maps", "first convolution"):
        found = ONNXEmbedding(model=inner, preprocessing=chosen, layer=layer)
        np.testing.assert_array_equal(found.describe(image), expected)
        assert found.settings()["layer"] == layer
    last = ONNXEmbedding(model=inner, preprocessing=chosen, layer="vector")  # an output is a layer too
    np.testing.assert_array_equal(
        last.describe(image), ONNXEmbedding(model=inner, preprocessing=chosen).describe(image)
    )
    assert "layer" not in ONNXEmbedding(model=inner).settings()


def test_unknown_layers(convolution, tmp_path):
    with pytest.raises(ValueError, match=r"layer='mapz'.*maps"):
        ONNXEmbedding(model=convolution, layer="mapz").fit([])
    with pytest.raises(ValueError, match="layer=3"):
        ONNXEmbedding(model=convolution, layer=3).fit([])
    (tmp_path / "text.onnx").write_text("not a network at all")
    with pytest.raises(ValueError, match=r"text\.onnx.*cannot be opened"):
        ONNXEmbedding(model=tmp_path / "text.onnx", layer="maps").fit([])


def test_class_scores_are_named(tmp_path):
    """A softmax over 48 values sums to one; five values are too few. 48 other values pass."""
    nodes = [helper.make_node("Flatten", ["image"], ["flat"]), helper.make_node("Softmax", ["flat"], ["scores"])]
    model = write(tmp_path / "net.onnx", nodes, ["n", 3, 4, 4], {"scores": ["n", 48]})
    with pytest.warns(UserWarning, match=r"'scores'.*sum to one over 48.*earlier layer"):
        ONNXEmbedding(model=model).fit([])
    assert ONNXEmbedding(model=model, layer="flat").fit([]).describe(np.ones((4, 4, 3))).shape == (48,)


def test_few_values_are_named(convolution):
    with pytest.warns(UserWarning, match="'vector' are only 5"):
        ONNXEmbedding(model=convolution).fit([])
