#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rota against another client of its engine, in processes of both, on one name; some are killed; then the log is checked.

  contend.py ENGINE PAIR --url URL --rota-side PROGRAM --other-side PROGRAM [--grants N] [--kills N] [--seed N]
             [--calm]

ENGINE: a folder beside this, whose pairs.py says which PAIRs there are, and how the other side is started. What the log
says: guard.h; what must hold: check.py. Calm: nobody is killed, nothing ends by its time, and it goes on until each side had
its fifth of the grants, however long that takes: for make test.
"""
import argparse
import ctypes
import importlib.util
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
    def __init__(self, args, pairs):
        self.args = args
        self.folder = tempfile.mkdtemp(prefix="rota-interop-")
        self.page = Page(self.folder + "/guard")
        self.log = open(self.folder + "/log", "ab", buffering=0)
        self.name = "interop-" + args.pair
        self.rotas, self.others, self.think, self.other_think = pairs.PAIRS[args.pair]
        self.engine = pairs.Engine(self)
        self.frees_at_once = getattr(pairs, "FREES_AT_ONCE", False)  # a lock ends with its holder, not by a time
        self.workers = []  # (side, Popen)
        self.observers = []
        self.kills = {"rota": 0, args.other: 0}
        self.failures = []

    def spawn(self, argv):
        return subprocess.Popen(argv, start_new_session=True, stdin=subprocess.DEVNULL)

    def rota(self, kind):
        return [self.args.rota_side, kind, self.engine.url(), self.name, self.folder, str(self.think)]

    def observe(self, argv):
        self.observers.append(self.spawn(argv))

    def worker(self, side):
        return self.spawn(self.rota(self.engine.rota_kind()) if side == "rota" else self.engine.other())

    def say(self, line):
        self.log.write((line + "\n").encode())

    def begin(self):
        """The other side first: on a busy machine all would be over before a JVM is there."""
        self.engine.begin()
        self.workers = [(self.args.other, self.worker(self.args.other)) for _ in range(self.others)]
        end = time.monotonic() + 60
        while self.page.get(GRANTS) == 0 and time.monotonic() < end:
            self.tend()
            time.sleep(0.002)
        self.workers += [("rota", self.worker("rota")) for _ in range(self.rotas)]

    def await_line(self, line):
        end = time.monotonic() + 20
        while line not in open(self.folder + "/log", "rb").read():
            if time.monotonic() > end:
                sys.exit("the watcher did not begin")
            time.sleep(0.01)

    def out(self, side, pid, begin):
        if self.page.get(OWNER) == pid:
            self.page.set(OWNER, 0)
        self.say(f"X {side} {pid} {begin} {time.monotonic_ns()}")

    def kill(self, i):
        side, process = self.workers[i]
        begin = time.monotonic_ns()
        if self.frees_at_once:  # stopped it is out, and what it holds is still its own: the next enters after the log says so
            os.killpg(process.pid, signal.SIGSTOP)
            os.waitpid(process.pid, os.WUNTRACED)
            self.out(side, process.pid, begin)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        # What it ran itself (etcdctl does) died of the same signal, but it is not ours to wait for: it becomes a
        # zombie of ours, see main().
        try:
            while True:
                os.waitpid(-process.pid, 0)
        except ChildProcessError:
            pass
        if not self.frees_at_once:
            self.out(side, process.pid, begin)
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
        """Who ends after each round (etcdctl) is started again; everybody else must not end by himself."""
        for i, (side, process) in enumerate(self.workers):
            code = process.poll()
            if code is None:
                continue
            if code != 0 or side == "rota" or not self.engine.ends_by_itself():
                self.failures.append(f"a worker of {side} ended with {code}")
            self.workers[i] = (side, self.worker(side))

    def done(self):
        if not self.args.calm:
            return self.page.get(GRANTS)
        with open(self.folder + "/log", "rb") as f:
            sides = [line.split(b" ")[1].decode() for line in f if line.startswith(b"E ")]
        return min(len(sides), 5 * sides.count("rota"), 5 * sides.count(self.args.other))

    def contend(self):
        grants, kills = self.args.grants, self.args.kills
        # Kills are spread over the grants, in bursts of one to three.
        next_kill, moved, last = grants // (kills + 2), time.monotonic(), 0
        while True:
            self.tend()
            done = self.done()
            if done != last:
                moved, last = time.monotonic(), done
            killed = sum(self.kills.values())
            if len(self.failures) > 10 or (done >= grants and killed >= kills):
                return
            if time.monotonic() - moved > (200 if self.args.calm else 60):
                self.failures.append(f"nobody got the lock for a minute, after {done} grants")
                return
            if killed < kills and done >= next_kill:
                burst = min(random.randint(1, 3), kills - killed)
                for _ in range(burst):
                    self.kill(self.victim())
                next_kill = done + burst * grants // (kills + 2)
            time.sleep(0.02 if self.args.calm else 0.002)

    def end(self):
        self.page.set(STOP, 1)
        for side, process in self.workers:
            try:
                if process.wait(60) != 0:
                    self.failures.append(f"a worker of {side} ended with {process.returncode}")
            except subprocess.TimeoutExpired:
                self.failures.append(f"a worker of {side} did not end")
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        self.await_empty()
        self.engine.write_history()
        for process in self.observers:
            if process.poll() is not None:
                self.failures.append(f"an observer ended with {process.returncode}")

    def await_empty(self):
        """Nothing may be left of the line; what the killed left goes with its session."""
        end = time.monotonic() + 15
        while True:
            left = self.engine.left()
            if not left:
                break
            if time.monotonic() > end:
                self.failures.append(f"left behind: {left}")
                break
            time.sleep(0.2)
        time.sleep(0.3)  # for the watcher to write down the last event: a want of it fails the check, nothing else

    def clear_up(self):
        for process in [p for _, p in self.workers] + self.observers:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def load_pairs(engine):
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), engine)
    sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location("pairs", os.path.join(folder, "pairs.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("engine", choices=["etcd", "redis", "shedlock", "zookeeper", "sessions"])
    parser.add_argument("pair")
    parser.add_argument("--url", required=True)
    parser.add_argument("--rota-side", required=True)
    parser.add_argument("--other-side", required=True)
    parser.add_argument("--grants", type=int, default=5000)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--calm", action="store_true")
    parser.add_argument("--keep", action="store_true", help="the log")
    args = parser.parse_args()
    pairs = load_pairs(args.engine)
    if args.pair not in pairs.PAIRS:
        parser.error(f"no such pair: {args.pair}")
    args.other = pairs.OTHER if isinstance(pairs.OTHER, str) else pairs.OTHER[args.pair]
    args.ordered = getattr(pairs, "ORDERED", True)
    fenced = getattr(pairs, "FENCED", True)
    args.fenced = fenced if isinstance(fenced, bool) else fenced[args.pair]
    if args.calm:
        args.kills = 0
    random.seed(args.seed)
    # Grandchildren come to us (PR_SET_CHILD_SUBREAPER), so that a kill is over when we say so.
    ctypes.CDLL(None, use_errno=True).prctl(36, 1, 0, 0, 0)
    run = Run(args, pairs)
    started = time.monotonic()
    try:
        run.begin()
        run.contend()
        run.end()
    finally:
        run.clear_up()
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
