"""Who may do what: ACLs, the rule that decides by them, and the authorizer that remembers it.

Read `acl_codes`, `rule`, then `authorizer`. The rule is pure; nothing here knows requests, records
or connections.
"""
