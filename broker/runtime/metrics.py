"""Counters of the broker: one integer for each thing that is bounded, refused or done.

A counter is a plain attribute that its owner adds to, and costs no more than that. Readers compute
rates and choose a format. Every bound of the broker has its counter here (docs/design.md, I10).
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from broker.runtime.traffic import Traffic


@dataclass(slots=True)
class Metrics:
    """Totals since the start, and current values (names that end in `_now`)."""

    traffic: Traffic = field(default_factory=Traffic)
    connections_now: int = 0
    connections_accepted: int = 0
    connections_refused: int = 0  # max.connections, max.connections.per.ip
    accept_failures: int = 0  # EMFILE and similar
    tls_handshakes: int = 0  # completed
    tls_handshakes_now: int = 0
    tls_handshakes_failed: int = 0  # by what the client sent, or did not send in time
    tls_handshakes_displaced: int = 0  # the oldest of too many that wait for their clients
    tls_reloads: int = 0  # of the certificates of one listener
    tls_reload_failures: int = 0
    logins: int = 0  # by SASL; completed, those on open connections too
    logins_failed: int = 0
    logins_timed_out: int = 0  # silent before their end
    logins_expired: int = 0  # connections.max.reauth.ms, or the end of a token
    logins_removed: int = 0  # connections that ended with their user
    connections_closed_idle: int = 0  # connections.max.idle.ms
    acls_now: int = 0
    authorizations_denied: int = 0  # and answered with an error; filtering does not count
    authorizations_forgotten: int = 0  # decisions that were remembered, for lack of room
    audit_lines_dropped: int = 0  # of denied requests: too many in a second
    http_connections_now: int = 0
    http_connections_refused: int = 0  # too many, and each was being answered
    http_connections_displaced: int = 0  # the one that had waited longest for its client
    http_requests: int = 0
    http_requests_refused: int = 0  # malformed, too large, or too slow
    http_timeouts: int = 0  # of clients that do not send, or do not read their answer
    http_attempts_refused: int = 0  # with a password: too many at a time
    http_viewers_now: int = 0  # of events
    http_viewers_refused: int = 0  # too many
    client_instances_now: int = 0  # that ask for subscriptions of metrics, or push metrics
    client_instances_displaced: int = 0  # the one unheard of for longest: there were too many
    client_figures_displaced: int = 0  # of the client that pushed longest ago: too many push
    client_pushes: int = 0  # of metrics, taken
    client_pushes_refused: int = 0  # not readable, or too large after decompression
    client_pushes_throttled: int = 0  # before their interval was over; requests for it, too
    client_pushes_cut: int = 0  # taken in part: they held too many metrics
    client_series_now: int = 0
    client_series_refused: int = 0  # points of metrics for which there was no room
    frames_timed_out: int = 0  # barnabas.frame.deadline.ms
    protocol_errors: int = 0  # frames refused, with their connection closed
    bad_requests: int = 0  # answered with an error, with their connection kept
    requests_received: int = 0
    answers_in_steps: int = 0  # that took longer than a slice of a turn
    request_errors: int = 0  # unexpected exceptions in handlers
    unexpected_failures: int = 0  # unexpected exceptions in steps of the loop (`owners`)
    queue_full_waits: int = 0  # queued.max.requests
    connection_full_waits: int = 0  # barnabas.requests.per.connection.max
    budget_full_waits: int = 0  # queued.max.request.bytes
    requests_throttled: int = 0  # over a quota
    connections_throttled: int = 0  # over a rate of new connections
    quota_sensors_now: int = 0
    quota_sensors_displaced: int = 0  # by those of other clients: there were too many
    answers_full_waits: int = 0  # barnabas.answer.bytes.max, or a connection's share of it
    appends_queued: int = 0  # barnabas.unflushed.bytes.max, or a slow flush
    appends_queued_now: int = 0
    flushes: int = 0
    flush_failures: int = 0
    flushes_stuck_now: int = 0  # rounds in which no fsync has ended for STUCK_SECONDS
    commits_timed_out: int = 0
    appends_timed_out: int = 0  # while they were queued for a slow disk
    partitions_offline_now: int = 0  # their logs cannot be opened
    partitions_uncleanable_now: int = 0  # their compaction was given up
    disk_full_now: int = 0  # 1 while writes find no space
    writes_refused: int = 0  # because the disk is full
    fetches_parked: int = 0
    fetches_parked_now: int = 0
    fetch_sessions_now: int = 0
    fetch_session_partitions_now: int = 0
    fetch_session_evictions: int = 0  # max.incremental.fetch.session.cache.slots
    fetch_sessions_declined: int = 0  # no room, and none to be evicted
    fetch_wakeups_lost: int = 0  # of partitions of sessions; a defect, mended within a second
    reads_cold: int = 0
    record_walks: int = 0  # over the records of batches, in threads
    record_walks_waiting_now: int = 0
    record_walks_refused: int = 0  # too many records, headers or bytes to walk over
    transactional_ids_now: int = 0
    transactional_ids_refused: int = 0  # barnabas.transactional.ids.max
    transactional_ids_expired: int = 0  # transactional.id.expiration.ms
    transactions_open_now: int = 0
    transactions_too_large: int = 0  # partitions that were refused: the record would be too large
    transactions_committed: int = 0
    transactions_aborted: int = 0
    transactions_timed_out: int = 0
    logs_kept_for_transactions_now: int = 0  # below markers that a crash has left
    transactions_owed_now: int = 0  # decided, but not yet in every partition: a log has failed

    def snapshot(self) -> dict[str, int]:
        """Return every counter by name."""
        return {one.name: getattr(self, one.name) for one in fields(self) if one.name != "traffic"}
