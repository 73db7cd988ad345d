"""A small real disk for a test: a tmpfs or an ext4 on a loop device, in a mount namespace.

The namespace belongs to this test process: only it and its children see the mounts, and the kernel
removes them when it ends. Needs root.
"""

import ctypes
import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

CLONE_NEWNS = 0x00020000
MIB = 1024 * 1024
BLOCK_BYTES = 4096


@cache
def _enter_namespace() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS):
        number = ctypes.get_errno()
        raise OSError(number, f"unshare: {os.strerror(number)}")
    _run("mount", "--make-rprivate", "/")


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=60)


def can_mount(kind: str) -> str:
    """Return why this machine cannot mount a small disk of that kind; "" if it can."""
    if os.geteuid():
        return "mounting needs root"
    if kind == "ext4" and not Path("/dev/loop-control").exists():
        return "no loop devices"
    return ""


@contextmanager
def small_disk(directory: Path, kind: str, size_bytes: int) -> Iterator[Path]:
    """Mount an empty disk of `kind` (tmpfs, ext4) and yield its mount point."""
    _enter_namespace()
    where = directory / "disk"
    where.mkdir()
    if kind == "tmpfs":
        _run("mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs", str(where))
    else:
        image = directory / "disk.img"
        with image.open("wb") as file:
            file.truncate(size_bytes)
        _run("mkfs.ext4", "-q", "-m", "0", str(image))
        _run("mount", "-o", "loop", str(image), str(where))
    try:
        yield where
    finally:
        _run("umount", "--lazy", str(where))


def fill(directory: Path, name: str, bytes_left: int) -> Path:
    """Create a file that leaves `bytes_left` bytes of the disk free; return its path.

    The file system needs some space itself, so one file cannot take all that it reports as free.
    """
    path = directory / name
    with path.open("wb", buffering=0) as file:
        status = os.statvfs(directory)
        goal = max(0, status.f_bavail * status.f_frsize - bytes_left)
        size, step = 0, MIB
        while step >= BLOCK_BYTES and size < goal:
            piece = min(step, goal - size)
            try:
                os.posix_fallocate(file.fileno(), size, piece)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                step //= 2
            else:
                size += piece
    return path


def remount(where: Path, options: str) -> None:
    """Change the mount options, such as `ro` and `rw`."""
    _run("mount", "-o", f"remount,{options}", str(where))
