#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rota against another client of etcd, in processes of both, on one name; some are killed; then the log is checked.

  contend.py PAIR --url URL --rota-side PROGRAM --go-side PROGRAM [--grants N] [--kills N] [--seed N]

PAIR: mutex, election, service, etcdctl. What the log says: guard.h; what must hold: check.py.
"""
import argparse
import ctypes
import mmap
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

import check

OWNER, COUNTER, STOP, GRANTS = range(4)

# How many workers of each side, and how long each rests between two rounds (microseconds, at most): so that both
# come to the lock often enough. etcdctl is started anew for every round.
PAIRS = {
    "mutex": (3, 4, 0, 0),
    "election": (3, 4, 0, 0),
    "service": (3, 4, 0, 0),
    "etcdctl": (2, 5, 20000, 0),
}


class Page:
    def __init__(self, path):
        with open(path, "w+b") as f:
            f.truncate(4096)
            self.map = mmap.mmap(f.fileno(), 4096)

    def get(self, word):
        return struct.unpack_from("=Q", self.map, word * 8)[0]

    def set(self, word, value):
        struct.pack_into("=Q", self.map, word * 8, value)


class Run:
    def __init__(self, args):
        self.args = args
        self.folder = tempfile.mkdtemp(prefix="rota-interop-")
        self.page = Page(self.folder + "/guard")
        self.log = open(self.folder + "/log", "ab", buffering=0)
        self.name = "interop-" + args.pair
        self.endpoint = args.url.removeprefix("etcd://").split("?")[0].rstrip("/")
        self.rotas, self.others, self.think, self.other_think = PAIRS[args.pair]
        self.workers = []  # (side, Popen)
        self.observers = []
        self.kills = {"rota": 0, "go": 0}
        self.failures = []

    def spawn(self, *argv):
        return subprocess.Popen(argv, start_new_session=True, stdin=subprocess.DEVNULL)

    def go(self, kind):
        return self.spawn(self.args.go_side, kind, self.endpoint, self.name, self.folder, str(self.other_think))

    def rota(self, kind):
        return self.spawn(self.args.rota_side, kind, self.args.url, self.name, self.folder, str(self.think))

    def worker(self, side):
        pair = self.args.pair
        if side == "rota":
            return self.rota("elect" if pair == "election" else "lock")
        if pair == "etcdctl":
            return self.spawn("etcdctl", "--endpoints", self.endpoint, "lock", "--ttl", "2", self.name,
                              self.args.go_side, "held", self.endpoint, self.folder)
        return self.go(pair)

    def say(self, line):
        self.log.write((line + "\n").encode())

    def begin(self):
        self.observers.append(self.go("watch"))
        self.await_line(b"W\n")
        if self.args.pair == "election":
            self.observers += [self.go("observe"), self.rota("observe")]
        self.workers = [(side, self.worker(side)) for side in ["rota"] * self.rotas + ["go"] * self.others]

    def await_line(self, line):
        end = time.monotonic() + 20
        while line not in open(self.folder + "/log", "rb").read():
            if time.monotonic() > end:
                sys.exit("the watcher did not begin")
            time.sleep(0.01)

    def kill(self, i):
        side, process = self.workers[i]
        begin = time.monotonic_ns()
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        # What etcdctl ran died of the same signal, but it is not ours to wait for: it becomes a zombie of ours,
        # see main().
        try:
            while True:
                os.waitpid(-process.pid, 0)
        except ChildProcessError:
            pass
        if self.page.get(OWNER) == process.pid:
            self.page.set(OWNER, 0)
        self.say(f"X {side} {process.pid} {begin} {time.monotonic_ns()}")
        self.kills[side] += 1
        self.workers[i] = (side, self.worker(side))

    def victim(self):
        """One of the side that was killed less; every other time the one that holds, once one of it does."""
        side = min(self.kills, key=lambda s: (self.kills[s], random.random()))
        of_side = [i for i, (s, _) in enumerate(self.workers) if s == side]
        if random.random() < 0.5:
            return random.choice(of_side)
        end = time.monotonic() + 6  # longer than the line stands still for the lease of one killed before
        while time.monotonic() < end:
            owner = self.page.get(OWNER)
            for i in of_side:
                if self.workers[i][1].pid == owner:
                    time.sleep(0.003)
                    if self.page.get(OWNER) == owner:
                        return i
            time.sleep(0.0005)
            self.tend()
        return random.choice(of_side)

    def tend(self):
        """etcdctl is started again; everybody else must not end by himself."""
        for i, (side, process) in enumerate(self.workers):
            code = process.poll()
            if code is None:
                continue
            if self.args.pair != "etcdctl" or side != "go":
                self.failures.append(f"a worker of {side} ended with {code}")
            elif code != 0:
                self.failures.append(f"etcdctl lock ended with {code}")
            self.workers[i] = (side, self.worker(side))

    def contend(self):
        grants, kills = self.args.grants, self.args.kills
        # Kills are spread over the grants, in bursts of one to three.
        next_kill, moved, last = grants // (kills + 2), time.monotonic(), 0
        while True:
            self.tend()
            done = self.page.get(GRANTS)
            if done != last:
                moved, last = time.monotonic(), done
            killed = sum(self.kills.values())
            if len(self.failures) > 10 or (done >= grants and killed >= kills):
                return
            if time.monotonic() - moved > 60:
                self.failures.append(f"nobody got the lock for a minute, after {done} grants")
                return
            if killed < kills and done >= next_kill:
                burst = min(random.randint(1, 3), kills - killed)
                for _ in range(burst):
                    self.kill(self.victim())
                next_kill = done + burst * grants // (kills + 2)
            time.sleep(0.002)

    def end(self):
        self.page.set(STOP, 1)
        for side, process in self.workers:
            try:
                if process.wait(30) != 0:
                    self.failures.append(f"a worker of {side} ended with {process.returncode}")
            except subprocess.TimeoutExpired:
                self.failures.append(f"a worker of {side} did not end")
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        self.await_empty()
        for process in self.observers:
            if process.poll() is not None:
                self.failures.append(f"an observer ended with {process.returncode}")
            else:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def await_empty(self):
        """Nothing may be left of the line; what the killed left goes with its lease."""
        end = time.monotonic() + 15
        while True:
            keys = subprocess.run(["etcdctl", "--endpoints", self.endpoint, "get", "--prefix", "--keys-only",
                                   self.name + "/"], capture_output=True, check=True).stdout.split()
            if not keys:
                break
            if time.monotonic() > end:
                self.failures.append(f"left behind: {keys}")
                break
            time.sleep(0.2)
        time.sleep(0.3)  # for the watcher to write down the last event: a want of it fails the check, nothing else


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("pair", choices=PAIRS)
    parser.add_argument("--url", required=True)
    parser.add_argument("--rota-side", required=True)
    parser.add_argument("--go-side", required=True)
    parser.add_argument("--grants", type=int, default=5000)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--keep", action="store_true", help="the log")
    args = parser.parse_args()
    random.seed(args.seed)
    os.environ["ETCDCTL_API"] = "3"
    # Grandchildren come to us (PR_SET_CHILD_SUBREAPER), so that a kill is over when we say so.
    ctypes.CDLL(None, use_errno=True).prctl(36, 1, 0, 0, 0)
    run = Run(args)
    started = time.monotonic()
    try:
        run.begin()
        run.contend()
        run.end()
    finally:
        for _, process in run.workers:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    verdict = check.check(run.folder + "/log", args)
    failures = run.failures + verdict.failures
    print(f"{args.pair:9} {verdict.words}; {time.monotonic() - started:.0f} s, seed {args.seed}")
    for failure in failures[:20]:
        print(f"  FAIL {failure}")
    if failures or args.keep:
        print(f"  the log: {run.folder}/log")
    else:
        shutil.rmtree(run.folder)
    sys.exit(1 if failures else 0)


main()
