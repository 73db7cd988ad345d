"""A listener with scripted answers: right, wrong, late, or none.

`answers` maps a request class to a function of the request, which returns a response message, bytes
to send as they are, or None to close the connection. It serves all versions of those classes.

It runs in a thread, because the client of the commands blocks. `msgpack_peer` answers the asyncio
client on the same loop, in the other dialect.
"""

from __future__ import annotations

import socket
import struct
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Self

from protocol.kafka.dialect import KafkaDialect
from protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
)
from protocol.wire import message_spec
from tests.support.served import Served

Answers = Mapping[type[Any], Callable[[Any], Any]]


class ScriptedBroker:
    """A broker that serves one connection at a time, each until the client closes it."""

    def __init__(
        self,
        answers: Answers,
        *,
        versions: Mapping[type[Any], tuple[int, int]] = {},
        features: Mapping[str, int] = {},
    ):
        self.requests: list[Any] = []
        self.headers: list[Any] = []
        self._answers = {ApiVersionsRequest: self._api_versions, **answers}
        self._versions = dict(versions)
        self._features = dict(features)
        self._dialect = KafkaDialect(
            {message_spec(cls).api_key: self._served(cls) for cls in self._answers}
        )
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._run, daemon=True)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(10)
        self._listener.close()

    def _served(self, cls: type[Any]) -> Served:
        spec = message_spec(cls)
        oldest, newest = self._versions.get(cls, spec.versions)
        response = getattr(sys.modules[cls.__module__], cls.__name__.replace("Request", "Response"))
        return Served(spec.api_key, oldest, newest, cls, response)

    def _api_versions(self, _request: Any) -> Any:
        keys = [
            ApiVersion(
                api_key=message_spec(cls).api_key,
                min_version=self._served(cls).min_version,
                max_version=self._served(cls).max_version,
            )
            for cls in self._answers
        ]
        asked = self.headers[-1].api_version
        served = self._served(ApiVersionsRequest)
        code = 0 if served.min_version <= asked <= served.max_version else 35
        levels = [
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in self._features.items()
        ]
        return ApiVersionsResponse(
            error_code=code,
            api_keys=keys,
            finalized_features_epoch=1 if levels else -1,
            finalized_features=levels,
        )

    def _run(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with suppress(OSError), connection, connection.makefile("rb") as stream:
                connection.settimeout(10)
                while self._serve(connection, stream):
                    pass

    def _serve(self, connection: socket.socket, stream: Any) -> bool:
        head = stream.read(4)
        if len(head) < 4:
            return False
        frame = stream.read(struct.unpack(">i", head)[0])
        request = self._dialect.decode_request(memoryview(bytearray(frame)))
        self.requests.append(request.body)
        self.headers.append(request.header)
        answer = self._answers[type(request.body)](request.body)
        if answer is None:
            return False
        if not isinstance(answer, bytes):
            answer = b"".join(self._dialect.encode_response(request.header, answer))
        connection.sendall(answer)
        return True
