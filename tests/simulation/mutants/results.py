"""What a hunt knows so far, in a file of the commit: stopped, it goes on where it was.

    build/mutants/<commit>.jsonl        with what git says of changes that are not committed

Each line is one JSON object: a history of the product without a bug, which says whether it failed
and which bugs it reached; or how far one bug was hunted. A later line about a bug holds. The last
line of a hunt that was killed may be cut.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.simulation.mutants.mutant import ROOT

NOT_FOUND: Final = "none"
COMMIT_CHARS: Final = 10


class Found(NamedTuple):
    """What became of one bug after `seeds` histories: the failure at `seed`, or none so far.

    `reached`: how many of these ran what the bug changes; the others cannot differ from those of
    the product without it, and were not told again.
    """

    name: str
    seed: int | None = None
    seeds: int = 0
    reached: int = 0
    failure: str = ""

    @property
    def judge(self) -> str:
        """The judge that objected first; `hang` or `crash` for the process."""
        return self.failure.partition(":")[0] if self.seed is not None else NOT_FOUND


@dataclass(slots=True)
class Results:
    """See the module."""

    path: Path
    sound: dict[int, frozenset[str]] = field(default_factory=dict)  # seed: bugs that it reaches
    failed: set[int] = field(default_factory=set)  # seeds that the product itself fails
    bugs: dict[str, Found] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path) -> Results:
        """Return what the file says; nothing if there is none."""
        results = cls(path)
        if path.exists():
            whole, newline, _ = path.read_text(encoding="utf-8").rpartition("\n")
            path.write_text(whole + newline, encoding="utf-8")  # without a line that was cut
            for line in whole.splitlines():
                results._take(json.loads(line))
        return results

    def _take(self, fact: dict[str, Any]) -> None:
        if "bug" in fact:
            name = fact["bug"]
            self.bugs[name] = Found(
                name, fact["seed"], fact["seeds"], fact["reached"], fact["failure"]
            )
        elif fact["failed"]:
            self.failed.add(fact["seed"])
        else:
            self.sound[fact["seed"]] = frozenset(fact["reached"])

    def note_history(self, seed: int, *, failed: bool, reached: Iterable[str]) -> None:
        """Note a history of the product without a bug."""
        self._write({"seed": seed, "failed": failed, "reached": [] if failed else sorted(reached)})

    def note_bug(self, found: Found) -> None:
        """Note how far a bug was hunted."""
        self._write(
            {
                "bug": found.name,
                "seed": found.seed,
                "seeds": found.seeds,
                "reached": found.reached,
                "failure": found.failure,
            }
        )

    def _write(self, fact: dict[str, Any]) -> None:
        self._take(fact)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(fact, separators=(",", ":")) + "\n")

    def bug(self, name: str) -> Found:
        """Return what is known of a bug."""
        return self.bugs.get(name, Found(name))

    def is_known(self, seed: int) -> bool:
        """Whether the product without a bug has told this seed."""
        return seed in self.failed or seed in self.sound


def path_of_today() -> Path:
    """Return where results of the tree as it is are kept."""
    return ROOT / "build" / "mutants" / f"{_commit()}.jsonl"


def _commit() -> str:
    head = _git("rev-parse", "HEAD").strip()[:COMMIT_CHARS]
    changes = _git("diff", "HEAD", "--", "*.py")
    if not changes:
        return head
    return f"{head}+{hashlib.sha256(changes.encode()).hexdigest()[:COMMIT_CHARS]}"


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout
