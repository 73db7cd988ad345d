"""`consume` finds records: by pattern, near the end, at an offset, and as kcat would write them."""

import subprocess
from pathlib import Path

from tests.support.broker_process import BARNABAS, ROOT, BrokerProcess, free_port

LINES = "".join(f"k{n % 7}=line {n}\n" for n in range(500))


def test_records_are_found(tmp_path: Path) -> None:
    port = free_port()
    with BrokerProcess(
        tmp_path / "data", {"barnabas.http.listener": ""}, port=free_port()
    ) as broker:
        assert broker.stop() == 0
        broker.settings["listeners"] += f",MSGPACK://127.0.0.1:{port}"
        broker.settings["num.partitions"] = "3"
        broker.start()

        def run(*words: str, given: str = "") -> str:
            done = subprocess.run(
                [*BARNABAS, *words, "--bootstrap", f"127.0.0.1:{port}"],
                cwd=ROOT, input=given, capture_output=True, text=True, check=False,
            )  # fmt: skip
            assert done.returncode == 0, (words, done.stderr)
            return done.stdout

        run("produce", "t", "--key-separator", "=", "--compression", "zstd", given=LINES)
        assert sorted(run("consume", "t", "--grep", "line 49[89]$").split("\n")) == [
            "", "line 498", "line 499"
        ]  # fmt: skip
        assert run("consume", "t", "--grep", "absent") == ""
        tail = run("consume", "t", "--tail", "5", "--format", "%k %s").splitlines()
        assert len(tail) == 5
        one = run("consume", "t", "--at", "0:3", "-n", "1", "--format", r"%t-%p %o %K").split()
        assert one == ["t-0", "3", "2"]
