"""What tests of other programs do to a broker: fresh ones in milliseconds, faults, time, power.

A broker runs here only if it was started for tests, by the nursery (`barnabas nursery`, which the
distribution pytest-barnabas starts) or by `barnabas serve --test-control`. No other street imports
this one, so a broker without test control has none of it in its process.

    nursery            the parent: a warm process that forks brokers; it answers commands
    hatching, hatched  one forked broker, as the child begins and as the parent sees it
    controlled_broker  the child: the real broker, in an environment that obeys
    control_link       the commands between the two

Read `nursery` first, then `controlled_broker`.
"""
