"""A data directory read as a batch query's tasks read it."""

from __future__ import annotations

import shutil

from pyspark_barnabas.columns import TYPES
from pyspark_barnabas.options import offline_options
from pyspark_barnabas.source.offline import OfflineReader

ALL = tuple(TYPES)


def offline_rows(path, columns=("value",), **options):
    """Return the rows of all tasks, one after the other; headers as what can be compared."""
    reader = OfflineReader(columns, offline_options({"path": str(path), **options}))
    found = []
    for partition in reader.partitions():
        for table in reader.read(partition):
            assert table.num_rows > 0
            table.validate(full=True)
            found += zip(*(table[name].to_pylist() for name in columns), strict=True)
    return found


def copy_directory(source, target):
    """Copy the directory of a broker that runs: small files are replaced while they are copied."""
    for _ in range(20):
        try:
            return shutil.copytree(source, target, ignore=shutil.ignore_patterns("*.tmp"))
        except shutil.Error:
            shutil.rmtree(target)
    raise AssertionError(f"{source} did not hold still")
