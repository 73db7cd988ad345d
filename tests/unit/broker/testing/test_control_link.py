"""The commands of a test: obeyed, refused, and failing without harm to the broker."""

import asyncio
import json
import socket

from broker.testing.command_refused import CommandRefused
from broker.testing.control_link import ControlLink


async def echo(message):
    return {"echo": message}


async def refuse(message):
    raise CommandRefused("not now")


async def fail(message):
    raise ZeroDivisionError


async def asked(*lines):
    """The answers to some lines, and the failures that the loop was told of."""
    failures = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: failures.append(context["owner"].name))
    ours, theirs = socket.socketpair()
    with ours, theirs:
        link = ControlLink(theirs, {"echo": echo, "refuse": refuse, "fail": fail})
        link.start()
        answers = []
        ours.setblocking(False)
        for line in lines:
            await loop.sock_sendall(ours, json.dumps(line).encode() + b"\n")
            answers.append(json.loads(await loop.sock_recv(ours, 10_000)))
        link.stop()
    return answers, failures


async def test_commands_are_obeyed_in_turn():
    answers, failures = await asked({"do": "echo", "a": 1}, {"do": "echo"})
    assert answers == [{"echo": {"a": 1}}, {"echo": {}}]
    assert failures == []


async def test_what_cannot_be_obeyed_is_refused():
    answers, failures = await asked({"do": "refuse"}, {"do": "ech"}, {})
    assert answers[0] == {"refused": "not now"}
    assert answers[1] == {"refused": "there is no command 'ech'. Did you mean echo?"}
    assert answers[2]["refused"].startswith("there is no command ''")
    assert failures == []


async def test_a_failure_is_answered_and_reported():
    answers, failures = await asked({"do": "fail"}, {"do": "echo"})
    assert "fail failed: ZeroDivisionError()" in answers[0]["refused"]
    assert answers[1] == {"echo": {}}
    assert failures == ["TEST_CONTROL"]
