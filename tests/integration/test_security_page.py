"""The commands of docs/security.md, "From nothing to TLS", as a reader types them."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.broker_process import BARNABAS, ROOT, BrokerProcess, free_port

PAGE = (ROOT / "docs" / "security.md").read_text()
SECTION = PAGE.partition("## From nothing to TLS")[2].partition("\n## ")[0]


def commands() -> list[str]:
    """The commands of the section, each on one line."""
    joined = SECTION.replace("\\\n", "")
    return [re.sub(r"\s+", " ", line) for line in re.findall(r"^\$ (.*)$", joined, re.M)]


class PageBroker(BrokerProcess):
    """A broker with the settings of the page, in the page's directory, on free ports."""

    def __init__(self, directory: Path, line: str) -> None:
        super().__init__(directory / "data")
        self.settings = dict(
            assignment.split("=", 1) for assignment in re.findall(r"--set (\S+)", line)
        )
        for key in ("ssl.certificate", "ssl.key"):
            self.settings[key] = str(directory / self.settings[key])
        ports = {"9093": str(self.port), "9094": str(free_port())}
        self.settings["listeners"] = re.sub(
            "909[34]", lambda port: ports[port[0]], self.settings["listeners"]
        )


@pytest.fixture
def typed(tmp_path: Path) -> list[str]:
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl on the PATH")
    found = commands()
    for line in found[:3]:
        subprocess.run(line, shell=True, cwd=tmp_path, check=True, capture_output=True)
    return found


def test_the_page_leads_from_nothing_to_tls(typed: list[str], tmp_path: Path) -> None:
    serve, show, create = typed[3:]
    assert serve.startswith("barnabas serve --data data ")
    with PageBroker(tmp_path, serve) as broker:
        properties = SECTION.partition(f"$ {show}\n")[2].partition("$ ")[0]
        (tmp_path / show.removeprefix("cat ")).write_text(properties)
        words = create.replace("9093", str(broker.port)).split()
        done = subprocess.run(
            [*BARNABAS, *words[1:]],
            cwd=tmp_path,
            env={"PYTHONPATH": str(ROOT), "PATH": str(Path(sys.executable).parent)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout == "Created topic orders with 1 partition.\n", done.stderr
        assert done.stdout in SECTION
