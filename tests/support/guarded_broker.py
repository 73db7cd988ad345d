"""`barnabas` with its file calls on the loop watched: the broker process that tests start.

Run it as `python -m tests.support.guarded_broker serve …` instead of `client.cli`. It writes each
file call that `storage.files.filesystem.ON_THE_LOOP` does not allow on the loop to standard error,
in a line that starts with `loop_guard.MARK`, and continues. With LOOP_GUARD_TRIAL in the
environment it makes one such call itself. With FAIL_ONCE="module:name module:Class.name …" each of
these functions raises `Injected` on its first call after the broker has started.
"""

import functools
import importlib
import inspect
import os
from typing import Any

from broker import server
from broker.lifecycle import environment
from client.cli import main
from tests.support import loop_guard

_serve = server.Broker.serve


class Injected(Exception):
    """An unexpected error."""


def _fail_once(place: str) -> None:
    module_name, _, names = place.partition(":")
    *owners, name = names.split(".")
    holder: Any = importlib.import_module(module_name)
    for owner in owners:
        holder = getattr(holder, owner)
    function = getattr(holder, name)
    failed = False

    def fails() -> None:
        nonlocal failed
        if not failed and loop_guard.is_one_serving():
            failed = True
            raise Injected(place)

    if inspect.iscoroutinefunction(function):

        async def replaced(*args: Any, **options: Any) -> Any:
            fails()
            return await function(*args, **options)
    else:

        def replaced(*args: Any, **options: Any) -> Any:
            fails()
            return function(*args, **options)

    setattr(holder, name, functools.wraps(function)(replaced))


async def _serve_watched(broker: Any) -> bool:
    filesystem = broker._assembly.services.logs.directory.filesystem
    filesystem.serving = True
    if "LOOP_GUARD_TRIAL" in os.environ:
        filesystem.free_bytes("/")
    return await _serve(broker)


def _write(violation: loop_guard.Violation) -> None:
    os.write(2, f"\n{violation}\n".encode())  # at once: the process may be killed


if __name__ == "__main__":
    environment.OsFileSystem = loop_guard.GuardedFileSystem  # type: ignore[misc]
    server.Broker.serve = _serve_watched  # type: ignore[method-assign]
    loop_guard.report = _write
    loop_guard.guard_work()
    for place in os.environ.get("FAIL_ONCE", "").split():
        _fail_once(place)
    main()
