"""The lease to write by name into a partition's directory, and when it ends."""

import threading

from storage.lease import Lease


def test_a_lease_holds_until_it_ends():
    lease = Lease()
    with lease.use() as is_ours:
        assert is_ours
    lease.end()
    with lease.use() as is_ours:
        assert not is_ours
    assert lease.is_over


def test_a_rename_waits_for_writes_that_have_begun():
    lease, writing, may_end = Lease(), threading.Event(), threading.Event()
    order = []

    def write():
        with lease.use() as is_ours:
            writing.set()
            may_end.wait(60)
            order.append(("written", is_ours))

    def rename():
        with lease.use():
            order.append(("renamed", None))

    writer = threading.Thread(target=write)
    writer.start()
    assert writing.wait(60)
    lease.end()
    renamer = threading.Thread(target=rename)
    renamer.start()
    may_end.set()
    writer.join(60)
    renamer.join(60)
    assert order == [("written", True), ("renamed", None)]
