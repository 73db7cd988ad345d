"""Prometheus's text format, read back as the broker writes it."""

import math

from client.http.exposed import exposed

TEXT = r"""# HELP a What a\nis.
# TYPE a gauge
a{x="1\"\\\n",y=""} 2
a NaN
# HELP b_seconds Times.
# TYPE b_seconds histogram
b_seconds_bucket{le="+Inf"} 3
b_seconds_count 3
"""


def test_names_labels_and_values_are_read() -> None:
    first, second = exposed(TEXT)
    assert (first.name, first.kind, first.help) == ("a", "gauge", "What a\nis.")
    assert first.samples[0] == ("", {"x": '1"\\\n', "y": ""}, 2.0)
    assert math.isnan(first.samples[1][2])
    assert [ending for ending, _, _ in second.samples] == ["_bucket", "_count"]
