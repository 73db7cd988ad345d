"""The checksum is that of the package, which is not imported for it."""

import subprocess
import sys

import crc32c as package
import pytest

from protocol.checksum import crc32c

CHECK = (
    "import sys, protocol.record_batch as found;"
    "print(found.crc32c(b'123456789'), 'crc32c' in sys.modules, 'argparse' in sys.modules)"
)


@pytest.mark.parametrize("found", [b"", b"123456789", b"\x00" * 32, bytes(range(256)) * 4_096])
def test_it_is_the_packages(found: bytes) -> None:
    assert crc32c(found) == crc32c(found, 0, 0) == package.crc32c(found)
    half = len(found) // 2
    assert crc32c(memoryview(found)[half:], crc32c(found[:half])) == crc32c(found)


def test_the_package_is_not_imported() -> None:
    done = subprocess.run([sys.executable, "-c", CHECK], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(0xE3069283), "False", "False"]
