"""The pipelines that the owner of a log runs, one command each: `barnabas-pipeline`.

    cli        the command: its arguments, output and exit codes (`main`)
    arguments  the common arguments, and the source options made from them
    session    a run: its Spark session, its streaming query, its `Outcome`
    progress   what stderr shows while it runs
    failures   an exception as one line, also out of Spark's traces

A pipeline is a module with `add_arguments(parser)` and `run(run) -> Outcome`, and one line in
`cli.PIPELINES`. Nothing is imported here, because Spark imports the parent package early.
"""
