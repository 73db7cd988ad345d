"""Counters of the broker: one integer per thing that is bounded, refused or done.

A counter is a plain attribute that its owner adds to; nothing here costs more than that. Rates
and exposition are the reader's business. Every bound of the broker has its counter here
(docs/design.md, I10).
"""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(slots=True)
class Metrics:
    """What has happened since the start, and what is the case now (names ending in `_now`)."""

    connections_now: int = 0
    connections_accepted: int = 0
    connections_refused: int = 0  # max.connections, max.connections.per.ip
    accept_failures: int = 0  # EMFILE and its like
    connections_closed_idle: int = 0  # connections.max.idle.ms
    frames_timed_out: int = 0  # barnabas.frame.deadline.ms
    protocol_errors: int = 0  # frames refused, their connection closed
    bad_requests: int = 0  # answered as such, their connection kept
    requests_received: int = 0
    answers_in_steps: int = 0  # that took more than a slice of a turn
    request_errors: int = 0  # handlers that raised something unforeseen
    unexpected_failures: int = 0  # of steps of the loop that nobody awaits (broker.owners)
    queue_full_waits: int = 0  # queued.max.requests
    connection_full_waits: int = 0  # barnabas.requests.per.connection.max
    budget_full_waits: int = 0  # queued.max.request.bytes
    answers_full_waits: int = 0  # barnabas.answer.bytes.max, or a connection's share of it
    appends_queued: int = 0  # barnabas.unflushed.bytes.max, or a slow flush
    appends_queued_now: int = 0
    flushes: int = 0
    flush_failures: int = 0
    flushes_stuck_now: int = 0  # rounds of which no fsync has ended for long
    commits_timed_out: int = 0
    appends_timed_out: int = 0  # in the queue before a slow disk
    disk_full_now: int = 0  # 1 while writes find no space
    writes_refused: int = 0  # for want of space
    fetches_parked: int = 0
    fetches_parked_now: int = 0
    reads_cold: int = 0
    record_walks: int = 0  # over the records of batches, in threads
    record_walks_waiting_now: int = 0
    record_walks_refused: int = 0  # too many records, headers or bytes to be looked at

    def snapshot(self) -> dict[str, int]:
        """Return every counter by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}
