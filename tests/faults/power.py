"""An ext4 file system on a loop device whose power can be cut.

The kernel's shutdown ioctl stops the file system as a loss of power would: unsynced data, and
what the journal holds in memory, are missing after the next mount. Mount options choose what a
crash leaves of an unsynced tail:

    lost    the defaults: neither data nor size arrived
    zeros   data=writeback,nodelalloc,commit=1: the size arrived, the data did not
    kept    data=ordered,nodelalloc,commit=1: what a journal commit included is there

Needs root and its own mount namespace: nothing is visible, or left behind, outside of it.
"""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

from tests.faults.faulty_filesystem import cut_power
from tests.support.patience import stretch

SHAPES = {
    "lost": "loop",
    "zeros": "loop,data=writeback,nodelalloc,commit=1",
    "kept": "loop,data=ordered,nodelalloc,commit=1",
}
IMAGE_BYTES = 256 * 1024 * 1024  # sparse


class Ext4:
    """A file system in a file, mounted beside it."""

    def __init__(self, directory: Path, shape: str) -> None:
        self.image = directory / "image"
        self.mountpoint = directory / "mount"
        self.options = SHAPES[shape]
        self.mountpoint.mkdir(parents=True)
        with self.image.open("wb") as file:
            file.truncate(IMAGE_BYTES)
        _run("mkfs.ext4", "-q", "-F", str(self.image))
        self.mount()

    def mount(self) -> None:
        """Mount it; the kernel replays the journal."""
        _run("mount", "-o", self.options, str(self.image), str(self.mountpoint))

    def cut(self) -> None:
        """Cut its power. Every process with open files on it gets EIO from now on."""
        cut_power(str(self.mountpoint))

    def unmount(self) -> None:
        """Unmount it. A killed process may take a moment to close its files."""
        deadline_s = time.monotonic() + 5
        while True:
            try:
                _run("umount", str(self.mountpoint))
                return
            except OSError:
                if time.monotonic() > deadline_s:
                    raise
                time.sleep(0.01)

    def remove(self) -> None:
        """Unmount, and free the disk space."""
        self.unmount()
        self.image.unlink()


def why_not() -> str:
    """Return why power cannot be cut here; empty if it can."""
    if os.geteuid() != 0:
        return "power cuts need root"
    script = (
        "set -e; d=$(mktemp -d); trap 'rm -rf $d' EXIT; truncate -s 16M $d/image; mkdir $d/mount;"
        "mkfs.ext4 -q -F $d/image; mount -o loop $d/image $d/mount; umount $d/mount"
    )
    command = ["unshare", "-m", "sh", "-c", script]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=30 * stretch(), check=False
        )
    except OSError as error:
        return f"power cuts need unshare: {error}"
    return f"no ext4 on a loop device: {done.stderr.strip()}" if done.returncode else ""


def _run(*command: str) -> None:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60 * stretch(), check=False
    )
    if done.returncode:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")
