#!/usr/bin/env python3
"""What watching costs: `byrote serve` beside a sweep, and under load.

    cargo build --release && python3 benches/peers/serve_load.py [--pages chromium|streams] [--rounds 3]

Prints, and writes as JSON with --json FILE:
- how long after a job is recorded its point is sent to the pages;
- the time of a sweep of about 15 s with five pages open, divided by its time without (interleaved; the median of the ratios of
  neighbouring runs);
  and, because the clock of a busy machine tells little, the processor time of the sweep with and without, of the server and of the
  pages, as shares of the sweep's: what they take from it if it uses every core;
- the memory of the server with 1,000 idle event streams and under a load of JSON requests from another process.
Pages are tabs of one window of a headless Chromium where there is one, of which the one in front is visible; then, as the worst case, five
windows that are all visible. Without Chromium they are event streams.
"""

import argparse
import base64
import http.client
import json
import os
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
from pathlib import Path

BYROTE = Path(__file__).resolve().parents[2] / "target/release/byrote"
PLAN = """seeds = [{seeds}]
[corpus]
builtin = 100
[model]
d_mlp = [8, 16, 32]
[training]
optimizer = "adam"
steps = {steps}
stop_relative_gap = 1e-9
stall = 0
"""


def serve(folder, *arguments, port=0):
    command = [BYROTE, "serve", *arguments, "--port", str(port), "-q"]
    server = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
    address = server.stdout.readline().strip()
    return server, int(address.rstrip("/").rsplit(":", 1)[1])


