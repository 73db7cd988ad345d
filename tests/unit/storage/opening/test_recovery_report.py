"""The log lines about an opened log: none if nothing happened."""

from storage.opening.recovery_report import NO_CLEAN_SHUTDOWN, RecoveryReport


def report(**found):
    return RecoveryReport("t", 3, "/data/t-3", **found)


def test_a_clean_log_is_not_reported():
    assert report(notes=["a quarantine file is there"]).lines() == []


def test_an_unclean_stop_without_changes_is_not_reported():
    assert report(reason=NO_CLEAN_SHUTDOWN, recovery_point=5, end_offset=5).lines() == []
    (line,) = report(reason="the log ends at 4", recovery_point=5, end_offset=5).lines()
    assert "Recovered t-3 (the log ends at 4)" in line


def test_damage_is_reported_with_its_position_and_its_quarantine():
    found = report(
        reason=NO_CLEAN_SHUTDOWN,
        damage="x.log at byte offset 70: a wrong CRC",
        end_offset=7,
        bytes_quarantined=99,
        zero_bytes_cut=4096,
        quarantine_files=["x.log.70.1.quarantine"],
        warnings=["first"],
    )
    first, damage, recovered = found.lines()
    assert first == "first"
    assert "x.log at byte offset 70" in damage
    assert "truncating to offset 7" in damage
    assert "99 bytes kept in x.log.70.1.quarantine" in damage
    assert "to end offset 7" in recovered
