"""The results of a comparison: pairs saved one by one, ratios within a pair, and goals."""

import json

import pytest

from benchmarks import page, table
from benchmarks.cells import CELLS, chosen
from benchmarks.metrics import CPU_GB, LOAD_SHARE, MB_S
from benchmarks.results import Results, ratios, spread

MACHINE = {"processor": "one", "Kafka": "4.3.0"}
CELL = "raw-1m"


def pair(kafka, ours, cpu=1.0):
    return {
        "kafka": {MB_S: kafka, CPU_GB: 2.0, LOAD_SHARE: 0.5},
        "cached": {MB_S: ours, CPU_GB: cpu, LOAD_SHARE: 0.5},
    }


def test_an_interrupted_run_continues(tmp_path):
    path = tmp_path / "peers.json"
    Results(path, MACHINE).add(CELL, pair(100.0, 200.0), {"seconds": "3"})
    again = Results(path, MACHINE)
    again.add(CELL, pair(100.0, 300.0), {"seconds": "3"})
    assert ratios(Results(path, MACHINE).pairs(CELL), "cached", MB_S) == [2.0, 3.0]


def test_results_of_another_machine_are_not_mixed_in(tmp_path):
    path = tmp_path / "peers.json"
    Results(path, MACHINE).add(CELL, pair(100.0, 200.0), {})
    with pytest.raises(SystemExit, match="processor was one"):
        Results(path, MACHINE | {"processor": "two"})
    assert Results(path, MACHINE | {"processor": "two"}, fresh=True).pairs(CELL) == []


def test_a_spread_is_the_median_with_the_minimum_and_the_maximum():
    assert spread([3.0, 1.0, 2.0]) == "2.00 (1.00-3.00)"
    assert spread([2.0]) == "2.00"
    assert spread([]) == "-"


def test_a_missed_goal_is_bold_and_reported(tmp_path):
    results = Results(tmp_path / "peers.json", MACHINE)
    results.add(CELL, pair(100.0, 90.0, cpu=1.4), {"seconds": "3"})
    results.put("limits", {"receive and write": {MB_S: 180.0, CPU_GB: 0.7}})
    rate, cpu = table.rows(results, next(cell for cell in CELLS if cell.name == CELL))
    assert "| 0.90 | **≥ 1** |" in rate
    assert "| 50% |" in rate
    assert "| 0.70 | **≤ 0.6**; itself ≤ 2 |" in cpu
    assert "| 2.0 times |" in cpu
    assert [line.partition(", acks")[0] for line in table.missed(results)] == [
        "1 MB batches of 100 B",
        "1 MB batches of 100 B",
    ]
    assert "`life`" in table.text(results).partition("Not measured in this run")[2]


def test_only_the_text_between_the_marks_is_replaced(tmp_path):
    path = tmp_path / "page.md"
    path.write_text(f"before\n{page.BEGIN}\nwas here\n{page.END}\nafter\n")
    results = Results(tmp_path / "peers.json", MACHINE)
    page.write(results, path)
    text = path.read_text()
    assert text.startswith(f"before\n{page.BEGIN}\n")
    assert text.endswith(f"{page.END}\nafter\n")
    assert "was here" not in text
    assert "Kafka 4.3.0" in text


def test_cells_have_unique_names_and_run_by_rank():
    names = [cell.name for cell in CELLS]
    assert len(names) == len(set(names))
    ranks = [cell.rank for cell in chosen("")]
    assert ranks == sorted(ranks)
    assert [cell.name for cell in chosen("raw-1m,lif*")] == ["raw-1m", "life"]
    with pytest.raises(SystemExit, match="no such cell"):
        chosen("raw-2m")


def test_the_file_is_standard_json(tmp_path):
    results = Results(tmp_path / "peers.json", MACHINE)
    results.add(CELL, pair(1.0, 2.0), {"seconds": "3"})
    kept = json.loads((tmp_path / "peers.json").read_text())
    assert kept["settings"] == MACHINE
    assert kept["cells"][CELL]["pairs"][0]["cached"][MB_S] == 2.0
