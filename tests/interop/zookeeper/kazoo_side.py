#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""kazoo in contention with Rota: kazoo_side.py lock|rw SERVERS PATH FOLDER THINK_US, $ROTA_GUARD: the guard's module.

rw: its readers give up after a while. One that sees a writer which came behind it waits for that one (kazoo 2.8 does not count
itself among those it looks at, so all writers are ahead of it), and that one for the reader: they would wait for ever.
"""
import ctypes
import logging
import os
import random
import signal
import sys
import time

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, LockTimeout, NoNodeError

SESSION_S = 2.0
READER_S = 0.15


class Guard:
    def __init__(self, folder):
        self.lib = ctypes.CDLL(os.environ["ROTA_GUARD"])
        self.lib.guard_enter.restype = self.lib.guard_enter_shared.restype = ctypes.c_uint64
        self.lib.guard_open(b"python", folder.encode())

    def stopped(self):
        return self.lib.guard_stopped() != 0

    def inside(self, fence, shared):
        number = ctypes.c_uint64(fence)
        count = self.lib.guard_enter_shared(number) if shared else self.lib.guard_enter(number, b"")
        # Short, and now and then long enough for a kill to find a holder.
        time.sleep(0.02 if random.randrange(16) == 0 else random.random() / 2000)
        leave = self.lib.guard_leave_shared if shared else self.lib.guard_leave
        leave(number, ctypes.c_uint64(count))

    def say(self, line):
        self.lib.guard_say(b"%s", line.encode())


def one_round(client, guard, kind, path):
    shared = kind == "rw" and random.random() < 0.3
    lock = (client.ReadLock if shared else client.WriteLock if kind == "rw" else client.Lock)(path)
    lock.acquire(timeout=READER_S if shared else None)
    try:
        stat = client.exists(path + "/" + lock.node)
        if stat is None:
            raise NoNodeError(lock.node)
        guard.inside(stat.czxid, shared)
    finally:
        lock.release()


def main():
    kind, servers, path, folder, think = sys.argv[1:]
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)  # what it tells us we write down
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG
    guard = Guard(folder)
    client = KazooClient(hosts=servers, timeout=SESSION_S)
    client.start(timeout=20)
    while not guard.stopped():
        try:
            one_round(client, guard, kind, path)
        except LockTimeout:
            guard.say(f"G python {os.getpid()} a reader")
        except KazooException as e:  # its session ended: while inside, that would be an overlap
            guard.say(f"S python {os.getpid()} {e!r}")
        if int(think) > 0:
            time.sleep(random.randrange(int(think)) / 1e6)
    client.stop()
    client.close()


main()
