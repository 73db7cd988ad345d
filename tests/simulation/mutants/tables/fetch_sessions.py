"""Sessions of fetches: partitions that sleep through their news, and what is told of them."""

from tests.simulation.mutants.mutant import Mutant

SESSION = "broker/fetch_sessions/fetch_session.py"
FETCH = "broker/fetch_sessions/session_fetch.py"
IN_SESSIONS = frozenset({"session fetcher"})

MUTANTS = (
    Mutant(
        "sleepers-are-not-woken",
        "a partition of a session is not looked at when its high watermark moves",
        "broker/partitions/purgatory.py",
        """\
        \"""Release the fetches that watch `partition` and are now satisfied.\"""
        if partition.sleepers:
            self._wake(partition)
""",
        """\
        \"""Release the fetches that watch `partition` and are now satisfied.\"""
""",
        only_with=IN_SESSIONS,
    ),
    Mutant(
        "the-waiting-fetch-does-not-hear",
        "a partition that wakes is looked at by the next fetch, not by the one that waits",
        "broker/partitions/partition.py",
        """\
            self.partitions.append(partition)
            partition.watchers[self] = None
""",
        """\
            self.partitions.append(partition)
""",
        only_with=IN_SESSIONS,
    ),
    Mutant(
        "a-partition-sleeps-with-news",
        "a partition falls asleep although records came while it was looked at, or had no room",
        FETCH,
        """\
                and not cached.has_news(bed, is_committed=session.is_committed)
""",
        "",
        only_with=IN_SESSIONS,
    ),
    Mutant(
        "a-moved-offset-wakes-nobody",
        "what is named again is not looked at",
        SESSION,
        """\
        self.changes += 1
        self.wake(cached)
        return cached
""",
        """\
        self.changes += 1
        return cached
""",
        (
            (
                SESSION,
                """\
            self.move_to_end(cached)
        cached.asked = asked
""",
                """\
            self.move_to_end(cached)
            self.wake(cached)
        cached.asked = asked
""",
            ),
        ),
        only_with=IN_SESSIONS,
    ),
    Mutant(
        "records-are-no-news",
        "records that come again under a known high watermark are left out",
        SESSION,
        """\
        is_news = bool(data.records) or data.diverging_epoch is not None
""",
        """\
        is_news = data.diverging_epoch is not None
""",
        only_with=IN_SESSIONS,
    ),
    Mutant(
        "epochs-stand-still",
        "the next fetch of a session is refused, or a lost one is not noticed",
        SESSION,
        """\
        self.epoch = 1 if self.epoch >= EPOCH_MAX else self.epoch + 1
""",
        """\
        self.epoch = 1
""",
        only_with=IN_SESSIONS,
    ),
    Mutant(
        "the-forgotten-are-remembered",
        "a partition that its client has forgotten is still answered",
        "broker/fetch_sessions/session_handling.py",
        """\
                session.forget((ident, number))
""",
        """\
                session.forget((number, ident))
""",
        only_with=IN_SESSIONS,
    ),
    Mutant(
        "another-isolation-wakes-nobody",
        "read_uncommitted after read_committed misses what was not committed",
        "broker/fetch_sessions/session_handling.py",
        """\
        if rights != session.rights or is_committed != session.is_committed:
""",
        """\
        if rights != session.rights:
""",
        only_with=frozenset({"curious reader"}),
    ),
    Mutant(
        "what-waits-behind-a-lost-fetch-stays",
        "fetches of a connection that is lost, behind one that waits, are never let go",
        FETCH,
        """\
        def abandoned() -> None:
            self.end()
""",
        """\
        def abandoned() -> None:
""",
        only_with=IN_SESSIONS,
    ),
)
