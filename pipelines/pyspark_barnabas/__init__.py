"""Kafka's protocol as a data source of PySpark, without a jar.

Spark imports every package named pyspark_* when a session first looks for a data source. So this
module stays light; workers import the code that reads and writes when they need it.
"""

from pyspark_barnabas.datasource import BarnabasDataSource as DefaultSource

__all__ = ["DefaultSource"]
