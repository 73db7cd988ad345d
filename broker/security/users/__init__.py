"""The users that the metadata log holds, and changes of them.

Read `users`. What a mechanism does with a credential is in `broker.security.sasl`.
"""
