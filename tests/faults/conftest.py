"""Runs the campaigns of a test module two at a time: each spends half of its time waiting.

A test that is parametrized with a `campaign`, the arguments of `python -m tests.faults`, finds its
result in `ended`. The campaigns of all selected tests start together.
"""

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.faults.power import why_not
from tests.support.broker_process import ROOT

AT_A_TIME = 2
TIMEOUT_S = 1400

Campaign = tuple[str, ...]
Running = dict[Campaign, Future[CompletedProcess[str]]]


@pytest.fixture(scope="module")
def running(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    """Start the campaigns of this module's tests."""

    def run(campaign: Campaign, directory: Path) -> CompletedProcess[str]:
        command = [sys.executable, "-m", "tests.faults", *campaign, "--directory", str(directory)]
        return subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )

    cannot_cut = why_not()
    tests = [test for test in request.session.items if test.path == request.path]
    wanted = [test.callspec.params.get("campaign") for test in tests if hasattr(test, "callspec")]
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        yield {
            # Created here, not in the pool: pytest's factory is not thread-safe.
            campaign: pool.submit(run, campaign, tmp_path_factory.mktemp("campaign"))
            for campaign in wanted
            if campaign and not (campaign[0] == "power" and cannot_cut)
        }
        pool.shutdown(cancel_futures=True)


@pytest.fixture
def ended(campaign: Campaign, running: Running) -> CompletedProcess[str]:
    """Return the result of a campaign; skip one that cannot run."""
    if campaign not in running:
        pytest.skip(why_not())
    return running[campaign].result()
