#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What holds when Rota meets another client on one Redis, step by step, each after a state that the server shows.

  meet.py URL --rota PROGRAM --rota-side PROGRAM --redisson "PROGRAM..." --redsync "PROGRAM..." --redlock "PROGRAM..."

Redisson's plain, fair and read/write lock: each wakes the other when it releases (both hold for ten minutes at a time, so nobody is
granted because an end came), re-entry, both watchdogs, whom `rota show` and `rota why` name. The others: whom they name.
"""
import argparse
import atexit
import select
import subprocess
import sys
import time

from redis import Redis

LONG_MS = 600000
SHORT_MS = 6000  # renewed at the third of it
PATIENCE_S = 60  # nothing takes that long but what hangs; a tenth of LONG_MS
ROUNDS = 25  # hand-overs each way


class Side:
    """One who is told what to do, line by line."""

    def __init__(self, argv):
        self.argv = argv
        self.child = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        atexit.register(self.child.kill)

    def tell(self, word):
        self.child.stdin.write((word + "\n").encode())

    def silent(self):
        return not select.select([self.child.stdout], [], [], 0)[0]

    def hear(self, word):
        """The next line, which begins with WORD: the rest of it."""
        line = b""
        while not line.endswith(b"\n"):
            if not select.select([self.child.stdout], [], [], PATIENCE_S)[0]:
                sys.exit(f"{self.argv[0]}: no {word!r} came, only {line!r}")
            got = self.child.stdout.read(1)
            if not got:
                sys.exit(f"{self.argv[0]} ended, {word!r} was to come")
            line += got
        text = line.decode().strip()
        if not text.startswith(word):
            sys.exit(f"{self.argv[0]}: {text!r} came, not {word!r}")
        return text.removeprefix(word).strip()

    def do(self, word):
        self.tell(word)
        return self.hear("unlocked" if word == "unlock" else "locked")

    def close(self):
        self.child.stdin.close()
        self.child.wait()


def until(what, true):
    end = time.monotonic() + PATIENCE_S
    while not true():
        if time.monotonic() > end:
            sys.exit(f"it did not come to this: {what}")
        time.sleep(0.001)


def expect(what, true):
    if not true:
        sys.exit(f"not so: {what}")


class Meeting:
    def __init__(self, args, kind):
        self.args, self.kind, self.name = args, kind, "meet-" + kind
        self.server = args.url.removeprefix("redis://").split("/")[0].split("?")[0]
        host, port = self.server.split(":")
        self.redis = Redis(host=host, port=int(port))
        self.dialect = {"lock": "redisson", "fair": "redisson-fair", "rw": "redisson-rw"}.get(kind, "token")
        self.url = args.url + "?dialect=" + self.dialect

    def rota(self, ttl_ms):
        side = Side([self.args.rota_side, "told", self.url, self.name, "-", str(ttl_ms)])
        side.hear("ready")
        return side

    def redisson(self, watchdog_ms):
        side = Side(self.args.redisson.split(" ") + ["told", self.server, self.name, self.kind, str(watchdog_ms)])
        side.owner = side.hear("ready")
        return side

    def waiting(self):
        """How many wait, by what the server knows: a channel is listened to, or a place in the queue is taken."""
        if self.kind != "fair":
            channel = ("redisson_rwlock" if self.kind == "rw" else "redisson_lock__channel") + ":{" + self.name + "}"
            return self.redis.pubsub_numsub(channel)[0][1]
        channels = self.redis.pubsub_channels("redisson_lock__channel:{" + self.name + "}:*")
        return min(len(channels), self.redis.zcard("redisson_lock_timeout:{" + self.name + "}"))

    def say(self, command):
        done = subprocess.run([self.args.rota, "--on", self.url, command, self.name], capture_output=True, text=True)
        expect(f"{command} ends with 0: {done.stderr}", done.returncode == 0)
        return done.stdout

    def names(self, who):
        for command in ("show", "why"):
            expect(f"{command} names {who}: {self.say(command)}", all(word in self.say(command) for word in who))

    # ---- Redisson

    def wake(self):
        holder, other = self.rota(LONG_MS), self.redisson(LONG_MS)
        holder.do("lock")
        for _ in range(2 * ROUNDS):
            other.tell("lock")
            until("the other waits", lambda: self.waiting() == 1)
            expect("it would wait for long", self.redis.pttl(self.name) > 2 * PATIENCE_S * 1000)
            expect("nobody else holds", other.silent())
            holder.do("unlock")
            other.hear("locked")
            until("nobody waits", lambda: self.waiting() == 0)
            holder, other = other, holder
        holder.do("unlock")
        holder.close()
        other.close()

    def wake_readers(self):
        """A writer of either side leaves: readers of both come in at once."""
        for rota_writes in (True, False):
            rota, other = self.rota(LONG_MS), self.redisson(LONG_MS)
            writer, first = (rota, other) if rota_writes else (other, rota)
            second = self.rota(LONG_MS)
            writer.do("lock")
            first.tell("read")
            second.tell("read")
            until("both wait", lambda: self.waiting() == 2)
            writer.do("unlock")
            first.hear("locked")
            second.hear("locked")
            expect("both read", self.redis.hget(self.name, "mode") == b"read" and self.redis.hlen(self.name) == 3)
            writer.tell("lock")
            until("the writer waits", lambda: self.waiting() == 1)
            first.do("unlock")
            expect("a reader is left", self.redis.hlen(self.name) == 2 and writer.silent())
            second.do("unlock")
            writer.hear("locked")
            writer.do("unlock")
            for side in (rota, other, second):
                side.close()

    def again(self):
        """Re-entry of either: who holds twice is held by one release."""
        rota, other = self.rota(LONG_MS), self.redisson(LONG_MS)
        for holder, waiter in ((other, rota), (rota, other)):
            holder.do("lock")
            holder.do("lock")
            waiter.tell("lock")
            until("one waits", lambda: self.waiting() == 1)
            holder.do("unlock")
            expect("it is held once more", self.redis.exists(self.name) == 1 and waiter.silent())
            self.names([other.owner.split(":")[0], "thread " + other.owner.split(":")[1]] if holder is other else ["rota-side"])
            holder.do("unlock")
            waiter.hear("locked")
            waiter.do("unlock")
        rota.close()
        other.close()

    def watchdogs(self):
        """Held for longer than its end: the other waits all the while."""
        for rota_holds in (True, False):
            rota, other = self.rota(SHORT_MS), self.redisson(SHORT_MS)
            holder, waiter = (rota, other) if rota_holds else (other, rota)
            holder.do("lock")
            waiter.tell("lock")
            until("one waits", lambda: self.waiting() == 1)
            seen, rises = self.redis.pttl(self.name), 0
            end = time.monotonic() + PATIENCE_S
            while rises < 4 and time.monotonic() < end:
                now = self.redis.pttl(self.name)
                rises += now > seen
                seen = now
                time.sleep(0.005)
            expect("it was renewed four times", rises == 4 and waiter.silent())
            holder.do("unlock")
            waiter.hear("locked")
            waiter.do("unlock")
            rota.close()
            other.close()

    # ---- Of string tokens

    def token(self, program):
        side = Side(program.split(" ") + ["told", self.server, self.name])
        value = side.do("lock")
        expect("the token is the key's", self.redis.get(self.name).decode() == value)
        self.names([self.kind, value])
        side.do("unlock")
        side.close()

    def redis_py(self):
        lock = self.redis.lock(self.name, timeout=60)
        expect("it is free", lock.acquire())
        self.names([self.kind, lock.local.token.decode()])
        lock.release()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    for program in ("rota", "rota-side", "redisson", "redsync", "redlock"):
        parser.add_argument("--" + program, required=True)
    args = parser.parse_args()
    for kind in ("lock", "fair", "rw"):
        meeting = Meeting(args, kind)
        meeting.wake()
        meeting.again()
        meeting.watchdogs()
        if kind == "rw":
            meeting.wake_readers()
        print(f"redisson {kind}: {ROUNDS} hand-overs each way without an end coming, re-entry, watchdogs, show and why: as theirs")
    for kind, program in (("redsync", args.redsync), ("node-redlock", args.redlock)):
        Meeting(args, kind).token(program)
    Meeting(args, "redis-py").redis_py()
    print("redsync, node-redlock, redis-py: show and why name them and their tokens")


main()
