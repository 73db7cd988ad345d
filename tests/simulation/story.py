"""The story of one history on a page: who sent what, what broke, and which judge objects."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tests.simulation.plan import Plan, Shape
from tests.simulation.world import MS

if TYPE_CHECKING:
    from tests.simulation.history import Verdict

LINES_MAX = 60
WIDTH_MAX = 160


def story_of(plan: Plan, verdict: Verdict) -> str:
    """Return the page."""
    counts = f"{len(plan.clients)} clients, {len(plan.faults)} faults, {verdict.lives} lives"
    lines = [f"seed {plan.seed}: {counts}, {verdict.requests} requests"]
    lines += [f"  {name} = {value}" for name, value in sorted(plan.settings.items())]
    lines += [f"  {name} = {value} (below its limit)" for name, value in sorted(plan.tiny.items())]
    if plan.shape != Shape():
        lines.append(f"  {plan.shape}")
    lines += [
        f"  {client.name}: {client.steps} steps from {client.begins_ms} ms on"
        for client in plan.clients
    ]
    lines += [f"  {fault.name} at {fault.at_ms} ms" for fault in plan.faults]
    lines.append("")
    told = _chosen(verdict)
    lines += [f"{when_ns / MS:12.3f} ms  {what}"[:WIDTH_MAX] for when_ns, what in told]
    lines.append("")
    lines += [f"OBJECTION  {failure}" for failure in verdict.failures] or ["nobody objects"]
    return "\n".join(lines)


def _chosen(verdict: Verdict) -> list[tuple[int, str]]:
    """The broker's ends, the faults, and the last lines that name what the judges name."""
    named = {
        word
        for failure in verdict.failures
        for word in re.findall(r"[a-z]+[-_]?\d+(?:-\d+)?|\b\d{2,}\b", failure)
    }
    turns = [
        (when, what) for when, what in verdict.story if what.startswith(("broker: ", "fault: "))
    ]
    about = [
        (when, what)
        for when, what in verdict.story
        if any(word in what for word in named) and not what.startswith(("broker: ", "fault: "))
    ]
    rest = max(0, LINES_MAX - len(turns))
    if not about:
        about = verdict.story
    return sorted({*turns, *about[-rest:]}) if rest else turns
