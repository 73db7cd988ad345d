"""TLS over a transport of the simulated network, which behaves as uvloop's does.

It is asyncio's `SSLProtocol`, but for what uvloop's does otherwise:

- an end of TCP ends the connection at once, whether or not the protocol reads;
- a transport may be closed twice, and written to afterwards;
- a close drops what arrives from then on, also while the protocol does not read; it says its
  `close_notify` when everything is sent, and waits for the peer's;
- the socket is closed in the step in which all of that is over, and the protocol hears nothing of
  room to write meanwhile.
"""

from __future__ import annotations

import ssl
from asyncio.sslproto import SSLProtocol, SSLProtocolState, _SSLProtocolTransport
from typing import Final

READ_BYTES: Final = 256 * 1024
AGAIN: Final = (ssl.SSLWantReadError, ssl.SSLSyscallError)


class _Transport(_SSLProtocolTransport):
    """The transport of the broker's protocol; one of a killed process says nothing at its end."""

    def close(self) -> None:
        """Close once everything is sent; what is written from now on is dropped."""
        self._closed = True
        self._ssl_protocol._start_shutdown()

    def __del__(self) -> None:
        """Say nothing."""


class SimTls(SSLProtocol):
    """See the module."""

    def _get_app_transport(self) -> _Transport:
        if self._app_transport is None:
            self._app_transport = _Transport(self._loop, self)
            self._app_transport_created = True
        return self._app_transport

    def eof_received(self) -> None:
        """End: nothing more comes."""
        if self._state == SSLProtocolState.DO_HANDSHAKE:
            self._on_handshake_complete(ConnectionResetError)
            return
        if self._state == SSLProtocolState.WRAPPED:
            self._set_state(SSLProtocolState.FLUSHING)
        if self._state == SSLProtocolState.FLUSHING:
            self._set_state(SSLProtocolState.SHUTDOWN)
        if self._state == SSLProtocolState.SHUTDOWN:
            self._on_shutdown_complete(None)

    def resume_writing(self) -> None:
        """Go on with what had no room."""
        self._ssl_writing_paused = False
        if self._state == SSLProtocolState.FLUSHING:
            self._do_flush()
        elif self._state == SSLProtocolState.SHUTDOWN:
            self._do_shutdown()
        else:
            self._process_outgoing()

    def _process_outgoing(self) -> None:
        if not self._ssl_writing_paused and (data := self._outgoing.read()):
            self._transport.write(data)
        if self._state == SSLProtocolState.WRAPPED:
            self._control_app_writing()

    def _abort(self, exc: BaseException | None = None) -> None:
        self._set_state(SSLProtocolState.UNWRAPPED)
        if self._transport is not None:
            self._transport._force_close(exc)

    def _resume_reading(self) -> None:
        if self._app_reading_paused:
            self._app_reading_paused = False
            if self._state == SSLProtocolState.WRAPPED:
                self._loop.call_soon(self._do_read)

    def _discard(self) -> None:
        """Drop what has arrived; say that it is the end if the peer has said so."""
        try:
            while self._sslobj.read(READ_BYTES):
                pass
        except AGAIN:
            return
        except ssl.SSLZeroReturnError:
            pass
        self._call_eof_received()

    def _do_flush(self) -> None:
        try:
            self._discard()
            self._do_write()
            self._control_ssl_reading()
        except Exception as error:
            self._on_shutdown_complete(error)
            return
        if not self._get_write_buffer_size():
            self._set_state(SSLProtocolState.SHUTDOWN)
            self._do_shutdown()

    def _do_shutdown(self) -> None:
        try:
            self._discard()
            try:
                self._sslobj.unwrap()
            except AGAIN:
                self._process_outgoing()
                return
            self._process_outgoing()
            if not self._get_write_buffer_size():
                self._on_shutdown_complete(None)
        except Exception as error:
            self._on_shutdown_complete(error)

    def _on_shutdown_complete(self, shutdown_exc: Exception | None) -> None:
        if self._shutdown_timeout_handle is not None:
            self._shutdown_timeout_handle.cancel()
            self._shutdown_timeout_handle = None
        if shutdown_exc is not None:
            self._fatal_error(shutdown_exc)
        elif self._transport is not None:
            self._transport.close()
