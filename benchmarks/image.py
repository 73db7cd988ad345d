"""What the image weighs: size, start, stop and memory, of containers without an engine.

    python -m benchmarks.image [STARTS]

builds the image of this tree and prints one line for each figure. Needs what the tests of the image
need (buildah, mmdebstrap, root). A start is the time from the first process to the line that test
containers wait for, on an empty volume; memory is the resident set then. Medians, and the extremes.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from tests.support.image import Container, Image, missing

MIB = 1 << 20
RUNNING = "Transitioning from RECOVERY to RUNNING"
STARTS = 5


def bytes_below(path: Path) -> int:
    """Return the bytes of all files in a directory."""
    return sum(one.lstat().st_size for one in path.rglob("*") if one.is_file() or one.is_symlink())


def resident_bytes(pid: int) -> int:
    """Return the resident set of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (line,) = (one for one in lines if one.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024


def one_life(image: Image, place: Path) -> tuple[float, float, int]:
    """Start and stop a container; return the seconds of both, and its memory between them."""
    container = Container(image, place)
    began = time.monotonic()
    with container:
        container.wait_for(RUNNING)
        started = time.monotonic()
        memory = resident_bytes(container.pid)
        ending = time.monotonic()
        container.stop()
        return started - began, time.monotonic() - ending, memory


def told(name: str, found: list[float], unit: str) -> str:
    """Return a figure as a line."""
    return f"{name:<32}{median(found):8.2f} {unit}  ({min(found):.2f} to {max(found):.2f})"


def main() -> None:
    """Measure, and print."""
    if reason := missing():
        sys.exit(f"the image cannot be built here: {reason}")
    count = int(sys.argv[1]) if len(sys.argv) > 1 else STARTS
    with tempfile.TemporaryDirectory() as folder:
        image = Image(Path(folder) / "storage").make_base().build()
        try:
            added = bytes_below(image.files / "usr/local/lib/barnabas") / MIB
            lives = [one_life(image, Path(folder) / str(number)) for number in range(count)]
        finally:
            image.remove()
    sys.stdout.write(f"{'added to the Python image':<32}{added:8.1f} MiB\n")
    sys.stdout.write(told("start to running", [one[0] for one in lives], "s") + "\n")
    sys.stdout.write(told("stop by SIGTERM", [one[1] for one in lives], "s") + "\n")
    sys.stdout.write(told("resident memory", [one[2] / MIB for one in lives], "MiB") + "\n")


if __name__ == "__main__":
    main()
