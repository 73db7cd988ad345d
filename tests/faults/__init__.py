"""Real brokers that are killed, lose power and run on bad disks; their promises must still hold.

`python -m tests.faults` crashes brokers for as long as it is told to; the tests do so for a while.

faulty_filesystem   a disk with faults at chosen calls
faulty_broker       `barnabas serve` over that disk, or with a promise broken on purpose
failpoints          where: every step of an append, commit, roll, checkpoint, recovery, …
power, rot          an ext4 whose power can be cut; files changed while the broker is down
broken_brokers, broken_transactions    a promise broken on purpose (variant): is it noticed?
wire, workload      clients that hide nothing, and the answers they got; clients outlive the broker
group_wire, group_members              the same for members of groups
transaction_wire, transactors, transactional_load      the same for transactional clients
security_changes    a client that changes users, ACLs and quotas
base_life, life, transactional_life    one data directory from crash to crash, judged after each
campaign            many lives: which crashes, and in which order
"""
