"""Codecs against independent libraries in both directions; damage; and the memory of bombs."""

import contextlib
import gzip
import io
import itertools
import random
import threading
import tracemalloc
import warnings
import zlib

import cramjam
import lz4.frame
import pytest
import snappy
import zstandard

from protocol import compression
from protocol.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD, compress, decompress
from protocol.record_errors import CorruptBatch, DecompressedTooLarge, UnsupportedCompression

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # its schemas use a deprecated interface
    from kafka import codec as kafka_codec

MIB = 1 << 20
CODECS = (NONE, GZIP, SNAPPY, LZ4, ZSTD)
PACKED = (GZIP, SNAPPY, LZ4, ZSTD)
NOISE = random.Random(3).randbytes(5000)
XERIAL_HEADER = b"\x82SNAPPY\0" + bytes([0, 0, 0, 1, 0, 0, 0, 1])
DATA = NOISE * 60 + b"the tail"  # compresses well, and is longer than any codec's block


def _zstd_streamed(data: bytes, **settings: int) -> bytes:
    parameters = zstandard.ZstdCompressionParameters(**settings)
    stream = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    pieces = [stream.compress(data[n : n + 777]) for n in range(0, len(data), 777)]
    return b"".join(pieces) + stream.flush()


def _gzip_with_name(data: bytes) -> bytes:
    packed = io.BytesIO()
    with gzip.GzipFile("name", "wb", 9, packed, mtime=5) as stream:
        stream.write(data)
    return packed.getvalue()


FOREIGN = {
    "gzip": (GZIP, gzip.compress(DATA)),
    "gzip stored": (GZIP, gzip.compress(DATA, 0)),
    "gzip with a name": (GZIP, _gzip_with_name(DATA)),
    "gzip of two members": (GZIP, gzip.compress(DATA[:999]) + gzip.compress(DATA[999:])),
    "snappy xerial": (SNAPPY, kafka_codec.snappy_encode(DATA)),
    "snappy xerial of small blocks": (
        SNAPPY,
        kafka_codec.snappy_encode(DATA, xerial_blocksize=1000),
    ),
    "snappy xerial of two streams": (
        SNAPPY,
        kafka_codec.snappy_encode(DATA[:999]) + kafka_codec.snappy_encode(DATA[999:]),
    ),
    "snappy raw": (SNAPPY, snappy.compress(DATA)),
    "lz4 of kafka-python": (LZ4, kafka_codec.lz4_encode(DATA)),
    "lz4 of two frames": (LZ4, lz4.frame.compress(DATA[:999]) + lz4.frame.compress(DATA[999:])),
    "zstd": (ZSTD, zstandard.compress(DATA)),
    "zstd at level 22": (ZSTD, zstandard.compress(DATA, 22)),
    "zstd streamed, of unknown size": (ZSTD, _zstd_streamed(DATA)),
    "zstd with a checksum": (ZSTD, _zstd_streamed(DATA, write_checksum=1)),
    "zstd with the widest window": (ZSTD, _zstd_streamed(DATA, window_log=27)),
    "zstd of two frames": (ZSTD, zstandard.compress(DATA[:9]) + zstandard.compress(DATA[9:])),
} | {
    f"lz4 of {4 ** (size - 4) * 64} KiB blocks {kind}": (
        LZ4,
        lz4.frame.compress(DATA, block_size=size, **{kind: True}),
    )
    for size, kind in itertools.product(
        (4, 5, 6, 7),
        ("block_linked", "block_checksum", "content_checksum", "store_size"),
    )
}


@pytest.mark.parametrize("name", FOREIGN)
def test_output_of_other_libraries_is_read(name):
    codec, packed = FOREIGN[name]
    assert decompress(codec, packed, len(DATA)) == DATA
    assert decompress(codec, memoryview(bytearray(packed)), 64 * MIB) == DATA


@pytest.mark.parametrize(
    ("codec", "theirs"),
    [
        (GZIP, gzip.decompress),
        (GZIP, lambda packed: zlib.decompress(packed, 31)),
        (SNAPPY, kafka_codec.snappy_decode),
        (LZ4, lz4.frame.decompress),
        (LZ4, kafka_codec.lz4_decode),
        (ZSTD, lambda packed: zstandard.ZstdDecompressor().decompress(packed, len(DATA))),
    ],
)
@pytest.mark.parametrize("data", [b"", b"x", NOISE, DATA, bytes(300_000)])
def test_other_libraries_read_our_output(codec, theirs, data):
    assert theirs(compress(codec, data)) == data


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("data", [b"", b"x", NOISE, DATA, bytes(70_000)])
def test_a_round_trip_at_exactly_the_bound(codec, data):
    packed = compress(codec, memoryview(data))
    assert decompress(codec, packed, len(data)) == data
    if data:
        with pytest.raises(DecompressedTooLarge) as error:
            decompress(codec, packed, len(data) - 1)
        assert error.value.size_max == len(data) - 1


def test_lz4_has_independent_blocks_as_kafkas_reader_requires():
    header = lz4.frame.get_frame_info(compress(LZ4, DATA))
    assert header["block_linked"] is False
    assert header["block_size"] == 64 * 1024


