"""The project's image, built without a registry, and containers of it, run without an engine.

Needs root on Linux with buildah, mmdebstrap, util-linux and overlay mounts; `missing()` names
those that are not installed. The Dockerfile's base is built from Debian's packages once for each
Python (a tar below .oracle/). BARNABAS_IMAGE_BASE names a base for the newest Python in a registry
that this machine can reach.

A Container runs the image as an engine would: with its own mounts over the image's files, the
command as process 1 of its own process table, its own network with only loopback, no capabilities
and no new privileges, and the image's user, environment and directory. `inside` runs a function
in the container's network, as a client there would.
"""

import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

Result = TypeVar("Result")

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".oracle" / "image"
BASE_VARIABLE = "BARNABAS_IMAGE_BASE"
NEWEST, OLDEST = "3.14", "3.11"
SUITES = {NEWEST: "unstable", OLDEST: "bookworm"}  # of Debian, by the Python that it has
PACKAGES = "python3,python3-venv,python3-pip,ca-certificates,bash,passwd,hostname"
PROGRAMS = ("buildah", "mmdebstrap", "unshare", "nsenter", "setpriv")
BASE_SECONDS, BUILD_SECONDS, TESTS_SECONDS, READY_SECONDS = 600, 600, 900, 120
CERTIFICATES = ("--volume", "/etc/ssl/certs:/etc/ssl/certs:ro")
CHROOT = ("--isolation", "chroot", "--network", "host")
VERSION = "import sys; print('%d.%d' % sys.version_info[:2])"
# Runs the unit tests and properties of the tree at /src in the base; they do not write to /src.
# Not those that need a socket, the commands openssl or ps, or the client of another project.
TESTS = """
cd /src
python3 -m venv /tmp/environment
/tmp/environment/bin/pip install --quiet --require-hashes -r requirements-dev.lock
exec env PYTHONDONTWRITEBYTECODE=1 HYPOTHESIS_STORAGE_DIRECTORY=/tmp/hypothesis \
    /tmp/environment/bin/python -m pytest -q -p no:cacheprovider --numprocesses 2 --dist loadfile \
    -m 'not interop and not slow and not faults' tests/unit tests/property \
    --ignore tests/unit/broker/security/test_tls.py \
    --ignore tests/unit/broker/test_user_secrets.py \
    --ignore tests/unit/broker/network/test_handshakes.py \
    --ignore tests/unit/broker/security/oauth/test_key_download.py \
    --ignore tests/unit/broker/test_secrets_stay.py
"""
POLL_SECONDS = 0.02
CLONE_NEWNET = 0x40000000
UNPRIVILEGED = ("--clear-groups", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all")

# The steps of an engine between the image and the command. Arguments: scratch directory, the
# image's files, the volume's directory, its mount point, read-only or not, python; then
# NAME=VALUE… COMMAND.
PREPARE = r"""
scratch=$1 image=$2 volume=$3 place=$4 mode=$5 python=$6
shift 6
mount -t tmpfs tmpfs "$scratch"
mkdir "$scratch/upper" "$scratch/work" "$scratch/root"
root=$scratch/root
mount -t overlay -o "lowerdir=$image,upperdir=$scratch/upper,workdir=$scratch/work" overlay "$root"
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for node in null zero full random urandom; do
    : > "$root/dev/$node"
    mount --bind "/dev/$node" "$root/dev/$node"
done
hostname barnabas-test
printf '127.0.0.1 localhost barnabas-test kafka\n' > "$root/etc/hosts"
mount --bind "$volume" "$root$place"
"$python" -c '
import fcntl, socket, struct
request = struct.pack("16sh14x", b"lo", 0x1)  # IFF_UP
fcntl.ioctl(socket.socket(), 0x8914, request)  # SIOCSIFFLAGS
'
mount -o "remount,bind,$mode" "$root"
exec env -i "$@"
"""


class ImageNotMade(Exception):
    """The base or the image could not be built; the message ends with the program's output."""


def missing() -> str:
    """Return what this machine lacks to build and run an image; "" if nothing."""
    if os.geteuid() != 0:
        return "building and running an image needs root here"
    wanted = [name for name in PROGRAMS if name != "mmdebstrap" or BASE_VARIABLE not in os.environ]
    lacking = [program for program in wanted if shutil.which(program) is None]
    if lacking:
        return f"no {', '.join(lacking)} on this machine: `apt-get install buildah mmdebstrap`"
    probe = (
        'mount -t tmpfs t "$0" && mkdir "$0/a" "$0/b" "$0/c"'
        ' && mount -t overlay -o "lowerdir=/etc,upperdir=$0/a,workdir=$0/b" o "$0/c"'
    )
    CACHE.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        ["unshare", "--mount", "--net", "sh", "-c", probe, str(CACHE)], capture_output=True
    )
    return "" if done.returncode == 0 else f"no overlay mounts here: {done.stderr.decode()}"


