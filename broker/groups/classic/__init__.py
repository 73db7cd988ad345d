"""Groups of the classic protocol: one member assigns partitions, the broker keeps the membership.

Read `generation`, `rebalance`, `joining`, `syncing`, then `classic_group`. Only `rebalance`
and what it calls may move a group to another state.
"""
