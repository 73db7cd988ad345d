"""`barnabas` whose file calls on the loop are watched: what tests start as a broker's process.

Used as `python -m tests.support.guarded_broker serve …`, in the place of `client.cli`. Each file
call that `storage.files.filesystem.ON_THE_LOOP` does not allow there is written to standard error,
beginning with `loop_guard.MARK`; the broker goes on. With LOOP_GUARD_TRIAL in the environment it
makes one such call itself. With FAIL_ONCE="module:name module:Class.name …" each of these
functions raises `Injected` the first time it is called once the broker serves.
"""

import functools
import importlib
import inspect
import os
from typing import Any

from broker import server
from client.cli import main
from tests.support import loop_guard

_serve = server.Broker.serve


class Injected(Exception):
    """What nobody expected."""


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
        if not failed and loop_guard.GuardedFileSystem.serving_count:
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
    server.OsFileSystem = loop_guard.GuardedFileSystem  # type: ignore[misc]
    server.Broker.serve = _serve_watched  # type: ignore[method-assign]
    loop_guard.report = _write
    loop_guard.guard_work()
    for place in os.environ.get("FAIL_ONCE", "").split():
        _fail_once(place)
    main()
