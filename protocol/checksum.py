"""CRC-32C, from the extension module of the package crc32c, without the package around it.

The package's `__init__` reads the version of its own distribution and builds a command line, for
which it imports 62 modules of the standard library. No other part of the broker needs them: they
are 3.5 MiB and a tenth of the start.
"""

from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import Any, Final

Crc = Callable[..., int]


def _extension() -> Any:
    """Return the extension module; the package, if it has none of this name any more."""
    package = find_spec("crc32c")  # finds, and runs nothing
    inside = None if package is None else package.submodule_search_locations
    spec = PathFinder.find_spec("crc32c._crc32c", inside)
    if spec is None or spec.loader is None:
        import crc32c

        return crc32c
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# Called with the bytes, the value so far, and whether to let other threads run.
crc32c: Final[Crc] = _extension().crc32c
