"""Real brokers that are killed, cut off from power and given bad disks, and held to their word.

faulty_filesystem   the disk that fails where it is told to
faulty_broker       `barnabas serve` over that disk, or with a promise broken on purpose
failpoints          where: every step of an append, commit, roll, checkpoint, recovery, …
broken_brokers      the promises that can be broken
wire, workload      clients that hide nothing, and what they were told
group_wire, group_members    the same for members of groups
power               an ext4 of its own whose power can be cut
life                one data directory from crash to crash, judged after each
"""
