"""The measurements, saved one by one, so that a long comparison can be interrupted and resumed.

Owns one JSON file: the machine and the versions, and for every cell its pairs. A pair holds runs
that followed each other: {"kafka": {metric: value}, "cached": …, "durable": …}. Ratios are
made within a pair only, since the machine changes over an hour. Written after every pair.

Does not measure and does not write pages: benchmarks.peers and benchmarks.page do.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

import confluent_kafka

from benchmarks import interpreter

KAFKA, CACHED, DURABLE = "kafka", "cached", "durable"
SIDES = (KAFKA, CACHED, DURABLE)

Figures = dict[str, float]
Pair = dict[str, Figures]


class Results:
    """The results of one machine, which `settings` describes; results of another are not mixed in.

    Raises SystemExit if the file is of another machine or of other versions.
    """

    def __init__(self, path: Path, settings: dict[str, str], *, fresh: bool = False) -> None:
        self.path = path
        self._all: dict[str, Any] = {"settings": settings, "cells": {}}
        if not fresh and path.exists():
            self._all = json.loads(path.read_text())
            was = self._all["settings"]
            differing = [key for key in settings if settings[key] != was.get(key)]
            if differing:
                told = ", ".join(f"{key} was {was.get(key)}" for key in differing)
                raise SystemExit(f"{path} is of another machine ({told}); --fresh starts over")

    @property
    def settings(self) -> dict[str, str]:
        """The machine and the versions."""
        settings: dict[str, str] = self._all["settings"]
        return settings

    def pairs(self, cell: str) -> list[Pair]:
        """The pairs of a cell so far."""
        found: list[Pair] = self._all["cells"].get(cell, {}).get("pairs", [])
        return found

    def cell_settings(self) -> list[dict[str, str]]:
        """The settings of every measured cell."""
        return [row["settings"] for row in self._all["cells"].values()]

    def add(self, cell: str, pair: Pair, settings: dict[str, str]) -> None:
        """Keep one pair of a cell."""
        row = self._all["cells"].setdefault(cell, {"pairs": []})
        row["settings"] = settings
        row["pairs"].append(pair)
        self.save()

    def drop(self, cell: str) -> None:
        """Forget the pairs of a cell."""
        self._all["cells"].pop(cell, None)

    def part(self, name: str) -> Any:
        """Return a part without pairs: limits, growth, profiles; None if it does not exist."""
        return self._all.get(name)

    def put(self, name: str, value: Any) -> None:
        """Save a part without pairs."""
        self._all[name] = value
        self.save()

    def save(self) -> None:
        """Write the file atomically."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        written = self.path.with_suffix(".new")
        written.write_text(json.dumps(self._all, indent=1) + "\n")
        written.replace(self.path)


def values(pairs: Iterable[Pair], side: str, metric: str) -> list[float]:
    """Return one metric of one side, a value for each pair."""
    return [pair[side][metric] for pair in pairs if metric in pair.get(side, {})]


def ratios(pairs: Iterable[Pair], ours: str, metric: str) -> list[float]:
    """Ours over Kafka's, pair by pair."""
    both = [
        (pair[ours][metric], pair[KAFKA][metric])
        for pair in pairs
        if metric in pair.get(ours, {}) and metric in pair.get(KAFKA, {})
    ]
    return [our / their for our, their in both if their]


def spread(found: list[float], form: str = ".2f") -> str:
    """Format the median with the minimum and maximum."""
    if not found:
        return "-"
    middle = f"{statistics.median(found):{form}}"
    return f"{middle} ({min(found):{form}}-{max(found):{form}})" if len(found) > 1 else middle


def number(value: float) -> str:
    """Format three significant digits, with thousands separators."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value >= 0.01 else f"{value:.4f}"


def machine(directory: Path, kafka_libs: Path | None) -> dict[str, str]:
    """Describe processor, memory, disk, kernel and the versions of all programs."""
    directory.mkdir(parents=True, exist_ok=True)
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    told = {
        "processor": f"{model}, {os.cpu_count()} cores",
        "memory": f"{memory / 2**30:.0f} GiB",
        "file system": _output("df", "--output=fstype", str(directory)).splitlines()[-1],
        "kernel": platform.release(),
        "Python": interpreter.described(),
        **_libraries(),
    }
    if kafka_libs is not None:
        jar = next(kafka_libs.glob("kafka_2.13-*.jar"))
        told["Kafka"] = jar.stem.partition("-")[2]
        told["Java"] = _output("java", "-version").splitlines()[0]
    return told


def _libraries() -> dict[str, str]:
    versions = {name: metadata.version(name) for name in ("uvloop", "confluent-kafka")}
    return {**versions, "librdkafka": confluent_kafka.libversion()[0]}


def _output(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return (done.stdout + done.stderr).strip()
