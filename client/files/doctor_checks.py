"""What can be wrong with a machine, a data directory or a configuration before anybody notices.

Each check returns findings: what was looked at, how bad it is, what was found and what to do. A
check that cannot look says so. The only thing written is one file for timing fsyncs, in the data
directory's file system, which is removed again.

    machine      the kind of file system, its mount, room and inodes, the time of an fdatasync,
                 descriptors, memory and CPU limits of the cgroup, the clock
    broker       listeners whose ports are taken, an advertised address that nothing answers at,
                 keys without effect or unknown
    directory    its lock, its owner, its identity, a quick look for damage
"""

from __future__ import annotations

import errno
import os
import re
import resource
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from broker.runtime.clock import SystemClock
from config.listeners import WILDCARDS, Listener
from config.load import Loaded
from storage.files import filenames
from storage.files.os_filesystem import OsFileSystem

GOOD, NOTE, WARNING, BAD = "good", "note", "warning", "bad"
SYNCS: Final = 200
SYNC_BYTES: Final = 4096
SLOW_SYNC_MS: Final = 50.0
FREE_BYTES_MIN: Final = 1 << 30
FREE_SHARE_MIN: Final = 0.05
INODES_MIN: Final = 10_000
DESCRIPTORS_MIN: Final = 20_000
MEMORY_MIN: Final = 128 << 20
EARLIEST_MS: Final = 1_735_689_600_000  # 2025: a machine without a clock starts in 1970
CONNECT_SECONDS: Final = 3.0

_OCTAL: Final = re.compile(r"\\([0-7]{3})")

NETWORKED: Final = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "ceph", "glusterfs", "afs", "virtiofs"}
)
IN_MEMORY: Final = frozenset({"tmpfs", "ramfs", "devtmpfs"})


@dataclass(frozen=True, slots=True)
class Advice:
    """The result of one check. `weight` is GOOD, NOTE, WARNING or BAD; `remedy` says what to do."""

    check: str
    weight: str
    found: str
    remedy: str = ""


class Mount(NamedTuple):
    """A line of /proc/self/mountinfo."""

    point: str
    kind: str
    options: frozenset[str]


def mount_of(path: str, lines: str) -> Mount | None:
    """Return the mount that a path is on, from the text of /proc/self/mountinfo."""
    best = None
    for line in lines.splitlines():
        left, dash, right = line.partition(" - ")
        fields = left.split()
        if not dash or len(fields) < 6:
            continue
        point = _OCTAL.sub(lambda found: chr(int(found[1], 8)), fields[4])  # a space is \040
        kind, _, super_options = [*right.split(), "", "", ""][:3]
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if inside and (best is None or len(point) >= len(best.point)):
            options = frozenset([*fields[5].split(","), *super_options.split(",")])
            best = Mount(point, kind, options)
    return best


def existing_parent(path: str) -> str:
    """Return the path itself, or the nearest directory above it that exists."""
    path = os.path.realpath(path)
    while not os.path.exists(path):
        path = os.path.dirname(path)
    return path


def check_file_system(data: str) -> Iterator[Advice]:
    """Check the kind of file system and how it is mounted."""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
            mount = mount_of(existing_parent(data), file.read())
    except OSError as error:
        yield Advice("file system", NOTE, f"unknown: /proc/self/mountinfo: {error.strerror}")
        return
    if mount is None:
        yield Advice("file system", NOTE, "unknown: no mount found")
        return
    place = f"{mount.kind} at {mount.point}"
    if mount.kind in IN_MEMORY:
        yield Advice(
            "file system", WARNING, f"{place}: in memory, gone at a restart of the machine",
            "for tests only; otherwise put log.dirs on a disk",
        )  # fmt: skip
    elif mount.kind == "overlay":
        yield Advice(
            "file system", WARNING, f"{place}: a container's own layer, gone with the container",
            "mount a volume at log.dirs",
        )  # fmt: skip
    elif mount.kind in NETWORKED or mount.kind.startswith("fuse."):
        yield Advice(
            "file system", WARNING, f"{place}: over a network; locks and fsync may not hold",
            "put log.dirs on a local disk, or try a power cut of the server first",
        )  # fmt: skip
    else:
        yield Advice("file system", GOOD, place)
    if "ro" in mount.options:
        yield Advice(
            "mount", BAD, f"{mount.point} is mounted read-only",
            "remount it, or serve with --read-only",
        )  # fmt: skip
    for option in sorted(mount.options & {"nobarrier", "barrier=0", "data=writeback"}):
        yield Advice(
            "mount", WARNING, f"{mount.point} has the option {option}: a power cut may lose"
            " what was acknowledged", "mount it without this option",
        )  # fmt: skip


