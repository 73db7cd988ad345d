"""Real brokers that are killed, lose power and run on bad disks; their promises must still hold.

faulty_filesystem   a disk with faults at chosen calls
faulty_broker       `barnabas serve` over that disk, or with a promise broken on purpose
failpoints          where: every step of an append, commit, roll, checkpoint, recovery, …
broken_brokers      brokers with a promise broken on purpose
wire, workload      clients that hide nothing, and the answers they got
group_wire, group_members    the same for members of groups
power               an ext4 of its own whose power can be cut
life                one data directory from crash to crash, judged after each
"""
