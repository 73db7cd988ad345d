"""Kafka's protocol as a data source of PySpark, without a jar.

Spark imports every package named pyspark_* when a session first looks for a data source, so this
module stays light: what reads and writes is imported by the workers that need it.
"""

from pyspark_barnabas.datasource import BarnabasDataSource as DefaultSource

__all__ = ["DefaultSource"]
