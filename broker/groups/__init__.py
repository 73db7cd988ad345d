"""The group coordinator: groups of both kinds, their members, and the offsets they commit.

Read `group`, `coordinator`, `member_requests`, then `classic` and `consumer`. From outside, use the
coordinator and the request modules; only they change a group. No group knows a log or a socket.
"""