def _run(command: Sequence[str], seconds: float) -> str:
    try:
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired as expired:
        raise ImageNotMade(f"{command[0]} took more than {seconds} s") from expired
    if done.returncode:
        told = (done.stdout + done.stderr)[-2000:]
        raise ImageNotMade(f"{' '.join(command)} ended with {done.returncode}:\n{told}")
    return done.stdout


class Image:
    """The built image: `files` is the path of its root, `config` what its Dockerfile declares."""

    def __init__(self, storage: Path, python: str = NEWEST) -> None:
        self._storage = storage
        self.python = python
        self._base = ""
        self._buildah = ["buildah", "--storage-driver", "vfs"]
        self._buildah += ["--root", str(storage / "root"), "--runroot", str(storage / "run")]
        self.files: Path
        self.config: dict[str, Any]

    def make_base(self) -> Self:
        """Make the base image, if none is named. Raises ImageNotMade."""
        named = os.environ.get(BASE_VARIABLE)
        if named and self.python != NEWEST:
            raise ImageNotMade(f"{BASE_VARIABLE} is the only base")
        self._base = named or self._debian_base()
        return self

    def test(self) -> str:
        """Run the tests that need no socket in the base; return their output.

        Raises ImageNotMade with the end of the output if a test fails.
        """
        container = self._run("from", self._base).strip()
        source = ("--volume", f"{ROOT}:/src:ro")
        command = [*self._buildah, "run", *CHROOT, *CERTIFICATES, *source, container, "--"]
        return _run([*command, "sh", "-e", "-c", TESTS], TESTS_SECONDS)

    def build(self) -> Self:
        """Build the image and unpack its files. Raises ImageNotMade."""
        self._run(
            "bud", *CHROOT, "--format", "docker", "--layers=false", *CERTIFICATES,
            "--build-arg", f"BASE={self._base}", "--tag", "barnabas", ".",
        )  # fmt: skip
        told = json.loads(self._run("inspect", "--type", "image", "barnabas"))
        self.config = told["Docker"]["config"]
        container = self._run("from", "barnabas").strip()
        self.files = Path(self._run("mount", container).strip())
        return self

    def _run(self, *arguments: str) -> str:
        return _run([*self._buildah, *arguments], BUILD_SECONDS)

    def _debian_base(self) -> str:
        suite = SUITES[self.python]
        tar = CACHE / f"{suite}.tar"
        if not tar.exists():
            CACHE.mkdir(parents=True, exist_ok=True)
            part = CACHE / f"part.{suite}.tar"
            part.unlink(missing_ok=True)
            # A mirror may be out of date; its packages are signed all the same.
            late = 'Acquire::Check-Valid-Until "false"'
            options = ["--variant=minbase", f"--aptopt={late}", f"--include={PACKAGES}"]
            _run(["mmdebstrap", *options, suite, str(part)], BASE_SECONDS)
            part.rename(tar)
        container = self._run("from", "scratch").strip()
        self._run("add", "--quiet", container, str(tar), "/")
        found = self._run("run", *CHROOT, container, "--", "python3", "-c", VERSION).strip()
        if found != self.python:
            raise ImageNotMade(f"Debian's {suite} has Python {found} by now, not {self.python}")
        name = f"localhost/python:{self.python}-slim"
        self._run("commit", "--quiet", "--rm", container, name)
        return name

    def remove(self) -> None:
        """Remove everything except the tars of the bases."""
        self._run("rm", "--all")
        shutil.rmtree(self._storage)

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment variables that the image sets."""
        return dict(entry.split("=", 1) for entry in self.config["Env"])

    @property
    def volume(self) -> str:
        """Return the path of the image's only volume."""
        (path,) = self.config["Volumes"]
        return str(path)

    @property
    def user(self) -> tuple[int, int]:
        """Return the user id and group id of the image."""
        user, _, group = self.config["User"].partition(":")
        return int(user), int(group)


