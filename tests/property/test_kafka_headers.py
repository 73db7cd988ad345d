"""Headers of every API and version against kio, which generates them from Kafka's schemas."""

import importlib
import io
import re
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.serial import entity_reader, entity_writer

from protocol.dialect import RequestHeader
from protocol.kafka.codec import encode_message
from protocol.kafka.dialect import KafkaDialect
from protocol.wire import message_spec
from tests.support.message_fields import api_messages, messages
from tests.support.served import Served
from tests.support.thorough import examples, some_versions

BY_KEY = {(spec.api_key, spec.kind): cls for cls in api_messages() if (spec := message_spec(cls))}
SERVED = {
    key: Served(key, *message_spec(cls).versions, request=cls, response=BY_KEY[key, "response"])
    for (key, kind), cls in BY_KEY.items()
    if kind == "request"
}
CHOSEN = some_versions(
    (api.request, version)
    for api in SERVED.values()
    for version in range(api.min_version, api.max_version + 1)
)
CASES = [
    pytest.param(api, version, id=f"{api.request.__name__}-{version}")
    for api in SERVED.values()
    for cls, version in CHOSEN
    if cls is api.request
]
FEW = settings(max_examples=examples(5))


def kio_header(cls: type[Any], version: int) -> type[Any]:
    """Return kio's header class for this version of a message."""
    name = re.sub(r"(?<!^)(?=[A-Z])", "_", re.sub(r"Request$|Response$", "", cls.__name__)).lower()
    kind = message_spec(cls).kind
    module = importlib.import_module(f"kio.schema.{name}.v{version}.{kind}")
    header: type[Any] = getattr(module, cls.__name__).__header_schema__
    return header


@pytest.mark.parametrize(("api", "version"), CASES)
@FEW
@given(data=st.data())
def test_requests_with_headers_of_kio(api: Served, version: int, data: st.DataObject) -> None:
    body = data.draw(messages(api.request, version))
    client_id = data.draw(st.none() | st.text(max_size=20))
    header_class = kio_header(api.request, version)
    frame = io.BytesIO()
    entity_writer(header_class)(
        frame,
        header_class(
            request_api_key=api.api_key,
            request_api_version=version,
            correlation_id=77,
            client_id=client_id,
        ),
    )
    frame.write(encode_message(body, version))
    dialect = KafkaDialect(SERVED)
    decoded = dialect.decode_request(memoryview(frame.getvalue()))
    assert decoded.header == RequestHeader(api.api_key, version, 77, client_id)
    assert encode_message(decoded.body, version) == encode_message(body, version)
    assert dialect.trailing_bytes_ignored == 0


@pytest.mark.parametrize(("api", "version"), CASES)
@FEW
@given(data=st.data())
def test_headers_of_responses_read_by_kio(api: Served, version: int, data: st.DataObject) -> None:
    body = data.draw(messages(api.response, version))
    parts = KafkaDialect(SERVED).encode_response(
        RequestHeader(api.api_key, version, 77, None), body
    )
    frame = b"".join(parts)
    assert struct.unpack_from(">i", frame) == (len(frame) - 4,)
    header, size = entity_reader(kio_header(api.response, version))(frame, 4)
    assert header.correlation_id == 77
    assert frame[4 + size :] == encode_message(body, version)
