# SPDX-License-Identifier: Apache-2.0
"""Everything around rota-txn serve fails: servers die at every crash point, and so do those that take over; calls between clients,
servers and services are lost, doubled and late. faults_test.py ROTA-TXN-POINTS FAULTPROXY JOURNAL points [BEGIN] | calls COUNT"""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

from bank import Bank, Day
from kit import Server, die_with_parent, wait_for

POINTS = [*("dtm-" + p for p in ("planned", "branch", "registered", "calls", "answered", "decided", "finished", "claimed")),
          *(op + "-" + p for op in ("register", "decide", "abort", "done") for p in ("asked", "begun", "written", "answered"))]


def at_point(program, journal, point):
    """Two servers die there, one after the other; the third finds all that they left."""
    bank, now = Bank(), []
    day, died = None, 0
    try:
        for dies in ("" if point == "dtm-claimed" else point + ":2", point + ":1"):
            now.append(Server(program, journal, env={"ROTA_POINT": dies}))
            day = day or Day(point, 1, bank, bank.base, lambda: now[-1])
            process = now[-1].process
            if not dies:  # to claim there is only what nobody comes again for: a message whose client has gone
                wait_for(lambda d=day: any(o.begun and o.kind == "msg-no" for o in d.orders))
                now[-1].kill()
            wait_for(lambda p=process, d=day: p.poll() is not None or d.over())
            assert process.poll() in (None, -signal.SIGKILL), process.poll()
            died += process.poll() is not None
            if process.poll() is None:
                now[-1].end()
        assert died == 2, "%s: %d died" % (point, died)
        now.append(Server(program, journal))
        day.end()
        now[-1].end()
    finally:
        for server in now:
            if server.process.poll() is None:
                server.kill()
    print("ok", point, flush=True)


class Proxy:
    """The fault proxy, in front of PORT."""

    def __init__(self, program, port, seed):
        self.process = subprocess.Popen([program, "--http", "--seed", str(seed), str(port)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, preexec_fn=die_with_parent)
        self.port = int(self.process.stdout.readline().split()[1])
        self.faults = []

    def say(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().split()
        assert answer and answer[-1] == "ok", (line, answer)
        return answer

    def fault(self, on, what, chance, *more):
        number = self.say(" ".join(["fault", on, what, "times=always", "chance=%d" % chance, *more]))[0]
        self.faults.append((on + " " + what, number))

    def hits(self):
        return {name: int(self.say("hits " + number)[0]) for name, number in self.faults}

    def end(self):
        self.process.stdin.close()
        self.process.wait()


ROUNDS = 10  # at most: the faults are drawn, and each kind must have come


def calls(program, faultproxy, journal, count):
    """Clients, server and services behind proxies. What is cut is lost at once, what is dropped after a while; what is delayed
    for longer than its asker waits is late: a try after its cancel, too."""
    seed = int(os.environ.get("ROTA_SEED") or int.from_bytes(os.urandom(3), "big"))
    print("ROTA_SEED=%d" % seed, flush=True)
    bank = Bank()
    server = Server(program, journal)
    proxies = [Proxy(faultproxy, server.port, seed), Proxy(faultproxy, bank.port, seed + 1)]
    try:
        for p in proxies:
            for on in ("request", "reply"):
                p.fault(on, "cut", 4)
                p.fault(on, "drop", 2)
            p.fault("request", "double", 5)
            p.fault("request", "delay", 2, "us=4000000")
        server.through = proxies[0].port
        day, rounds = None, 0
        while day is None or (any(hits[0][kind] + hits[1][kind] == 0 for kind in hits[0]) and rounds < ROUNDS):
            more = Day("calls-%d" % rounds, (count + 8) // 9, bank, "http://127.0.0.1:%d" % proxies[1].port, lambda: server)
            for t in more.threads:
                t.join()
            day, rounds = more.after(day), rounds + 1
            hits = [p.hits() for p in proxies]
        for p in proxies:
            p.say("fault-end")
        day.end()
        for kind in hits[0]:
            assert hits[0][kind] + hits[1][kind] > 0, (kind, hits)
        print("ok %d transactions; between clients and server %s; between server and services %s" %
              (len(day.orders), *(re.sub(r"[{}']", "", str(h)) for h in hits)))
        server.end()
    finally:
        for p in proxies:
            p.end()
        if server.process.poll() is None:
            server.kill()


def main():
    program, faultproxy, journal, what, more = *sys.argv[1:5], sys.argv[5:]
    folder = tempfile.mkdtemp(prefix="rota-serve-")

    def journal_of(name):
        return "file:" + os.path.join(folder, name) if journal == "file" else journal

    try:
        if what == "calls":
            calls(program, faultproxy, journal_of("calls"), int(more[0]))
        else:
            points = [p for p in POINTS if not more or p.startswith(tuple(more))]
            with ThreadPoolExecutor(4 if journal == "file" else 1) as pool:
                for _ in pool.map(lambda p: at_point(program, journal_of(p), p), points):
                    pass
            print("%d points" % len(points))
    finally:
        shutil.rmtree(folder)


main()
