"""What the owner of a log runs on it, one command each: `barnabas-pipeline`.

    cli        the command: what it accepts, what leaves it (`main`)
    arguments  what every job takes, and the options that come of it
    session    a run: its Spark session, its streaming query, its `Outcome`
    progress   what is shown meanwhile, on stderr
    failures   an error as one line, and Spark's traces as errors

A pipeline is a module with `add_arguments(parser)` and `run(run) -> Outcome`, and one line in
`cli.PIPELINES`. Nothing is imported here: Spark imports the package around this one early.
"""
