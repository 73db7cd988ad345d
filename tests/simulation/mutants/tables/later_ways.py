"""Work that is done in place or in turns of the loop, and what clients leave behind as they go."""

from tests.simulation.mutants.mutant import Mutant

IN_PLACE = "broker/runtime/in_place.py"
MARKERS = "broker/transactions/markers.py"

MUTANTS = (
    Mutant(
        "short-way-waits-for-no-record",
        "a Produce that goes the short way is let in behind an end of TV1 before the record that"
        " begins its transaction",
        "broker/transactions/transaction_admission.py",
        """\
            transaction in self._lines or transaction.is_ending or is_closed(transaction)
""",
        """\
            transaction in self._lines or transaction.is_ending
""",
        only_with=frozenset({"changing transactor"}),
    ),
    Mutant(
        "handlers-in-place-stay-counted",
        "a request that ran in place counts as running for ever: a stop waits for it",
        IN_PLACE,
        """\
        self._among.has_ended()
        tell()
""",
        """\
        tell()
""",
    ),
    Mutant(
        "marker-between-two-turns-is-left-out",
        "of a transaction in very many partitions, those that begin a turn of the loop get no"
        " marker",
        MARKERS,
        """\
                await asyncio.sleep(0)
            partition = self._partition_without(markers, place)
""",
        """\
                await asyncio.sleep(0)
                del markers.missing[place]
                continue
            partition = self._partition_without(markers, place)
""",
    ),
    Mutant(
        "item-between-two-turns-is-lost",
        "a walk over what a request names leaves out what comes first in a turn of the loop",
        "broker/runtime/turns.py",
        """\
            self._left = self._per_turn - 1
            await asyncio.sleep(0)
""",
        """\
            self._left = self._per_turn - 1
            await asyncio.sleep(0)
            next(self._items, None)
""",
    ),
    Mutant(
        "ended-tls-clients-are-written-to",
        "answers are written to a client over TLS that has ended, which the transport takes for"
        " our mistake",
        "broker/network/tls_connection.py",
        """\
        if transport is None or not out or self._is_ending:
""",
        """\
        if transport is None or not out:
""",
    ),
    Mutant(
        "last-push-waits-behind-a-fetch",
        "the last push of a client's metrics releases no fetch that waits on its connection",
        "broker/handlers/push_telemetry.py",
        """\
    if body.terminating and not error:
        services.purgatory.release_of(request.connection)
""",
        "",
        only_with=frozenset({"parting pusher"}),
    ),
)