def ask(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", path)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, body


def stream(port):
    """An open event stream."""
    made = socket.create_connection(("127.0.0.1", port), timeout=60)
    made.sendall(f"GET /api/events HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
    return made


def sweep(folder, name):
    """Runs the plan in a new directory; returns its seconds by the clock and by the processor."""
    shutil.rmtree(folder / name, ignore_errors=True)
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([BYROTE, "sweep", "plan.toml", "--out", name, "-q"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.monotonic() - began, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def processor(root):
    """Processor seconds of a process and of those below it."""
    ticks, parents = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        process = int(stat.parent.name)
        ticks[process], parents[process] = int(fields[11]) + int(fields[12]), int(fields[1])
    below, new = {root}, {root}
    while new:
        new = {process for process, parent in parents.items() if parent in new} - below
        below |= new
    return sum(ticks.get(process, 0) for process in below) / os.sysconf("SC_CLK_TCK")


def memory(process):
    """Resident megabytes."""
    for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return float("nan")


def latency(folder):
    """Seconds from a line in the journal to the event with its row."""
    (folder / "all").mkdir(exist_ok=True)
    server, port = serve(folder, "all")
    heard, written = {}, {}
    done = threading.Event()

    def listen():
        file = stream(port).makefile("rb")
        for line in file:
            if line.startswith(b"data: ") and b'"rows"' in line:
                for row in json.loads(line[6:])["rows"]:
                    heard[row["job"]] = time.monotonic()
            if done.is_set():
                return

    def tail():
        path, seen = folder / "all/followed/journal.jsonl", 0
        while not done.is_set():
            if path.exists():
                with open(path) as file:
                    lines = file.readlines()
                for line in lines[seen:]:
                    if line.endswith("\n"):
                        row = json.loads(line).get("row")
                        if row:
                            written.setdefault(row["job"], time.monotonic())
                        seen += 1
            time.sleep(0.005)

    for work in (listen, tail):
        threading.Thread(target=work, daemon=True).start()
    time.sleep(1)
    command = [BYROTE, "sweep", folder / "plan.toml", "--out", "followed", "-q"]
    subprocess.run(command, cwd=folder / "all", check=True, stdout=subprocess.DEVNULL)
    time.sleep(1)
    done.set()
    server.kill()
    late = [heard[job] - written[job] for job in written if job in heard]
    first = len(written) - len(late)
    return {"points": len(late), "without_event": first, "median_seconds": statistics.median(late), "largest_seconds": max(late)}


def open_windows(debug, address, number):
    """Opens windows of their own, so that all of them are visible: of the tabs of one window, only the one in front is."""
    version = http.client.HTTPConnection("127.0.0.1", debug, timeout=30)
    version.request("GET", "/json/version")
    path = urllib.parse.urlparse(json.loads(version.getresponse().read())["webSocketDebuggerUrl"]).path
    socket_ = socket.create_connection(("127.0.0.1", debug), timeout=30)
    key = base64.b64encode(os.urandom(16)).decode()
    head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{debug}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n"
    socket_.sendall(head.encode())
    assert socket_.recv(4096).startswith(b"HTTP/1.1 101"), "no web socket"
    for i in range(number):
        message = json.dumps({"id": i, "method": "Target.createTarget", "params": {"url": address, "newWindow": True}}).encode()
        # A text frame, masked with zeros.
        size = bytes([0x80 | len(message)]) if len(message) < 126 else bytes([0x80 | 126]) + len(message).to_bytes(2, "big")
        socket_.sendall(bytes([0x81]) + size + bytes(4) + message)
        assert b"targetId" in socket_.recv(4096), "no further window"
    return socket_


def five_pages(folder, port, chromium, name, windows):
    """Five pages that show a run, in tabs of one window or in windows of their own; returns their process and what closes them."""
    if chromium:
        profile = tempfile.mkdtemp()
        address = f"http://127.0.0.1:{port}/#/runs?id={name}"
        command = [chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0", f"--user-data-dir={profile}"]
        process = subprocess.Popen(command + [address], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        active = Path(profile) / "DevToolsActivePort"
        while not active.exists() or not active.read_text().strip():
            time.sleep(0.1)
        debug = int(active.read_text().split()[0])
        if windows:
            held = open_windows(debug, address, 4)
            return process.pid, lambda: (held.close(), process.kill(), process.wait(), shutil.rmtree(profile, ignore_errors=True))
        for _ in range(4):
            connection = http.client.HTTPConnection("127.0.0.1", debug, timeout=30)
            connection.request("PUT", f"/json/new?{urllib.parse.quote(address, safe='')}")
            assert connection.getresponse().status == 200, "no further tab"
            connection.close()
        return process.pid, lambda: (process.kill(), process.wait(), shutil.rmtree(profile, ignore_errors=True))
    streams = [stream(port) for _ in range(5)]
    threads = []
    for one in streams:
        threads.append(threading.Thread(target=lambda s=one: [None for _ in s.makefile("rb")], daemon=True))
        threads[-1].start()
    return None, lambda: [one.shutdown(socket.SHUT_RDWR) for one in streams]


def slowdown(folder, rounds, chromium, windows=False):
    """The time of a sweep with five pages open by its time without, interleaved."""
    place = folder / "watched"
    place.mkdir(exist_ok=True)
    shutil.copy(folder / "plan.toml", place / "plan.toml")
    sweep(place, "warm")
    alone, watched, of_server, of_pages, idle = [], [], [], [], []
    for _ in range(rounds):
        alone.append(sweep(place, "run"))
        server, port = serve(place, ".")
        pages, close = five_pages(place, port, chromium, "run", windows)
        time.sleep(5 if chromium else 0.5)
        # What the browser takes while nothing happens.
        before = processor(pages) if pages else 0
        time.sleep(5)
        idle.append((processor(pages) - before) / 5 / os.cpu_count() if pages else 0)
        before = processor(server.pid), processor(pages) if pages else 0
        watched.append(sweep(place, "run"))
        of_server.append((processor(server.pid) - before[0]) / watched[-1][1])
        of_pages.append((processor(pages) - before[1]) / watched[-1][1] if pages else 0)
        close()
        server.kill()
        server.wait()
    ratios = [[w[i] / a[i] for w, a in zip(watched, alone)] for i in (0, 1)]
    return {
        "pages": ("five windows" if windows else "five tabs") + " of chromium" if chromium else "streams",
        "seconds_alone": [a[0] for a in alone],
        "seconds_watched": [w[0] for w in watched],
        "median_ratio_of_seconds": statistics.median(ratios[0]),
        "median_ratio_of_processor_time": statistics.median(ratios[1]),
        "server_share_of_processor_time": statistics.median(of_server),
        "pages_share_of_processor_time": statistics.median(of_pages),
        # On a machine that does other work, a sweep takes longer and pages draw for longer: what they take of the cores per second.
        "pages_share_of_cores": statistics.median(s * w[1] / w[0] / os.cpu_count() for s, w in zip(of_pages, watched)),
        "server_share_of_cores": statistics.median(s * w[1] / w[0] / os.cpu_count() for s, w in zip(of_server, watched)),
        "idle_pages_share_of_cores": statistics.median(idle),
    }


LOAD = """
import http.client, sys, time
port, end = int(sys.argv[1]), time.monotonic() + float(sys.argv[2])
paths = ["/api/corpus", "/api/corpus/context?text=Once", "/api/corpus/search?text=upon", "/api/runs", "/api/shapes?d_model=16&d_mlp=512&corpus=1", "/api/corpus/contradictions"]
done = 0
while time.monotonic() < end:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    for path in paths:
        connection.request("GET", path)
        answer = connection.getresponse()
        answer.read()
        done += answer.status == 200
    connection.close()
print(done)
"""


def load(folder, seconds):
    """The memory of the server: alone, with 1,000 idle streams, and under a load of requests."""
    server, port = serve(folder)
    while json.loads(ask(port, "/api/corpus")[1])["state"] == "loading":
        time.sleep(0.05)
    found = {"alone_mb": memory(server)}
    streams = [stream(port) for _ in range(1000)]
    for one in streams:
        assert one.recv(12) == b"HTTP/1.1 200", "a stream was refused"
    found["streams_mb"] = memory(server)
    samples, answered = [], 0
    for _ in range(4):
        clients = [subprocess.Popen([sys.executable, "-c", LOAD, str(port), str(seconds / 4)], stdout=subprocess.PIPE, text=True) for _ in range(2)]
        answered += sum(int(client.communicate()[0]) for client in clients)
        samples.append(memory(server))
    found["under_load_mb"] = samples
    found["requests_per_second"] = answered / seconds
    for one in streams:
        one.close()
    time.sleep(17)
    found["after_mb"] = memory(server)
    found["alive"] = ask(port, "/api/corpus")[0] == 200
    server.kill()
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--steps", type=int, default=16000)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--pages", choices=["chromium", "streams"])
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    chromium = None if given.pages == "streams" else shutil.which("chromium")
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        plan = PLAN.format(seeds=", ".join(map(str, range(given.seeds))), steps=given.steps)
        (folder / "plan.toml").write_text(plan)
        found = {"latency": latency(folder)}
        print(json.dumps(found["latency"]), flush=True)
        for windows in (False, True) if chromium else (False,):
            key = "slowdown_of_windows" if windows else "slowdown"
            found[key] = slowdown(folder, given.rounds, chromium, windows)
            print(json.dumps(found[key]), flush=True)
        found["load"] = load(folder, given.seconds)
        print(json.dumps(found["load"]), flush=True)
    if given.json:
        given.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
