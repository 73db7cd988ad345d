"""The syntax trees of the house's files, parsed once for all rules.

Half a million nodes live as long as the process. The garbage collector would walk over them again
and again, and that took three quarters of the time of the rules; `gc.freeze` puts them aside.
"""

import ast
import gc
from functools import cache
from pathlib import Path


@cache
def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def tree_of(path: Path) -> ast.Module:
    collects = gc.isenabled()
    gc.disable()
    try:
        tree = ast.parse(text_of(path), filename=str(path))
    finally:
        if collects:
            gc.enable()
    gc.freeze()
    return tree
