"""Bounds that leak or do not bind: memory, queues, connections, what is counted in them."""

from tests.simulation.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "lost-connection-keeps-parked-bytes",
        "a connection that is lost while its fetch waits keeps the bytes of that request counted",
        "broker/network/connection.py",
        """\
            if request.abandon():
                request.buffers = ()
            else:
                working_bytes += request.frame_bytes
""",
        """\
            request.abandon()
            working_bytes += request.frame_bytes
""",
    ),
    Mutant(
        "lost-connection-keeps-an-unfinished-frame",
        "a connection that is lost within its first frame keeps the bytes of it counted",
        "broker/network/connection.py",
        """\
        self.account.end(working_bytes)
""",
        """\
        if slots:
            self.account.end(working_bytes)
""",
    ),
    Mutant(
        "full-budget-does-not-hold-new-connections",
        "the broker remembers that it paused a new connection, which the transport has undone:"
        " connections made while the budget is full are read without a bound",
        "broker/network/reading.py",
        """\
        is_reading = transport.is_reading()
""",
        """\
        is_reading = not self.is_paused
""",
        (
            (
                "broker/network/reading.py",
                '"holds",\n        "transport",\n',
                '"holds",\n        "is_paused",\n        "transport",\n',
            ),
            (
                "broker/network/reading.py",
                """\
        self.holds: int = Hold.NONE
""",
                """\
        self.holds: int = Hold.NONE
        self.is_paused = False
""",
            ),
            (
                "broker/network/reading.py",
                """\
                transport.pause_reading()
""",
                """\
                transport.pause_reading()
                self.is_paused = True
""",
            ),
            (
                "broker/network/reading.py",
                """\
            transport.resume_reading()
""",
                """\
            transport.resume_reading()
            self.is_paused = False
""",
            ),
            (
                "broker/network/connection.py",
                """\
        if (holds := self.reading.holds) or reader.reads_size_alone:
            return buffer[: 1 if holds else reader.missing_bytes]
""",
                """\
        if reader.reads_size_alone:
            return buffer[: reader.missing_bytes]
""",
            ),
        ),
        only_with=frozenset({"full house"}),
    ),
    Mutant(
        "answers-behind-a-waiting-one-unbounded",
        "requests behind one that waits are started however large their answers are",
        "broker/network/connection_account.py",
        """\
        return held <= self._share_bytes
""",
        """\
        return True
""",
        (
            (
                "broker/network/connection_account.py",
                """\
            if self._answers.full:
                return False
""",
                "",
            ),
        ),
    ),
    Mutant(
        "cached-bytes-count-as-unflushed",
        "bytes of a write.caching topic count as bytes that must be flushed: acks=all elsewhere"
        " waits for them",
        "storage/log.py",
        """\
            self.high_watermark = last_offset + 1
        else:
            self.home.unflushed_bytes += size
""",
        """\
            self.high_watermark = last_offset + 1
        self.home.unflushed_bytes += size
""",
        (
            (
                "storage/log.py",
                """\
            self.home.unflushed_bytes += counted
""",
                """\
            _ = counted
""",
            ),
            (
                "storage/flush.py",
                """\
        if not state.write_caching:
            state.home.unflushed_bytes -= flush.size_bytes
""",
                """\
        state.home.unflushed_bytes -= flush.size_bytes
""",
            ),
            (
                "storage/failing.py",
                """\
        if not state.write_caching:
            state.home.unflushed_bytes -= state.unflushed_bytes
""",
                """\
        state.home.unflushed_bytes -= state.unflushed_bytes
""",
            ),
        ),
    ),
    Mutant(
        "switch-of-caching-forgets-counted-bytes",
        "turning write.caching on leaves the log's unflushed bytes counted for good",
        "storage/log.py",
        """\
            self.home.unflushed_bytes += counted
""",
        """\
            _ = counted
""",
        only_with=frozenset({"config admin"}),
    ),
    Mutant(
        "record-errors-without-a-bound",
        "the answer to a refused batch names every one of its records",
        "protocol/record_walks.py",
        """\
REPORTED_MAX: Final = 100
""",
        """\
REPORTED_MAX: Final = 1 << 31
""",
    ),
    Mutant(
        "room-told-to-the-dead",
        "room in the request queue is told to connections that are gone, and their turn is lost",
        "broker/runtime/request_queue.py",
        """\
            if waiter.hear_of_room():
                return
""",
        """\
            waiter.hear_of_room()
            return
""",
        (
            (
                "broker/runtime/request_queue.py",
                """\
        self._room_waiters.pop(waiter, None)
""",
                """\
        return
""",
            ),
        ),
        only_with=frozenset({"impatient crowd"}),
    ),
    Mutant(
        "lost-connection-stays-counted",
        "a connection that ends still counts against max.connections",
        "broker/network/connection_limits.py",
        '''\
        """Count a connection from `address` as ended."""
        self.count -= 1
''',
        '''\
        """Count a connection from `address` as ended."""
''',
    ),
    Mutant(
        "answered-fetch-stays-watching",
        "a fetch that was answered stays in the lists of the partitions that it watched",
        "broker/partitions/purgatory.py",
        """\
            partition.watchers.pop(fetch, None)
""",
        """\
            pass
""",
    ),
    Mutant(
        "sent-answers-stay-counted",
        "answers that a slow client has read at last stay counted in the bound on answers",
        "broker/network/connection_account.py",
        """\
        count, self._unsent_bytes = self._unsent_bytes, 0
        self.let_go(count)
""",
        """\
        self._unsent_bytes = 0
""",
    ),
    Mutant(
        "refused-append-stays-counted",
        "an append that waited too long is counted as queued for good",
        "broker/partitions/append_queue.py",
        """\
    def _refuse(self, queued: QueuedAppend, error: Exception) -> None:
        self._metrics.appends_queued_now -= 1
""",
        """\
    def _refuse(self, queued: QueuedAppend, error: Exception) -> None:
""",
    ),
    Mutant(
        "queue-of-requests-one-too-long",
        "the queue of requests takes one more than queued.max.requests",
        "broker/runtime/request_queue.py",
        """\
        return len(self._items) >= self._capacity
""",
        """\
        return len(self._items) > self._capacity
""",
    ),
    Mutant(
        "requests-in-flight-one-too-many",
        "a connection has one request more in flight than barnabas.requests.per.connection.max",
        "broker/network/processor.py",
        """\
            if len(slots) >= in_flight_max:
""",
        """\
            if len(slots) > in_flight_max:
""",
    ),
    Mutant(
        "fetch-forgets-what-it-has-read",
        "each partition of a fetch may fill the whole answer: the limit of bytes is not shared",
        "broker/partitions/fetch_reading.py",
        """\
            left -= size
""",
        "",
    ),
)
