"""The cost of the codecs: microseconds for the messages of the data path, one core.

    python -m benchmarks.bench_codec [--rounds N]

Every figure is the best of many short rounds, without the influence of other work on the machine.
One topic, one partition, a batch of 200 bytes; `compile` is the cost of the first use of a codec,
once in a process.
"""

import argparse
import sys
import timeit
from collections.abc import Callable
from typing import Any

from benchmarks import interpreter
from broker.handlers import HANDLERS
from protocol.api_keys import ApiKey
from protocol.dialect import RequestHeader
from protocol.kafka.codec import encode_message
from protocol.kafka.decoder import compile_decoder
from protocol.kafka.dialect import KafkaDialect
from protocol.kafka.encoder import compile_encoder
from protocol.kafka.schema import read_layout
from protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from protocol.wire import Buffer

CALLS = 1_000
TOPIC = "page_visits"
TOPIC_ID = bytes(range(16))
BATCH = bytes(200)

SERVED = {int(row.api_key): row for row in HANDLERS}

PRODUCE = ProduceRequest(
    acks=-1,
    timeout_ms=30_000,
    topic_data=[
        TopicProduceData(
            name=TOPIC,
            topic_id=TOPIC_ID,
            partition_data=[PartitionProduceData(index=3, records=BATCH)],
        )
    ],
)
FETCH = FetchRequest(
    max_wait_ms=500,
    min_bytes=1,
    topics=[
        FetchTopic(
            topic=TOPIC,
            topic_id=TOPIC_ID,
            partitions=[FetchPartition(partition=3, fetch_offset=10**9, partition_max_bytes=2**20)],
        )
    ],
)


def produce_response() -> ProduceResponse:
    """Build an answer as the handler does: building is part of the cost."""
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=TOPIC,
                topic_id=TOPIC_ID,
                partition_responses=[
                    PartitionProduceResponse(index=3, base_offset=10**9, log_start_offset=0)
                ],
            )
        ]
    )


def fetch_response(records: Buffer) -> FetchResponse:
    """Build an answer with these records."""
    return FetchResponse(
        responses=[
            FetchableTopicResponse(
                topic=TOPIC,
                topic_id=TOPIC_ID,
                partitions=[
                    PartitionData(
                        partition_index=3,
                        high_watermark=10**9,
                        last_stable_offset=10**9,
                        log_start_offset=0,
                        aborted_transactions=None,
                        records=records,
                    )
                ],
            )
        ]
    )


def frame_of(api_key: int, version: int, request: Any, *, flexible: bool) -> memoryview:
    """Return a request frame as it arrives, in a bytearray of its own."""
    header = encode_header(api_key, version) + (b"\x00" if flexible else b"")
    return memoryview(bytearray(header + encode_message(request, version)))


def encode_header(api_key: int, version: int) -> bytes:
    """Return a request header v1 of the client `rdkafka`."""
    return b"".join(
        (api_key.to_bytes(2), version.to_bytes(2), (77).to_bytes(4), b"\x00\x07rdkafka")
    )


def cases() -> list[tuple[str, Callable[[], Any]]]:
    """Return the measurements: a name and a call each."""
    dialect = KafkaDialect(SERVED)
    decode, encode = dialect.decode_request, dialect.encode_response
    found: list[tuple[str, Callable[[], Any]]] = []
    for version in (7, 9, 11, 13):
        frame = frame_of(ApiKey.PRODUCE, version, PRODUCE, flexible=version >= 9)
        found.append((f"decode Produce {version} request", lambda frame=frame: decode(frame)))
    for version in (11, 12, 16, 18):
        frame = frame_of(ApiKey.FETCH, version, FETCH, flexible=version >= 12)
        found.append((f"decode Fetch {version} request", lambda frame=frame: decode(frame)))
    answer = produce_response()
    found.append(("build Produce response", produce_response))
    for version in (7, 9, 11, 13):
        header = RequestHeader(ApiKey.PRODUCE, version, 77, None)
        found.append(
            (f"encode Produce {version} response", lambda header=header: encode(header, answer))
        )
    small, large = fetch_response(BATCH), fetch_response(memoryview(bytes(64 * 1024)))
    found.append(("build Fetch response", lambda: fetch_response(BATCH)))
    for version in (11, 12, 16, 18):
        header = RequestHeader(ApiKey.FETCH, version, 77, None)
        found.append(
            (f"encode Fetch {version} response", lambda header=header: encode(header, small))
        )
        found.append(
            (
                f"encode Fetch {version} response, 64 KiB",
                lambda header=header: encode(header, large),
            )
        )
    return found


def compile_cases() -> list[tuple[str, Callable[[], Any]]]:
    """Return the codecs whose compilation is measured."""
    return [
        ("compile Fetch 18 decoder", lambda: compile_decoder(read_layout(FetchRequest, 18), "t")),
        ("compile Fetch 18 encoder", lambda: compile_encoder(read_layout(FetchResponse, 18), "t")),
    ]


def microseconds(call: Callable[[], Any], calls: int, rounds: int) -> float:
    """Return the best time of one call."""
    return min(timeit.repeat(call, number=calls, repeat=rounds)) / calls * 1e6


def main() -> None:
    """Measure and print a table."""
    interpreter.announce()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=150)
    rounds = parser.parse_args().rounds
    print(f"Python {sys.version.split()[0]}; best of {rounds} rounds, microseconds a call")
    for name, call in cases():
        print(f"{name:40} {microseconds(call, CALLS, rounds):8.2f}")
    for name, call in compile_cases():
        print(f"{name:40} {microseconds(call, 10, rounds):8.0f}")


if __name__ == "__main__":
    main()