def check_room(data: str) -> Iterator[Advice]:
    """Check free bytes and inodes."""
    place = existing_parent(data)
    found = os.statvfs(place)
    free = found.f_bavail * found.f_frsize
    total = found.f_blocks * found.f_frsize
    text = f"{free / (1 << 30):.1f} GiB of {total / (1 << 30):.1f} GiB free"
    if free < FREE_BYTES_MIN or (total and free < total * FREE_SHARE_MIN):
        weight = BAD if free < FREE_BYTES_MIN // 16 else WARNING
        yield Advice(
            "room", weight, text, "free some, or shorten retention: at zero, producers are refused"
        )
    else:
        yield Advice("room", GOOD, text)
    if found.f_files and found.f_favail < INODES_MIN:
        yield Advice(
            "inodes", WARNING, f"{found.f_favail:,} free", "a partition needs some ten files"
        )


def check_sync(data: str, count: int = SYNCS) -> Iterator[Advice]:
    """Time appends of 4 KiB with fdatasync, as an acknowledgement needs one."""
    clock, place = SystemClock(), existing_parent(data)
    path = os.path.join(place, f".barnabas-doctor-{os.getpid()}.tmp")
    times = []
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.unlink(path)
            block = b"\1" * SYNC_BYTES
            for _ in range(count):
                before = clock.monotonic_ns()
                os.write(fd, block)
                os.fdatasync(fd)
                times.append((clock.monotonic_ns() - before) / 1e6)
        finally:
            os.close(fd)
    except OSError as error:
        weight = BAD if error.errno != errno.ENOSPC else WARNING
        yield Advice(
            "fdatasync", weight, f"{place}: {error.strerror}", "the broker must write here"
        )
        return
    times.sort()
    half, late = times[len(times) // 2], times[len(times) * 99 // 100]
    text = f"p50 {half:.2f} ms, p99 {late:.2f} ms of {count} appends"
    if late > SLOW_SYNC_MS:
        yield Advice(
            "fdatasync", WARNING, text,
            "each acks=all waits for one: use a faster disk, or write.caching=true where losing the"
            " last seconds at a power cut is acceptable",
        )  # fmt: skip
    elif half < 0.005:
        yield Advice(
            "fdatasync", WARNING, f"{text}: too fast for a disk, nothing is made durable",
            "look at the file system and its mount",
        )  # fmt: skip
    else:
        yield Advice("fdatasync", GOOD, text)


def check_limits() -> Iterator[Advice]:
    """Check descriptors, and the limits of the cgroup."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= hard < DESCRIPTORS_MIN:
        yield Advice(
            "descriptors", WARNING, f"at most {hard:,}",
            f"raise the limit to {DESCRIPTORS_MIN:,} or more (LimitNOFILE=, ulimit -Hn)",
        )  # fmt: skip
    else:
        yield Advice("descriptors", GOOD, f"up to {hard:,}")
    memory = _cgroup("memory.max", "memory/memory.limit_in_bytes")
    if memory is not None and memory.isdecimal() and int(memory) < 1 << 50:
        weight = WARNING if int(memory) < MEMORY_MIN else GOOD
        remedy = "give it 128 MiB or more" if weight == WARNING else ""
        yield Advice("memory", weight, f"limited to {int(memory) >> 20} MiB", remedy)
    cpu = _cgroup("cpu.max", "")
    if cpu is not None and not cpu.startswith("max"):
        quota, _, period = cpu.partition(" ")
        share = int(quota) / int(period or 100_000)
        weight = WARNING if share < 0.5 else GOOD
        remedy = "the event loop is paused for the rest of each period: give it one core"
        yield Advice("cpu", weight, f"limited to {share:.2f} cores", remedy if share < 0.5 else "")


def _cgroup(name: str, old: str) -> str | None:
    """Return a limit of this process's cgroup."""
    try:
        with open("/proc/self/cgroup", encoding="ascii") as file:
            own = next((line[3:].strip() for line in file if line.startswith("0::")), "/")
    except OSError:
        own = "/"
    for path in (f"/sys/fs/cgroup{own}/{name}", f"/sys/fs/cgroup/{name}", f"/sys/fs/cgroup/{old}"):
        try:
            with open(path, encoding="ascii") as file:
                return file.read().strip()
        except OSError:
            continue
    return None


def check_clock(now_ms: int) -> Iterator[Advice]:
    """Check that the clock was set: retention and timestamps go by it."""
    if now_ms < EARLIEST_MS:
        yield Advice("clock", BAD, "the machine's clock is not set", "start NTP before the broker")
    else:
        yield Advice("clock", GOOD, "set")


def check_listeners(loaded: Loaded, *, is_running: bool) -> Iterator[Advice]:
    """Check that ports are free, or, with a broker on the directory, that they answer."""
    config = loaded.config
    listeners = [*config.served_listeners, *([config.http] if config.http else [])]
    for listener in listeners:
        if is_running or not listener.port:
            continue
        why = _why_not_bound(listener)
        if why:
            yield Advice(
                "port", BAD, f"{listener}: {why}", "stop what uses it, or change `listeners`"
            )
        else:
            yield Advice("port", GOOD, f"{listener} is free")
    for name, listener in config.advertised.items():
        yield from _advertised(name, listener, is_running=is_running)


def _why_not_bound(listener: Listener) -> str:
    host = listener.host if listener.host not in WILDCARDS else ""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family) as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((host, listener.port))
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _advertised(name: str, listener: Listener, *, is_running: bool) -> Iterator[Advice]:
    place = f"{listener.host}:{listener.port}"
    check = f"advertised {name}"
    try:
        if not is_running:
            socket.getaddrinfo(listener.host, listener.port, type=socket.SOCK_STREAM)
            yield Advice(check, GOOD, f"{place} resolves")
            return
        socket.create_connection((listener.host, listener.port), CONNECT_SECONDS).close()
        yield Advice(check, GOOD, f"{place} accepts connections from here")
    except OSError as error:
        yield Advice(
            check, WARNING, f"{place} from here: {error.strerror or error}",
            "clients are told this address after their first request; they hang if they cannot"
            " reach it",
        )  # fmt: skip


