"""The subcommands of `barnabas`, one module each, imported when they are called.

Read `lazy_group` and `output`, then any command. What a command computes lives in `client.kafka`,
`client.msgpack` or `client.files`; here are options, questions and what is printed.
"""
