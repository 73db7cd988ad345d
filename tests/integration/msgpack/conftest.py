"""One broker with both listeners, and the address of its msgpack port."""

from collections.abc import Iterator

import pytest

from tests.support.broker_process import BrokerProcess, free_port

FRAME_DEADLINE_MS = 1500


class Both(BrokerProcess):
    """A broker whose second listener speaks msgpack."""

    msgpack_port: int


@pytest.fixture(scope="package")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    kafka, msgpack = free_port(), free_port()
    listeners = f"PLAINTEXT://127.0.0.1:{kafka},MSGPACK://127.0.0.1:{msgpack}"
    settings = {
        "listeners": listeners,
        "barnabas.frame.deadline.ms": str(FRAME_DEADLINE_MS),
        "message.max.bytes": str(8 << 20),
    }
    running = Both(tmp_path_factory.mktemp("msgpack") / "data", settings, port=kafka)
    running.msgpack_port = msgpack
    with running:
        yield running
        assert running.stop() == 0
