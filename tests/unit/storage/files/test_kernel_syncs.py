"""fdatasyncs of the kernel: they end, each is told once, and what is refused is said so."""

import errno
import os
import select
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from storage.files import kernel_syncs as module
from storage.files.kernel_syncs import BEGUN_MAX, TAKEN_MAX, KernelSyncs, kernel_syncs


@pytest.fixture
def syncs() -> Iterator[KernelSyncs]:
    made = kernel_syncs()
    if made is None:
        pytest.skip("this kernel runs no fdatasyncs")
    yield made
    made.close()


def taken(syncs: KernelSyncs) -> list[tuple[int, int]]:
    found = []
    while syncs.under_way:
        assert select.select([syncs], [], [], 10)[0], "the kernel says when one has ended"
        found += syncs.take()
    return found


def test_each_sync_is_told_once_also_of_a_file_that_is_closed_meanwhile(
    syncs: KernelSyncs, tmp_path: Path
) -> None:
    for number in range(20):
        fd = os.open(tmp_path / str(number), os.O_RDWR | os.O_CREAT)
        os.pwrite(fd, b"data", 0)
        assert syncs.begin([(2**63 + number, fd)])
        os.close(fd)
    assert sorted(taken(syncs)) == [(2**63 + number, 0) for number in range(20)]
    assert syncs.take() == []


def test_more_than_one_call_takes_are_all_told(syncs: KernelSyncs, tmp_path: Path) -> None:
    fd = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    count = TAKEN_MAX + 1
    begun = sum(syncs.begin([(number, fd)]) for number in range(count))
    assert begun == count
    while begun and select.select([syncs], [], [], 10)[0]:
        some = syncs.take()
        assert len(some) <= TAKEN_MAX
        begun -= len(some)
    assert (begun, syncs.under_way) == (0, 0)
    os.close(fd)


def test_no_more_are_begun_than_the_kernel_was_asked_for(
    syncs: KernelSyncs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SYNCS_MAX", 2)
    fd = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    assert [syncs.begin([(number, fd)]) for number in range(3)] == [1, 1, 0]
    assert len(taken(syncs)) == 2
    assert syncs.begin([(3, fd)])
    assert taken(syncs) == [(3, 0)]
    os.close(fd)


def test_what_cannot_be_synced_is_refused_and_a_closed_file_is_not_the_kernels_fault(
    syncs: KernelSyncs,
) -> None:
    assert not syncs.begin([(1, 10_000_000)])
    assert not syncs.is_refused
    reading, writing = os.pipe()
    assert not syncs.begin([(2, writing)])  # EINVAL, as of a kernel before 4.18
    assert syncs.is_refused
    assert not syncs.under_way
    os.close(reading)
    os.close(writing)


def test_an_error_of_the_disk_is_told_as_its_number(
    syncs: KernelSyncs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the kernel writes it into the event: the negative errno."""

    class Library:
        def syscall(self, number: object, *arguments: object) -> int:
            module._EVENT.pack_into(syncs._events, 0, 7, 0, -errno.EIO, 0)
            return 1

    syncs.under_way = 1
    with monkeypatch.context() as patched:
        patched.setattr(module, "_LIBC", Library())
        assert syncs.take() == [(7, errno.EIO)]
    assert not syncs.under_way


def test_another_processor_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.platform, "machine", lambda: "pdp11")
    assert kernel_syncs() is None


class Refusing:
    """The C library, but for one call that a filter of system calls refuses."""

    def __init__(self, refused: int) -> None:
        self.refused = refused
        self.made: list[int] = []

    def syscall(self, number: Any, *arguments: Any) -> int:
        self.made.append(number.value)
        return -1 if number.value == self.refused else int(LIBC.syscall(number, *arguments))


LIBC = module._LIBC


@pytest.mark.parametrize("which", ["setup", "getevents"])
def test_a_refused_call_leaves_nothing_behind(
    syncs: KernelSyncs, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    """Also io_getevents: what has ended would never be told."""
    setup, destroy, getevents, _ = module._CALLS[module.platform.machine()]
    library = Refusing(setup if which == "setup" else getevents)
    before = len(os.listdir("/proc/self/fd"))
    with monkeypatch.context() as patched:
        patched.setattr(module, "_LIBC", library)
        assert kernel_syncs() is None
    assert library.made == ([setup] if which == "setup" else [setup, getevents, destroy])
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_process_without_descriptors_has_none_and_keeps_no_context(
    syncs: KernelSyncs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    setup, destroy, *_ = module._CALLS[module.platform.machine()]
    library = Refusing(-1)
    with monkeypatch.context() as patched:
        patched.setattr(module, "_LIBC", library)
        patched.setattr(module.os, "eventfd", refuse)
        assert kernel_syncs() is None
    assert library.made == [setup, destroy]


def test_a_deleted_file_is_synced_like_any_other(syncs: KernelSyncs, tmp_path: Path) -> None:
    names = [tmp_path / str(number) for number in range(3)]
    descriptors = [os.open(name, os.O_RDWR | os.O_CREAT) for name in names]
    for number, fd in enumerate(descriptors):
        os.pwrite(fd, bytes(100_000), 0)
        assert syncs.begin([(number, fd)])
        names[number].unlink()
    assert sorted(taken(syncs)) == [(0, 0), (1, 0), (2, 0)]
    for fd in descriptors:
        os.close(fd)


def test_many_are_begun_by_one_call_and_those_behind_a_bad_one_are_not(
    syncs: KernelSyncs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fd = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    library = Refusing(-1)
    with monkeypatch.context() as patched:
        patched.setattr(module, "_LIBC", library)
        assert syncs.begin([(number, fd) for number in range(BEGUN_MAX)]) == BEGUN_MAX
        assert len(library.made) == 1
        assert syncs.begin([(100 + number, fd) for number in range(BEGUN_MAX + 5)]) == BEGUN_MAX + 5
        assert len(library.made) == 3
    wanted = [(200, fd), (201, fd), (202, 10_000_000), (203, fd)]
    assert syncs.begin(wanted) == 2
    assert not syncs.is_refused
    numbers = [*range(BEGUN_MAX), *range(100, 100 + BEGUN_MAX + 5), 200, 201]
    assert sorted(taken(syncs)) == [(number, 0) for number in numbers]
    os.close(fd)
