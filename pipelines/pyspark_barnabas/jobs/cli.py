"""The command `barnabas-pipeline`: what it accepts, what it prints, how it ends.

    barnabas-pipeline NAME [--master URL] [--conf KEY=VALUE] [--json] …
    spark-submit --master URL "$(python -m pyspark_barnabas.jobs.cli --where)" NAME …

A pipeline is a line in `PIPELINES` and a module of that name beside this one, imported when it is
needed, with

    add_arguments(parser)     its own arguments
    run(run) -> Outcome       the work; the first use of `run.spark` starts Spark

Standard output gets the summary, or with --json one JSON object, and nothing else; progress and
errors go to standard error. Exit codes: 0 fine, 1 the run failed, 2 the command or an option of it
was refused, 130 interrupted.

argparse and not click: executors install this distribution, and a command should add nothing to it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final, TextIO

from pyspark_barnabas.jobs import failures
from pyspark_barnabas.jobs.arguments import add_common_arguments
from pyspark_barnabas.jobs.progress import Progress
from pyspark_barnabas.jobs.session import Outcome, Run

FINE, FAILED, REFUSED, INTERRUPTED = 0, 1, 2, 130
PIPELINES: Final[dict[str, str]] = {
    # name: what it does, for --help
    "archive": "write topics to partitioned Parquet, each record once, resumable",
    "replay": "write an archive back into topics, each partition in order",
    "report": "measure topics: rates, keys, batches, compression, lag, with plots",
    "latest": "write the newest value of every key to Parquet",
}


def main(
    arguments: Sequence[str] | None = None,
    *,
    spark: Any = None,
    stdout: TextIO | None = None,
    stderr: TextIO | None = None,
) -> int:
    """Run one pipeline and return the exit code. A given `spark` session is used and stays open.

    Raises SystemExit for --help and for a wrong command line, as argparse does.
    """
    stdout, stderr = stdout or sys.stdout, stderr or sys.stderr
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words == ["--where"]:
        stdout.write(f"{os.path.abspath(__file__)}\n")
        return FINE
    parsed = make_parser(words).parse_args(words)
    progress = Progress(stderr, is_quiet=parsed.quiet)
    run = Run(parsed, progress, spark)
    started_ms = run.clock.elapsed_ms()
    try:
        outcome, code = import_module(_module(parsed.pipeline)).run(run), FINE
    except KeyboardInterrupt:
        outcome, code = failures.as_outcome("Interrupted", "interrupted"), INTERRUPTED
    except Exception as error:
        outcome, code = _failed(error, run)
    finally:
        progress.clear()
        run.close()
    facts = {
        "pipeline": parsed.pipeline,
        "ok": code == FINE,
        "seconds": round((run.clock.elapsed_ms() - started_ms) / 1000, 3),
    }
    try:
        _tell(outcome, facts, stdout if outcome.error is None else stderr, stdout, parsed)
    except BrokenPipeError:  # the reader has gone; Python flushes once more when it exits
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return code


def make_parser(words: Sequence[str]) -> argparse.ArgumentParser:
    """Return the parser of all pipelines; only those named in `words` get their arguments."""
    parser = argparse.ArgumentParser(
        prog="barnabas-pipeline",
        description="Work on the topics of a Kafka cluster with Spark.",
        epilog="barnabas-pipeline NAME --help shows a pipeline's arguments.",
    )
    pipelines = parser.add_subparsers(dest="pipeline", metavar="NAME", required=True)
    for name, what in PIPELINES.items():
        one = pipelines.add_parser(name, help=what, description=what[0].upper() + what[1:] + ".")
        if name in words:
            import_module(_module(name)).add_arguments(one)
            add_common_arguments(one)
    return parser


def _module(name: str) -> str:
    return f"pyspark_barnabas.jobs.{name}"


def _failed(error: Exception, run: Run) -> tuple[Outcome, int]:
    """Return an exception as an outcome; a bug of this program keeps its trace."""
    known = failures.known(error)
    if known is None or run.arguments.trace:
        run.keep_log()
        run.progress.trace(error)
    if known is None:
        where = f"; Spark's log is at {run.log_path}" if run.log_path else ""
        return failures.as_outcome(
            type(error).__name__, f"unexpected: {failures.first_line(error)}{where}"
        ), FAILED
    kind, text = known
    return failures.as_outcome(kind, text), REFUSED if kind == "BadOption" else FAILED


def _tell(
    outcome: Outcome,
    facts: dict[str, Any],
    person: TextIO,
    program: TextIO,
    parsed: argparse.Namespace,
) -> None:
    if parsed.json:
        program.write(json.dumps(facts | outcome.facts, ensure_ascii=False) + "\n")
    if not parsed.json or outcome.error is not None:
        for line in outcome.lines:
            person.write(line + "\n")
        if outcome.error is None:
            person.write(f"Took {facts['seconds']:.1f} s.\n")
    person.flush()
    program.flush()


if __name__ == "__main__":
    sys.exit(main())
