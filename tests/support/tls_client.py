"""A minimal Kafka client over TLS: `RawClient` whose socket is encrypted."""

import ssl

from tests.support.raw_client import TIMEOUT_S, RawClient


class TlsClient(RawClient):
    """Connects to a listener with TLS; `context` checks it, and may hold a certificate."""

    def __init__(
        self, host: str, port: int, context: ssl.SSLContext, timeout_s: float = TIMEOUT_S
    ) -> None:
        super().__init__(host, port, timeout_s)
        try:
            self.socket = context.wrap_socket(self.socket, server_hostname="localhost")
        except BaseException:
            self.socket.close()
            raise
