"""The child's end of test control: commands from the parent, one at a time, and their answers.

A command is a JSON object whose `do` names it; the answer is an object, `{"refused": sentence}` if
it cannot be obeyed, with the command's `id`, if it has one. The parent waits for the answer before
it sends another, unless it has waited for too long.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping

from broker.runtime import owners
from broker.runtime.owners import Owner
from broker.testing.command_refused import CommandRefused, command_of
from broker.testing.hatched import RECEIVE_BYTES
from broker.testing.message_line import Message, MessageReader, line_of

Command = Callable[[Message], Awaitable[Message]]


class ControlLink:
    """Reads commands from `sock`, and obeys them by the table `commands`."""

    def __init__(self, sock: socket.socket, commands: Mapping[str, Command]) -> None:
        self._sock = sock
        self._commands = commands
        self._reader = MessageReader()
        self._tasks: set[asyncio.Task[None]] = set()  # one at a time: the parent waits

    def start(self) -> None:
        """Obey from now on."""
        loop = asyncio.get_running_loop()
        owners.on_readable(loop, Owner.TEST_CONTROL, self._sock.fileno(), self._readable)

    def stop(self) -> None:
        """Obey no further command."""
        asyncio.get_running_loop().remove_reader(self._sock.fileno())

    def tell(self, message: Message) -> None:
        """Send a message to the parent, which is waiting for one."""
        self._sock.sendall(line_of(message))

    def _readable(self) -> None:
        data = self._sock.recv(RECEIVE_BYTES, socket.MSG_DONTWAIT)
        if not data:
            self.stop()
            return
        for message in self._reader.feed(data):
            owners.spawn(Owner.TEST_CONTROL, self._obey(message), among=self._tasks)

    async def _obey(self, message: Message) -> None:
        name = str(message.pop("do", ""))
        number = {"id": message.pop("id")} if "id" in message else {}
        try:
            answer = await command_of(name, self._commands)(message)
        except CommandRefused as refusal:
            answer = {"refused": str(refusal)}
        except Exception as error:
            said = f"{name} failed: {error!r}; the broker's log has the trace"
            self.tell({"refused": said, **number})
            raise
        self.tell({**answer, **number})
