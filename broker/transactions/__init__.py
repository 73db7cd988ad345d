"""The transaction coordinator: transactional ids, their transactions, and how these end.

Read `transaction_states`, `transaction`, `transaction_coordinator`, then `endings`. Handlers use
the coordinator; the rules (`transaction`) are pure. No transaction knows a socket or a request.
"""
