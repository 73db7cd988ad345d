"""Errors that a user can act on, as Spark shows them: the cause first, without a Python trace.

Spark prints what a Python worker raises several times, in its log and in the driver's exception,
with the Python trace before the cause and Java's after it. The text of a BarnabasError stands on
its own, so its Python trace adds nothing; without it the cause is on the first line.

The switch is Spark's own: `spark.sql.execution.pyspark.udf.hideTraceback.enabled` sets the same
variable for all errors. It is set when such an error leaves a worker, which ends with it, so it
hides no other error. Outside a Spark worker only the inner frames are dropped.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

from pyspark_barnabas.wire.errors import BarnabasError

Class = TypeVar("Class", bound=type)

HIDE_TRACEBACK: Final = "SPARK_HIDE_TRACEBACK"


def plainly(kind: Class) -> Class:
    """Make the public methods of a class, which Spark calls, raise their errors without a trace."""
    for name, method in list(vars(kind).items()):
        if inspect.isfunction(method) and not name.startswith("_"):
            setattr(kind, name, _plain(method))
    return kind


def _plain(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(*arguments: Any, **named: Any) -> Any:
        try:
            return method(*arguments, **named)
        except BarnabasError as error:
            raise _bare(error) from None

    @functools.wraps(method)
    def generate(*arguments: Any, **named: Any) -> Iterator[Any]:
        try:
            yield from method(*arguments, **named)
        except BarnabasError as error:
            raise _bare(error) from None

    return generate if inspect.isgeneratorfunction(method) else call


def _bare(error: BarnabasError) -> BarnabasError:
    if _is_worker():
        os.environ[HIDE_TRACEBACK] = "1"
    return error.with_traceback(None)


def _is_worker() -> bool:
    """Whether Spark started this process: its main module belongs to PySpark."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name.startswith("pyspark.")