@pytest.mark.parametrize("codec", PACKED)
def test_damage_is_reported_as_corruption(codec):
    packed = compress(codec, DATA)
    cases = [packed[:cut] for cut in (1, 5, 15, 17, 19, len(packed) // 2, len(packed) - 1)]
    cases += [b"\xff" * 50, b"\x82SNAPPY\x00", b"garbage" * 9, bytes(40), XERIAL_HEADER + b"\0\0"]
    for case in cases:
        with contextlib.suppress(CorruptBatch):
            assert decompress(codec, case, MIB) != DATA
    with pytest.raises(CorruptBatch):
        decompress(codec, packed[: len(packed) // 2], MIB)


@pytest.mark.parametrize("codec", PACKED)
def test_any_flipped_bit_gives_a_result_or_a_known_error(codec):
    packed = compress(codec, NOISE[:300] * 3)
    for bit in range(len(packed) * 8):
        damaged = bytearray(packed)
        damaged[bit // 8] ^= 1 << (bit % 8)
        with contextlib.suppress(CorruptBatch, DecompressedTooLarge):
            assert len(decompress(codec, damaged, 5000)) <= 5000


@pytest.mark.parametrize("block_bytes", [0, -1, -(2**31), 2**31 - 1, 1000])
def test_snappy_block_sizes_that_do_not_fit(block_bytes):
    head = XERIAL_HEADER
    with pytest.raises(CorruptBatch, match=f"a block of {block_bytes} bytes, but 9 are left"):
        decompress(SNAPPY, head + block_bytes.to_bytes(4, "big", signed=True) + b"123456789", MIB)


@pytest.mark.parametrize("codec", [5, 6, 7, -1])
def test_unknown_codecs(codec):
    with pytest.raises(UnsupportedCompression):
        decompress(codec, b"", MIB)
    with pytest.raises(UnsupportedCompression):
        compress(codec, b"")


def _bombs() -> dict[str, tuple[int, bytes]]:
    zeros = bytes(MIB)
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    gzipped = b"".join(packer.compress(zeros) for _ in range(256)) + packer.flush()
    frame = lz4.frame.LZ4FrameCompressor()
    lz4ed = frame.begin() + b"".join(frame.compress(zeros) for _ in range(64)) + frame.flush()
    stream = zstandard.ZstdCompressor().compressobj()
    zstded = b"".join(stream.compress(zeros) for _ in range(1024)) + stream.flush()
    liar = b"\xff\xff\xff\xff\x0f" + bytes(20)  # raw snappy that announces 4 GiB
    block = snappy.compress(bytes(32 * 1024))
    xerial = XERIAL_HEADER + (len(block).to_bytes(4, "big") + block) * 512
    return {
        "gzip, 256 MiB": (GZIP, gzipped),
        "lz4, 64 MiB": (LZ4, lz4ed),
        "zstd, 1 GiB": (ZSTD, zstded),
        "snappy raw, 32 MiB": (SNAPPY, snappy.compress(bytes(32 * MIB))),
        "snappy xerial, 16 MiB": (SNAPPY, xerial),
        "snappy raw, announcing 4 GiB": (SNAPPY, liar),
        "snappy xerial, announcing 4 GiB": (
            SNAPPY,
            XERIAL_HEADER + len(liar).to_bytes(4, "big") + liar,
        ),
        "zstd in one frame that announces its 1 GiB": (ZSTD, _announcing_zstd()),
    }


def _announcing_zstd() -> bytes:
    packer = zstandard.ZstdCompressor().compressobj(size=1024 * MIB)
    return b"".join(packer.compress(bytes(MIB)) for _ in range(1024)) + packer.flush()


def test_bombs_are_stopped_at_the_bound():
    """CVE-2023-34455 and similar: neither an announced size nor a ratio of 32,000 is trusted."""
    size_max = 8 * MIB
    for name, (codec, packed) in _bombs().items():
        tracemalloc.start()
        with pytest.raises(DecompressedTooLarge) as error:
            decompress(codec, packed, size_max)
        peak_bytes = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert error.value.compressed_size == len(packed), name
        assert peak_bytes < 2 * size_max + MIB, name


def test_a_small_stream_that_announces_much_allocates_little():
    """128 TiB in a zstd header, 8 EiB in an lz4 header: an announced size allocates nothing."""
    claims = [
        (ZSTD, b"\x28\xb5\x2f\xfd\xe0" + (1 << 47).to_bytes(8, "little") + b"\x01\0\0"),
        (LZ4, b"\x04\x22\x4d\x18\x68\x70" + (1 << 63).to_bytes(8, "little") + b"\0\0\0\0\0"),
        (GZIP, gzip.compress(b"x")[:-4] + b"\xff\xff\xff\xff"),
    ]
    for codec, packed in claims:
        tracemalloc.start()
        with pytest.raises(CorruptBatch):
            decompress(codec, packed, 64 * MIB)
        peak_bytes = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak_bytes < MIB


def test_the_librarys_error_for_a_full_output_is_unchanged():
    """`_is_output_full` depends on the library's text: a release that changes it fails here."""
    for library in (cramjam.gzip, cramjam.lz4, cramjam.zstd):
        with pytest.raises(cramjam.DecompressionError) as error:
            library.decompress_into(library.compress(DATA), bytearray(1000))
        assert compression._is_output_full(error.value)


def test_another_thread_runs_while_a_batch_is_opened():
    """Decompression releases the GIL, so that a pool thread does not block the loop."""
    packed = compress(ZSTD, bytes(64 * MIB))
    worker = threading.Thread(target=decompress, args=(ZSTD, packed, 64 * MIB))
    turns = 0
    worker.start()
    while worker.is_alive():
        turns += 1
    assert turns > 1000
