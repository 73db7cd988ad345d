"""The benchmark of small steps runs to its end, and times the broker without the tests' guards."""

from benchmarks import bench_steps
from tests.support import loop_guard


def test_steps_are_timed_on_plain_files_and_the_run_ends(monkeypatch, capsys):
    for name, count in (("CALLS", 2), ("ROUNDS", 1), ("BATCHES", 3)):
        monkeypatch.setattr(bench_steps, name, count)
    guarded = []

    def judge(operation, path):
        if path != "long work":  # long work is watched in the whole process while a rig serves
            guarded.append((operation, path))

    monkeypatch.setattr(loop_guard, "_judge", judge)
    assert bench_steps.main() == 0
    rows = capsys.readouterr().out.splitlines()
    assert len(rows) == 2 + 12, rows
    assert not guarded, f"{len(guarded)} of the timed calls went through a guard: {guarded[:3]}"
