"""Findings: few of a kind in a file, for a person and for a program."""

from __future__ import annotations

from pyspark_barnabas.jobs.findings import KEPT_MAX, Findings


def test_a_file_of_garbage_says_so_in_a_few_lines():
    findings = Findings()
    for position in range(KEPT_MAX + 3):
        findings.damage("checksum", "a.log", "bad", "lost", position=position, offset=7)
    findings.cache("index", "a.index", "missing", "slow")
    assert (findings.count("damage"), findings.count("cache")) == (KEPT_MAX, 1)
    lines = findings.lines()
    assert lines[:3] == [
        "DAMAGE checksum: a.log at position 0, offset 7",
        "  found:   bad",
        "  means:   lost",
    ]
    assert lines[-1] == "a.log: 3 more findings of kind checksum"
    both = Findings()
    both.extend([findings, findings])
    facts = both.facts()
    assert facts["not_listed"] == [{"path": "a.log", "kind": "checksum", "count": 6}]
    assert facts["findings"][0]["remedy"].startswith("Keep a copy")


def test_notes_are_sound():
    findings = Findings()
    findings.note("format", "a.log", "old", "healthy")
    assert findings.is_sound
    assert not findings.facts()["findings"][0]["position"] >= 0
    findings.cache("index", "a.index", "missing", "slow")
    assert not findings.is_sound
