"""Where the source calls the file system seam, and which of these places a run has reached.

`static_sites` reads the source: calls of the seam's methods on what is called a file system or a
file there. `Recording` is a disk in memory that notes from where it is called. What stands in the
first and not in the second is code that no fault has ever met.
"""

import ast
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tests.support.memory_filesystem import MemoryFileSystem

ROOT = Path(__file__).parents[2]
PACKAGES = ("storage", "broker")
# The interface and what implements it; an overlay is never below a life.
THE_SEAM = tuple(f"storage/files/{name}.py" for name in ("filesystem", "os_filesystem", "overlay"))
OF_FILE_SYSTEMS = frozenset(
    ("open", "list", "mkdir", "rename", "unlink", "rmdir", "sync_directory", "read", "replace",
     "lock", "size")
)  # fmt: skip
OF_FILES = frozenset(
    ("pread", "pread_nowait", "pull", "pwrite", "fdatasync", "truncate", "map", "close")
)
# What files are called in the source, and what hands one out.
FILES = frozenset(("file", "source", "target", "open", "get()", "file()", "open()"))

Site = tuple[str, int, int]  # path, first and last line


def static_sites() -> dict[Site, str]:
    """Every call of the seam in the source: place -> what is called."""
    found: dict[Site, str] = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            name = str(path.relative_to(ROOT))
            if name not in THE_SEAM:
                for node in ast.walk(ast.parse(path.read_text())):
                    if isinstance(node, ast.Call) and _is_of_the_seam(node.func):
                        found[name, node.lineno, node.end_lineno or 0] = ast.unparse(node.func)
    return found


def _is_of_the_seam(called: ast.expr) -> bool:
    if not isinstance(called, ast.Attribute):
        return False
    owner = _last_name(called.value)
    if owner == "filesystem":
        return called.attr in OF_FILE_SYSTEMS
    return owner in FILES and called.attr in OF_FILES


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr.strip("_")
    if isinstance(node, ast.Name):
        return node.id.strip("_")
    if isinstance(node, ast.Call):
        return _last_name(node.func) + "()"
    return ""


def noting(reached: set[tuple[str, int]]) -> Callable[..., Any]:
    """A `MemoryFileSystem._enter` that notes the nearest caller outside of the tests' support."""
    enter = MemoryFileSystem._enter

    def note(
        self: MemoryFileSystem, op: str, path: str, writes_bytes: int = 0
    ) -> tuple[BaseException, int] | None:
        frame = sys._getframe(1)
        while frame.f_back is not None and "/tests/" in frame.f_code.co_filename:
            frame = frame.f_back
        reached.add((frame.f_code.co_filename, frame.f_lineno))
        return enter(self, op, path, writes_bytes)

    return note


class Recording(MemoryFileSystem):
    """Notes the nearest caller outside of the tests in `reached`: (path, line)."""

    def __init__(self, reached: set[tuple[str, int]]) -> None:
        super().__init__()
        self._enter = noting(reached).__get__(self)  # type: ignore[method-assign]


def unreached(sites: Iterable[Site], reached: set[tuple[str, int]]) -> list[Site]:
    """The places of `sites` that no call came from."""
    lines = {(str(Path(path).relative_to(ROOT)), line) for path, line in reached if _is_ours(path)}
    return [
        (path, first, last)
        for path, first, last in sites
        if not any((path, line) in lines for line in range(first, last + 1))
    ]


def _is_ours(path: str) -> bool:
    return path.startswith(str(ROOT))
