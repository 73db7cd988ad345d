"""`serve --test-control`: one broker that obeys commands as JSON over HTTP, for any language.

    POST /add_rule   {"rule": {"api": "produce", "nth": 1, "error": "REQUEST_TIMED_OUT"}}
    POST /advance    {"seconds": 691200}
    GET  /state      where the broker listens, the rules with their counts, what clients asked

The parent has the port of its own and one thread; the broker is its child, so it can be killed and
started again. 200 is an answer, 400 has `{"refused": sentence}`. A page in a browser cannot send a
command: it would have to name its origin, and what is not JSON is refused. Nor can it read by a
name of its own for this machine: what comes to a loopback address has to ask for one.

Port 0 is for a program that starts a broker for its own tests: any free port, told with the state
in one line of standard output, and the broker ends when that program has ended, however it did.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from http.server import BaseHTTPRequestHandler
from ipaddress import ip_address
from socketserver import TCPServer
from typing import Any, Final, NoReturn
from urllib.parse import urlsplit

from broker.testing import warm
from broker.testing.command_refused import CommandRefused, command_of
from broker.testing.message_line import Message
from broker.testing.own_directory import OwnDirectory
from broker.testing.ward import NO_SESSIONS, USUAL, Ward
from config.listeners import address_text
from config.load import Loaded

BODY_BYTES_MAX: Final = 1024 * 1024
CHUNK_LINE_BYTES_MAX: Final = 1024
REQUEST_SECONDS: Final = 10
POLL_SECONDS: Final = 0.2
PORT_MAX: Final = 65_535
DATA: Final = ("log.dirs", "log.dir")
STOPPING: Final = (signal.SIGTERM, signal.SIGINT)
_HEXADECIMAL: Final = re.compile(rb"[0-9a-fA-F]{1,8}")
IN_THE_BROKER: Final = ("add_rule", "remove_rule", "fill_disk", "advance")


class ToldToStop(BaseException):
    """SIGTERM or SIGINT has come; no exception that the server of a request would log."""


def serve(loaded: Loaded, read: Callable[[Mapping[str, str]], Loaded], place: str) -> int:
    """Serve a broker and its commands at `place`, HOST:PORT; return the broker's exit code."""
    starter = os.getppid()
    address = _address_of(place)
    for number in STOPPING:
        signal.signal(number, _stop)
    usual = NO_SESSIONS if address[1] else USUAL
    settings = {name: value for name, value in usual.items() if name not in loaded.static}
    directory = os.path.abspath(loaded.config.data_directory)
    beside = ""
    own: OwnDirectory | None = None
    ward: Ward | None = None
    try:
        if not address[1] and not any(name in loaded.static for name in DATA):
            own = OwnDirectory()
            directory = settings[DATA[0]] = os.path.join(own.path, "data")
        warm.load()
        beside = own.path if own is not None else _directory_beside(directory)
        ward = Ward(directory, settings, None, read, beside)
        _serve(ward, address, starter)
    except ToldToStop:
        for number in STOPPING:
            signal.signal(number, signal.SIG_IGN)
        return ward.end_in_order() if ward is not None else 0
    finally:
        if ward is not None:
            ward.end()
        if own is not None:
            own.remove()
        elif beside:
            shutil.rmtree(beside, ignore_errors=True)
    return ward.exit_code


def _serve(ward: Ward, address: tuple[str, int], starter: int) -> None:
    """Serve commands until the broker ends by itself, at port 0 until the starter has ended."""
    with ControlServer(address, ward) as server:
        ward.start()
        if not address[1]:
            server.tell()
        while not ward.has_failed:
            server.timeout = 0 if ward.tidy() else POLL_SECONDS
            server.handle_request()
            if not address[1] and os.getppid() != starter:
                raise ToldToStop


def _address_of(place: str) -> tuple[str, int]:
    """Return the IP address and port of a HOST:PORT. Raises CommandRefused, OSError."""
    host, _, port = place.rpartition(":")
    if not (port.isascii() and port.isdigit() and int(port) <= PORT_MAX):
        raise CommandRefused(f"--test-control is {place!r}, expected HOST:PORT, or :PORT for all")
    if not host:
        return "0.0.0.0", int(port)  # noqa: S104 - as asked for
    found = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
    found.sort(key=lambda one: one[0] != socket.AF_INET)
    return str(found[0][4][0]), int(port)


def _directory_beside(directory: str) -> str:
    """Make a directory for snapshots and lost files: on the same disk, if one may write there."""
    try:
        return tempfile.mkdtemp(prefix=".barnabas-", dir=os.path.dirname(directory))
    except OSError:
        return tempfile.mkdtemp(prefix="barnabas-")