class Container:
    """One container of `image` with `volume` as its data; `place` holds scratch and its log."""

    def __init__(
        self,
        image: Image,
        place: Path,
        *,
        volume: Path | None = None,
        environment: Mapping[str, str] | None = None,
        command: Sequence[str] = (),
        read_only: bool = False,
    ) -> None:
        self.image = image
        self.volume = volume or place / "volume"
        self._scratch = place / "scratch"
        self._log = place / "log"
        self._environment = {
            **image.environment,
            **(environment or {}),
            "HOSTNAME": "barnabas-test",
        }
        self._command = [*(command or image.config["Cmd"])]
        self._mode = "ro" if read_only else "rw"
        self._process: subprocess.Popen[bytes]
        self.pid = 0

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self.stop(signal.SIGKILL)

    def start(self) -> Self:
        """Start the command. It is process 1 inside the container and `pid` outside."""
        self._scratch.mkdir(parents=True, exist_ok=True)
        if not self.volume.exists():  # engines make a volume empty, owned by the image's user
            self.volume.mkdir()
            os.chown(self.volume, *self.image.user)
        command = ["unshare", "--mount", "--net", "--pid", "--uts", "--ipc", "--fork"]
        command += ["--kill-child", "sh", "-e", "-c", PREPARE, "container"]
        command += [str(self._scratch), str(self.image.files), str(self.volume), self.image.volume]
        command += [self._mode, sys.executable]
        command += [f"{name}={value}" for name, value in self._environment.items()]
        command += ["chroot", str(self._scratch / "root"), *self._as_user(self._command)]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )
        try:
            self._find_first_process()
        except BaseException:
            self._process.kill()  # --kill-child ends the processes inside
            self._process.wait()
            raise
        return self

    def _find_first_process(self) -> None:
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        self._wait(lambda: bool(children.read_text().split()), "a first process")
        self.pid = int(children.read_text().split()[0])
        root = Path(f"/proc/{self.pid}/root")
        self._wait(lambda: root.readlink() != Path("/"), "root of its own")

    def _as_user(self, command: Sequence[str]) -> list[str]:
        user, group = self.image.user
        directory = self.image.config["WorkingDir"]
        drop = ["setpriv", f"--reuid={user}", f"--regid={group}", *UNPRIVILEGED]
        return [*drop, "sh", "-c", 'cd "$0" && exec "$@"', directory, *command]

    def log(self) -> str:
        """Return the container's output, over all its starts."""
        return self._log.read_text(errors="replace")

    def wait_for(self, pattern: str) -> None:
        """Return when a line of the log matches, as test containers wait."""
        self._wait(lambda: re.search(pattern, self.log()) is not None, pattern)

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while not condition():
            if self._process.poll() is not None:
                raise AssertionError(f"ended with {self._process.returncode}:\n{self.log()}")
            if time.monotonic() > deadline:
                raise AssertionError(f"no {what} in {READY_SECONDS} s:\n{self.log()}")
            time.sleep(POLL_SECONDS)

    def make_directory(self, path: str) -> None:
        """Make a directory in the container, as a mount does."""
        Path(f"/proc/{self.pid}/root{path}").mkdir(parents=True)

    def copy(self, text: str, path: str, mode: int) -> None:
        """Copy a file into the container as an engine does: as root, with one rename."""
        target = Path(f"/proc/{self.pid}/root{path}")
        part = target.with_name(f".{target.name}.part")
        part.write_text(text)
        part.chmod(mode)
        part.rename(target)

    def execute(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the running container, as its user."""
        enter = ["nsenter", f"--target={self.pid}", "--mount", "--net", "--pid", "--root", "--wd"]
        environment = [f"{name}={value}" for name, value in self._environment.items()]
        return subprocess.run(
            [*enter, "env", "-i", *environment, *self._as_user(command)],
            capture_output=True,
            text=True,
            timeout=READY_SECONDS,
            check=False,
        )

    def inside(self, function: Callable[[], Result]) -> Result:
        """Run a function, and the threads that it starts, in the container's network."""
        results: list[Result] = []

        def enter() -> None:
            with Path(f"/proc/{self.pid}/ns/net").open("rb") as network:
                libc = ctypes.CDLL(None, use_errno=True)
                if libc.setns(network.fileno(), CLONE_NEWNET):
                    raise OSError(ctypes.get_errno(), "setns")
            results.append(function())

        thread = threading.Thread(target=enter)
        thread.start()
        thread.join()
        assert results, f"the function failed in the container's network:\n{self.log()}"
        return results[0]

    def status(self) -> dict[str, list[str]]:
        """Return the /proc status of process 1: name -> fields."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return {name: rest.split() for name, _, rest in (line.partition(":") for line in lines)}

    def stop(self, number: signal.Signals | None = None) -> int:
        """Signal process 1, by default with the image's stop signal; return its exit code."""
        os.kill(self.pid, number or signal.Signals[self.image.config["StopSignal"]])
        return self._process.wait(READY_SECONDS)
