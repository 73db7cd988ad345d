"""The subcommands of `barnabas`, one module each, imported when they are called."""
