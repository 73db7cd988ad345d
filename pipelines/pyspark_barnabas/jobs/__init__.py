"""What the owner of a log runs on it, one command each: `barnabas-pipeline`.

    cli        the command: what it accepts, what leaves it (`main`)
    session    a run: its arguments, its Spark session, its source
    progress   what is shown meanwhile, on stderr
    summary    what is shown at the end: an `Outcome`, for a person or as JSON
    failures   an error as one line, and Spark's traces as errors

A pipeline is a module with `add_arguments(parser)` and `run(run) -> Outcome`, and one line in
`cli.PIPELINES`. Nothing is imported here: Spark imports the package around this one early.
"""
