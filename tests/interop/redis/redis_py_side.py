#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""redis-py's Lock in contention with Rota: redis_py_side.py SERVER NAME FOLDER THINK_US, $ROTA_GUARD: the guard's module."""
import ctypes
import os
import random
import signal
import sys
import time

from redis import Redis
from redis.exceptions import LockError

TTL_S = 2.0
SLEEP_S = 0.02  # between two tries


class Guard:
    def __init__(self, folder):
        self.lib = ctypes.CDLL(os.environ["ROTA_GUARD"])
        self.lib.guard_enter.restype = ctypes.c_uint64
        self.lib.guard_open(b"python", folder.encode())

    def stopped(self):
        return self.lib.guard_stopped() != 0

    def inside(self, number):
        count = self.lib.guard_enter(ctypes.c_uint64(number), b"")
        # Short, and now and then long enough for a kill to find a holder.
        time.sleep(0.02 if random.randrange(16) == 0 else random.random() / 2000)
        self.lib.guard_leave(ctypes.c_uint64(number), ctypes.c_uint64(count))

    def say(self, line):
        self.lib.guard_say(b"%s", line.encode())


def main():
    server, name, folder, think = sys.argv[1:]
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG
    guard = Guard(folder)
    host, port = server.split(":")
    client = Redis(host=host, port=int(port))
    rounds = 0
    while not guard.stopped():
        lock = client.lock(name, timeout=TTL_S, sleep=SLEEP_S)
        if not lock.acquire(blocking_timeout=1):
            continue
        rounds += 1
        guard.inside(rounds)  # it has no fence
        try:
            lock.release()
        except LockError as e:  # it ended by its time: while inside, that would be an overlap
            guard.say(f"S python {os.getpid()} {e!r}")
        if int(think) > 0:
            time.sleep(random.randrange(int(think)) / 1e6)


main()