def check_keys(loaded: Loaded) -> Iterator[Advice]:
    """Check for keys that are unknown or have no effect."""
    for warning in loaded.warnings:
        yield Advice("configuration", WARNING, warning, "correct or remove it")
    if loaded.without_effect:
        yield Advice(
            "configuration", NOTE, f"without effect here: {', '.join(loaded.without_effect)}"
        )
    if not loaded.warnings and not loaded.without_effect:
        yield Advice("configuration", GOOD, f"{len(loaded.static)} keys set, all have an effect")


def check_directory(data: str) -> Iterator[Advice]:
    """Check who uses the directory, whose it is, and that this user may write everywhere."""
    if not os.path.exists(os.path.join(data, filenames.META_PROPERTIES)):
        if os.path.isdir(data) and os.listdir(data):
            yield Advice("directory", WARNING, f"{data} is not empty, and no data directory yet")
        else:
            yield Advice("directory", GOOD, f"{data} is new")
        return
    holder = OsFileSystem().lock_holder(os.path.join(data, filenames.LOCK))
    used = {None: "no broker uses it", 0: "a broker in another container uses it"}
    yield Advice("directory", GOOD, f"{data}: {used.get(holder, f'process {holder} uses it')}")
    owners: dict[int, str] = {}
    refused: list[str] = []
    for folder, _, names in os.walk(data):
        for path in (folder, *(os.path.join(folder, name) for name in names)):
            try:
                owners.setdefault(os.lstat(path).st_uid, path)
            except FileNotFoundError:
                continue
            if len(refused) < 3 and os.path.exists(path) and not os.access(path, os.W_OK):
                refused.append(path)
    if len(owners) > 1:
        told = ", ".join(f"user {uid}: {path}" for uid, path in sorted(owners.items()))
        yield Advice(
            "owner", WARNING, f"files of several users ({told})",
            "chown them to the broker's user: one command was run as another user",
        )  # fmt: skip
    if refused:
        yield Advice(
            "owner", BAD, f"this user (id {os.getuid()}) may not write {', '.join(refused)}",
            "run this as the broker's user, or chown the directory",
        )  # fmt: skip


Check = Callable[[], Iterator[Advice]]
