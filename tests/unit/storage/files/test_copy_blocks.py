"""Blocks are used again when nobody has a view of them, and not before."""

import random
from collections import deque
from pathlib import Path

import pytest

from storage.files.copy_blocks import BLOCK_BYTES, BLOCKS_MAX, SHARED_BYTES_MIN, CopyBlocks
from storage.files.os_filesystem import OsFileSystem
from storage.segments import cold


def block_of(view: object) -> object:
    assert type(view) is memoryview
    return view.obj


def test_a_block_is_used_again_when_its_last_view_is_gone() -> None:
    blocks = CopyBlocks()
    view = blocks.take(SHARED_BYTES_MIN)
    block = block_of(view)
    part = view[5:].cast("b")
    del view
    assert block_of(blocks.take(BLOCK_BYTES)) is not block
    del part
    assert any(block_of(blocks.take(BLOCK_BYTES)) is block for _ in range(2))


def test_a_block_that_is_kept_is_not_written() -> None:
    """At most some are kept; all others have memory of their own."""
    blocks = CopyBlocks()
    views = [blocks.take(BLOCK_BYTES) for _ in range(BLOCKS_MAX + 3)]
    for number, view in enumerate(views):
        view[:] = bytes([number]) * BLOCK_BYTES
    assert [view[7] for view in views] == list(range(len(views)))
    assert [type(view) for view in views] == [memoryview] * BLOCKS_MAX + [bytearray] * 3


@pytest.mark.parametrize("size", [BLOCK_BYTES + 1, 3 * BLOCK_BYTES])
def test_other_sizes_have_memory_of_their_own(size: int) -> None:
    taken = CopyBlocks().take(size)
    assert (type(taken), len(taken)) == (bytearray, size)


def test_any_order_of_takes_and_ends_keeps_each_content() -> None:
    dice = random.Random(3)
    blocks = CopyBlocks()
    held: deque[tuple[int, bytearray | memoryview]] = deque()
    for number in range(500):
        size = dice.choice((SHARED_BYTES_MIN, SHARED_BYTES_MIN + 9, BLOCK_BYTES))
        view = blocks.take(size)
        assert len(view) == size
        view[:8] = view[-8:] = number.to_bytes(8, "big")
        held.append((number, view[size // 2 :] if dice.random() < 0.5 else view))
        for _ in range(dice.randrange(3)):
            if held:
                kept, part = held.popleft()
                assert part[-8:] == kept.to_bytes(8, "big")
                del part


def test_copies_of_a_file(tmp_path: Path) -> None:
    content = random.Random(1).randbytes(3 * BLOCK_BYTES)
    file = OsFileSystem().open(str(tmp_path / "f"), create=True)
    file.pwrite(content, 0)
    copies = [file.pread_nowait(BLOCK_BYTES - 7, at) for at in range(0, len(content), BLOCK_BYTES)]
    for number, copy in enumerate(copies):
        at = number * BLOCK_BYTES
        assert copy == content[at : at + BLOCK_BYTES - 7]
    short = file.pread_nowait(BLOCK_BYTES, len(content) - SHARED_BYTES_MIN - 3)
    assert short == content[-SHARED_BYTES_MIN - 3 :]
    with cold.without_waiting(cold.Pulled()):  # whose readers use methods of bytes
        assert hasattr(cold.read(file, BLOCK_BYTES, 0), "find")