def _stop(_number: int, _frame: object) -> NoReturn:
    raise ToldToStop


class ControlServer(TCPServer):
    """The port for commands to `ward`."""

    timeout = POLL_SECONDS
    allow_reuse_address = True

    def __init__(self, address: tuple[str, int], ward: Ward) -> None:
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, _ControlHandler)
        self.commands: dict[str, Callable[[Message], Message]] = {
            "start": lambda _: ward.start(),
            "stop": lambda _: ward.stop(),
            "kill": lambda _: ward.kill(),
            "restart": lambda _: ward.restart(),
            "snapshot": lambda message: ward.snapshot(str(message.get("name", ""))),
            "restore": lambda message: ward.restore(str(message.get("name", ""))),
            "cut_power": lambda _: ward.cut_power(),
        }
        for name in IN_THE_BROKER:
            self.commands[name] = partial(self._pass_on, name)
        self._ward = ward

    def tell(self) -> None:
        """Write where broker and commands are to standard output, as one line."""
        listeners = self._ward.where["listeners"].values()
        kafka = [one for one in listeners if not one["protocol"].startswith("MSGPACK")]
        told = {
            "test_control": address_text(str(self.server_address[0]), self.server_address[1]),
            "bootstrap": address_text(kafka[0]["host"], kafka[0]["port"]) if kafka else None,
            **self._ward.where,
        }
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()

    def look(self) -> Message:
        """Return where the broker listens, its rules, and what clients have asked."""
        ward = self._ward
        return {**ward.look(), **ward.where, "is_running": ward.is_running}

    def _pass_on(self, name: str, message: Message) -> Message:
        return self._ward.child.ask({**message, "do": name})


class _ControlHandler(BaseHTTPRequestHandler):
    """One connection: one command."""

    server: ControlServer
    timeout = REQUEST_SECONDS

    def do_GET(self) -> None:
        """Answer the state."""
        try:
            self._check()
            command_of(self.path.lstrip("/"), {"": None, "state": None})
            self._answer(200, {**self.server.look(), "commands": sorted(self.server.commands)})
        except (CommandRefused, OSError) as error:
            self._answer(400, {"refused": str(error)})

    def do_POST(self) -> None:
        """Obey a command."""
        try:
            self._check()
            command = command_of(self.path.lstrip("/"), self.server.commands)
            self._answer(200, command(self._message()))
        except (CommandRefused, OSError) as error:
            self._answer(400, {"refused": str(error)})

    def log_message(self, *_: Any) -> None:
        """Log nothing: the broker's log is the broker's."""

    def _check(self) -> None:
        """Refuse what a page in a browser may have sent. Raises CommandRefused."""
        if self.headers.get("Origin") is not None:
            raise CommandRefused("commands do not come from pages: leave Origin out")
        is_ours = _is_loopback(self.connection.getsockname()[0])
        host = self.headers.get("Host", "")
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            name = ""
        if is_ours and name != "localhost" and not _is_loopback(name):
            raise CommandRefused(f"Host is {host!r}, expected localhost or 127.0.0.1")

    def _message(self) -> Message:
        body = self._body()
        if not body:
            return {}
        if self.headers.get_content_type() != "application/json":
            raise CommandRefused("Content-Type is not application/json")
        try:
            message = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise CommandRefused(f"the body is no JSON: {error}") from None
        if not isinstance(message, dict):
            raise CommandRefused('the body is no JSON object, such as {"seconds": 60}')
        return message

    def _body(self) -> bytes:
        if "chunked" in self.headers.get("Transfer-Encoding", "").lower():
            return b"".join(self._chunks())
        size = self.headers.get("Content-Length", "0")
        if not (size.isascii() and size.isdigit()) or int(size) > BODY_BYTES_MAX:
            raise CommandRefused(f"the body has {size} bytes, the most is {BODY_BYTES_MAX}")
        return self.rfile.read(int(size))

    def _chunks(self) -> Iterator[bytes]:
        """Yield the pieces of a body whose size was not known at its begin."""
        left = BODY_BYTES_MAX
        while True:
            line = self.rfile.readline(CHUNK_LINE_BYTES_MAX).partition(b";")[0].strip()
            if not _HEXADECIMAL.fullmatch(line):
                raise CommandRefused(f"a chunk of the body has the size {line!r}")
            size = int(line, 16)
            left -= size
            if left < 0:
                raise CommandRefused(f"the body is longer than {BODY_BYTES_MAX} bytes, the most")
            if not size:
                return
            yield self.rfile.read(size)
            self.rfile.readline(CHUNK_LINE_BYTES_MAX)

    def _answer(self, status: int, message: Message) -> None:
        body = json.dumps(message).encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
