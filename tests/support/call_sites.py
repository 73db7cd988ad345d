"""Where the source calls the file system interface, and which of these call sites a run reached.

`static_sites` reads the source: calls of the interface's methods on names that mean a file system
or a file there. `Recording` is a disk in memory that notes its call sites. A site in the first
but not in the second is code that no injected fault has reached.
"""

import ast
import sys
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

from tests.support.memory_filesystem import MemoryFileSystem

ROOT = Path(__file__).parents[2]
PACKAGES = ("storage", "broker")
# The interface and its implementations; lives never run on an overlay.
THE_SEAM = tuple(f"storage/files/{name}.py" for name in ("filesystem", "os_filesystem", "overlay"))
OF_FILE_SYSTEMS = frozenset(
    ("open", "list", "mkdir", "rename", "unlink", "rmdir", "sync_directory", "read", "replace",
     "lock", "size")
)  # fmt: skip
OF_FILES = frozenset(
    ("pread", "pread_nowait", "pull", "pwrite", "fdatasync", "truncate", "map", "close")
)
# The names that the source gives to files, and the calls that return one.
FILES = frozenset(("file", "source", "target", "open", "get()", "file()", "open()"))

Site = tuple[str, int, int]  # path, first and last line


@cache
def static_sites() -> dict[Site, str]:
    """Return every call of the interface in the source: site -> name of the method."""
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
    """Return a `MemoryFileSystem._enter` that notes the nearest caller outside tests.support."""
    enter = MemoryFileSystem._enter

    def note(
        self: MemoryFileSystem, op: str, path: str, *args: int, **options: bool
    ) -> tuple[BaseException, int] | None:
        frame = sys._getframe(1)
        while frame.f_back is not None and "/tests/" in frame.f_code.co_filename:
            frame = frame.f_back
        reached.add((frame.f_code.co_filename, frame.f_lineno))
        return enter(self, op, path, *args, **options)

    return note


class Recording(MemoryFileSystem):
    """A disk that notes the nearest caller outside the tests in `reached`: (path, line)."""

    def __init__(self, reached: set[tuple[str, int]]) -> None:
        super().__init__()
        self._enter = noting(reached).__get__(self)  # type: ignore[method-assign]


def unreached(sites: Iterable[Site], reached: set[tuple[str, int]]) -> list[Site]:
    """Return those of `sites` that made no call."""
    lines = {(str(Path(path).relative_to(ROOT)), line) for path, line in reached if _is_ours(path)}
    return [
        (path, first, last)
        for path, first, last in sites
        if not any((path, line) in lines for line in range(first, last + 1))
    ]


def _is_ours(path: str) -> bool:
    return path.startswith(str(ROOT))
