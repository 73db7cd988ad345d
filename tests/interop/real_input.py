"""Real input: the access log of a real nginx under load, one line a request.

    python tests/interop/real_input.py FILE [LINES]

Starts nginx (found on the PATH or in /usr/sbin) as a user process on a free port of loopback and
drives it with pipelined requests of many paths, statuses, referers and agents, until its log has
LINES lines (1,000,000 unless told); the file is then cut to exactly that many. Where nginx is
missing it says so on standard error and writes lines of the same format from a seeded generator.
"""

import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LINES = 1_000_000
PIPELINED = 200
AGENTS = (
    "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 14_5) AppleWebKit/605.1.15 Version/17.5 Safari/605.1",
    "curl/7.88.1",
    "python-requests/2.32.3",
    "Prometheus/2.53.0",
)
SERVICES = ("users", "orders", "basket", "search", "payments", "images", "login", "metrics")
CONFIGURATION = """
daemon off; master_process off; worker_processes 1;
pid {place}/nginx.pid; error_log {place}/error.log crit;
events {{ worker_connections 256; }}
http {{
  access_log {log} combined buffer=256k;
  client_body_temp_path {place}/b; proxy_temp_path {place}/p; fastcgi_temp_path {place}/f;
  uwsgi_temp_path {place}/u; scgi_temp_path {place}/s;
  keepalive_requests 100000000;
  server {{
    listen 127.0.0.1:{port};
    location / {{ return 200 "ok\\n"; }}
    location /images/ {{ return 304; }}
    location /login/ {{ return 302 /users/; }}
    location /payments/ {{ return 503; }}
    location /basket/ {{ return 404; }}
  }}
}}
"""


def requests(count: int, seed: int) -> list[bytes]:
    """`count` requests of one connection, each as its bytes."""
    chance = random.Random(seed)
    out = []
    for _ in range(count):
        path = f"/{chance.choice(SERVICES)}/{chance.randrange(1 << chance.randrange(4, 30)):x}"
        if chance.random() < 0.3:
            path += f"?page={chance.randrange(50)}&q={'x' * chance.randrange(40)}%20%C3%A9"
        referer = f"https://shop.example/{chance.choice(SERVICES)}" if chance.random() < 0.5 else ""
        head = f"GET {path} HTTP/1.1\r\nHost: a\r\nUser-Agent: {chance.choice(AGENTS)}\r\n"
        head += f"Referer: {referer}\r\n" if referer else ""
        out.append(f"{head}\r\n".encode())
    return out


def _drive(port: int, total: int) -> None:
    """Send `total` pipelined requests and read every answer."""
    with socket.create_connection(("127.0.0.1", port), 30) as sock:
        done = 0
        while done < total:
            burst = requests(min(PIPELINED * 10, total - done), seed=done)
            for begin in range(0, len(burst), PIPELINED):
                part = burst[begin : begin + PIPELINED]
                sock.sendall(b"".join(part))
                answered = 0
                while answered < len(part):
                    # every answer has this line once, and no body has it
                    data = sock.recv(1 << 20)
                    while data.count(b"\n") == 0 or not data.endswith(b"\n"):
                        data += sock.recv(1 << 20)
                    answered += data.count(b"\r\nServer: nginx")
            done += len(burst)


def from_nginx(nginx: str, log: Path, lines: int) -> None:
    """Let nginx write `lines` lines to `log`."""
    with tempfile.TemporaryDirectory() as place, socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        configuration = Path(place) / "nginx.conf"
        text = CONFIGURATION.format(place=place, log=log.absolute(), port=port)
        if os.geteuid() == 0:
            text = f"user root;\n{text}"
        configuration.write_text(text)
        process = subprocess.Popen([nginx, "-c", str(configuration), "-p", place])
        try:
            for _ in range(200):
                try:
                    socket.create_connection(("127.0.0.1", port), 1).close()
                    break
                except OSError:
                    time.sleep(0.02)
            _drive(port, lines)
        finally:
            process.terminate()
            process.wait(20)


def generated(log: Path, lines: int) -> None:
    """The same format without nginx."""
    chance = random.Random(1)
    with log.open("w") as file:
        for number in range(lines):
            service = chance.choice(SERVICES)
            file.write(
                f"127.0.0.1 - - [20/Nov/2026:10:{number // 60 % 60:02}:{number % 60:02} +0000]"
                f' "GET /{service}/{chance.randrange(1 << 30):x} HTTP/1.1"'
                f" {chance.choice((200, 302, 304, 404, 503))} {chance.randrange(5000)}"
                f' "-" "{chance.choice(AGENTS)}"\n'
            )


def make(log: Path, lines: int = LINES) -> str:
    """Write the file and return the source of its lines: "nginx" or "generated"."""
    nginx = shutil.which("nginx") or shutil.which("/usr/sbin/nginx")
    log.unlink(missing_ok=True)
    if nginx is None:
        sys.stderr.write("no nginx on this machine: the lines are GENERATED, not real\n")
        generated(log, lines)
        return "generated"
    from_nginx(nginx, log, lines)
    with log.open("rb") as file:
        found = sum(1 for _ in file)
    if found != lines:
        raise RuntimeError(f"nginx wrote {found} lines to {log}, expected {lines}")
    return "nginx"


if __name__ == "__main__":
    begun = time.monotonic()
    target = Path(sys.argv[1])
    source = make(target, int(sys.argv[2]) if len(sys.argv) > 2 else LINES)
    seconds = time.monotonic() - begun
    sys.stderr.write(f"{target}: {target.stat().st_size:,} bytes from {source}, {seconds:.1f} s\n")
