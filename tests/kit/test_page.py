"""The examples of docs/testing.md, run as a reader would run them."""

import re

from tests.kit import inner_pytest

PAGE = (inner_pytest.ROOT / "docs" / "testing.md").read_text()


def test_the_examples_of_the_page_pass(tmp_path):
    examples = re.findall(
        r"<!-- example: (?!pyspark|java|go)[\w-]+ -->\n```python\n(.*?)```", PAGE, re.S
    )
    assert len(examples) == 3
    code, output = inner_pytest.run(tmp_path, "\n".join(examples))
    assert code == 0, output
    assert "3 passed" in output
