"""An installed Barnabas has one name in site-packages, and lives beside any project of a user's.

The wheel is built and installed as a user does it, but for its dependencies: the new environment
takes those from this one, which pip has checked already.
"""

import os
import subprocess
import sys
import venv
from pathlib import Path

import click
import pytest

ROOT = Path(__file__).parents[2]
HOUSE = ("broker", "client", "config", "protocol", "storage")
USERS_TEST = "from {name} import settings\n\n\ndef test_it():\n    assert settings.PORT == 7\n"


def run(command, **options):
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, timeout=120, check=False, **options
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def pip(*arguments):
    quietly = ("--disable-pip-version-check", "--quiet")
    run([sys.executable, "-m", "pip", *quietly, *arguments], cwd=ROOT)


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """An environment with the wheel of this tree; other packages come from the tests' own."""
    home = tmp_path_factory.mktemp("environment")
    venv.create(home, with_pip=False, symlinks=True)
    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", home / "wheels", ".")
    (wheel,) = (home / "wheels").iterdir()
    pip("--python", home / "bin/python", "install", "--no-deps", "--no-index", wheel)
    (packages,) = home.glob("lib/python3*/site-packages")
    # Without the lines of .pth files there: one of them is the editable install of this tree.
    (packages / "others.pth").write_text(f"{Path(click.__file__).parents[1]}\n")
    return home


@pytest.fixture
def project(tmp_path):
    """A user's project with a module of every name of the house."""
    for name in HOUSE:
        (tmp_path / name).mkdir()
        (tmp_path / name / "settings.py").write_text("PORT = 7\n")
        (tmp_path / f"test_{name}.py").write_text(USERS_TEST.format(name=name))
    return tmp_path


def variables(**others):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return kept | others


def test_the_wheel_has_the_page(environment):
    (there,) = environment.glob("lib/python*/site-packages/barnabas/house/broker/console/page")
    here = ROOT / "broker/console/page"
    for directory in ("", "vendor"):
        expected = {path.name for path in (here / directory).iterdir()}
        assert {path.name for path in (there / directory).iterdir()} == expected


def test_the_wheel_has_one_name(environment):
    (record,) = environment.glob("lib/python3*/site-packages/barnabas-*.dist-info/RECORD")
    names = {line.partition("/")[0] for line in record.read_text().splitlines()}
    assert {name for name in names if not name.endswith(".dist-info")} - {".."} == {"barnabas"}


@pytest.mark.parametrize("kind", ["bare", "package"])
@pytest.mark.parametrize("mode", ["prepend", "append", "importlib"])
def test_a_project_with_the_same_names_is_tested(environment, project, kind, mode):
    if kind == "package":
        for name in HOUSE:
            (project / name / "__init__.py").touch()
    command = [environment / "bin/python", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    told = run([*command, f"--import-mode={mode}", "."], cwd=project, env=variables())
    assert f"{len(HOUSE)} passed" in told


def test_a_project_on_the_path_is_not_taken_for_the_house(environment, project):
    for command in ("bin/barnabas",), ("bin/python", "-m", "barnabas"):
        words = [environment / command[0], *command[1:], "topics", "--help"]
        told = run(words, cwd=project, env=variables(PYTHONPATH="."))
        assert "Usage: " in told


def test_programs_do_not_import_the_house(environment, tmp_path):
    tried = "; ".join(
        f"assert importlib.util.find_spec({name!r}) is None, {name!r}" for name in HOUSE
    )
    program = f"import importlib.util, barnabas; {tried}"
    run([environment / "bin/python", "-c", program], cwd=tmp_path, env=variables())


def test_an_editable_install_runs_the_checkout():
    told = run([sys.executable, "-m", "barnabas", "--version"], cwd=ROOT, env=variables())
    assert told.startswith("barnabas ")
