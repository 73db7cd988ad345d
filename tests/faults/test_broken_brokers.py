"""The harness detects every broken promise, and names the right anomaly.

Each variant of `tests.faults.broken_brokers` goes through the crashes that expose it until an
anomaly is found. A variant without a finding means that the harness is blind.
"""

from subprocess import CompletedProcess

import pytest

from tests.faults.broken_brokers import VARIANTS

CYCLES_MAX = "12"
CAMPAIGNS = [(one.kind, CYCLES_MAX, "--broken", name) for name, one in VARIANTS.items()]


@pytest.mark.faults
@pytest.mark.parametrize("campaign", CAMPAIGNS, ids=VARIANTS)
def test_a_broken_broker_is_detected(
    campaign: tuple[str, ...], ended: CompletedProcess[str]
) -> None:
    found = {line.split(":")[0].strip() for line in ended.stderr.splitlines() if ": " in line}
    assert ended.returncode == 1, ended.stdout + ended.stderr[-3000:]
    assert found & VARIANTS[campaign[-1]].shows_as, f"found {found}\n{ended.stderr[-3000:]}"
