"""Loads modules of the product with a bug in their source. No file is written.

`plant` puts a finder before Python's own. It finds the modules of the bug where they are, and gives
them a loader that compiles the changed text: neither the file's own text nor its cached bytecode is
used. The process must not have imported any of these modules yet.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType

from tests.simulation.mutants.mutant import Mutant, module_of


class _Loader(SourceFileLoader):
    """Loads one module from a text in place of its file's."""

    def __init__(self, fullname: str, path: str, source: str) -> None:
        super().__init__(fullname, path)
        self._source = source

    def get_code(self, fullname: str) -> CodeType:
        """Return the code of the changed text."""
        code: CodeType = self.source_to_code(self._source.encode(), self.get_filename(fullname))
        return code


class Finder(MetaPathFinder):
    """Finds the modules that a bug changes."""

    def __init__(self, mutant: Mutant) -> None:
        self._sources = {module_of(file): mutant.source(file) for file in mutant.files}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return where a changed module is; None for all others."""
        source = self._sources.get(fullname)
        if source is None:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        assert spec is not None, f"{fullname} is a module of the product"
        assert spec.origin is not None, f"{fullname} has a file"
        spec.loader = _Loader(fullname, spec.origin, source)
        return spec


def plant(mutant: Mutant) -> None:
    """Load the product with this bug from now on. Raises DoesNotApply."""
    finder = Finder(mutant)
    early = [name for name in map(module_of, mutant.files) if name in sys.modules]
    assert not early, f"imported before the bug was there: {early}"
    sys.meta_path.insert(0, finder)
