"""The one name of Barnabas in an environment: `python -m barnabas` is the command `barnabas`.

The application's own packages (broker, client, config, protocol, storage) have generic names. An
installed Barnabas keeps them in `barnabas/house/`, where no other program's `import config` finds
them. They are not for import by other programs: docs/msgpack.md has the lines to copy.
"""
