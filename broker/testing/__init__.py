"""Brokers for tests of other programs: fresh ones in milliseconds, faults, time, power cuts.

A broker is here only if it was started for tests: no other street imports this one. Children and
their commands are private to the parent. Read `nursery`, `ward`, then `controlled_broker`.
"""
