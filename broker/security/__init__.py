"""Who a client is, and how its connection is protected.

Read `tls`, then `principal_mapping`; `users` has the credentials. The network asks for a context
and a principal; nothing here knows sockets or requests.
"""
