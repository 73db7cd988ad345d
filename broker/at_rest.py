"""What a broker still holds when no client asks for anything: anything at all is a defect (I12).

The counts cover resources that clients cause. The server reports what is left after a clean stop;
tests check brokers in their own process the same way.
"""

from __future__ import annotations

from collections.abc import Sequence

from broker.assembly import Assembly
from broker.dispatch import Dispatcher
from broker.network.processor import Processor


def left_over(
    assembly: Assembly, dispatcher: Dispatcher, processors: Sequence[Processor] = ()
) -> list[str]:
    """Return what is still held, such as "3 fetches parked"; empty at rest."""
    services = assembly.services
    partitions = services.partitions.all()
    metrics = services.metrics
    counts = {
        "connections": sum(len(processor.connections) for processor in processors),
        "TLS handshakes": metrics.tls_handshakes_now,
        "HTTP connections": metrics.http_connections_now,
        "connections counted": metrics.connections_now,
        "request bytes": assembly.network.budget.used_bytes,
        "answer bytes": services.answers.used_bytes,
        "requests queued": len(assembly.network.queue),
        "connections waiting for the queue": assembly.network.queue.waiter_count,
        "requests being handled": dispatcher.running_count,
        "record walks waiting": metrics.record_walks_waiting_now,
        "fetches parked": services.purgatory.parked_count,
        "fetches counted as parked": metrics.fetches_parked_now,
        "fetches watching a partition": sum(len(partition.watchers) for partition in partitions),
        "appends queued": sum(len(partition.queue) for partition in partitions),
        "appends counted as queued": metrics.appends_queued_now,
        "bytes of prepared batches": services.appends.prepared_bytes,
        "requests waiting for a flush": sum(len(partition.waiters) for partition in partitions),
    }
    if services.has_transactions:
        transactions = services.transactions
        counts["transactions being ended"] = transactions.endings.running_count
        counts["requests waiting for a transaction"] = transactions.waiting_count
    return [f"{count} {what}" for what, count in counts.items() if count]
