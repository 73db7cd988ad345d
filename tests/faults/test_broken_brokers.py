"""Every broken promise is found out, and as what it is.

Each variant of `tests.faults.broken_brokers` lives through the crashes that its breach shows by,
until something is found. A variant that is not found out means that the harness is blind.
"""

from subprocess import CompletedProcess

import pytest

from tests.faults.broken_brokers import VARIANTS

CYCLES_MAX = "12"
CAMPAIGNS = [(one.kind, CYCLES_MAX, "--broken", name) for name, one in VARIANTS.items()]


@pytest.mark.faults
@pytest.mark.parametrize("campaign", CAMPAIGNS, ids=VARIANTS)
def test_a_broken_broker_is_found_out(
    campaign: tuple[str, ...], ended: CompletedProcess[str]
) -> None:
    found = {line.split(":")[0].strip() for line in ended.stderr.splitlines() if ": " in line}
    assert ended.returncode == 1, ended.stdout + ended.stderr[-3000:]
    assert found & VARIANTS[campaign[-1]].shows_as, f"found {found}\n{ended.stderr[-3000:]}"
