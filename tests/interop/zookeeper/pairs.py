# SPDX-License-Identifier: Apache-2.0
"""Other clients of ZooKeeper: Curator's mutex, read/write lock and leader latch, kazoo's locks. See ../contend.py."""
import logging
import os
import socket

from kazoo.client import KazooClient

import txnlog

JAVA, PYTHON = "java", "python"

# How many workers of each side, and how long each rests between two rounds (microseconds, at most).
PAIRS = {
    "curator": (3, 4, 0, 0),
    "curator-rw": (3, 4, 0, 0),
    "curator-latch": (3, 4, 0, 0),
    "kazoo": (3, 4, 0, 0),
    "kazoo-rw": (3, 4, 0, 0),
}
OTHER = {pair: PYTHON if pair.startswith("kazoo") else JAVA for pair in PAIRS}
# The dialect of Rota, what its side does, what the other side does.
KINDS = {
    "curator": ("curator", "lock", "mutex"),
    "curator-rw": ("curator-rw", "rw", "rw"),
    "curator-latch": ("curator-latch", "lead", "latch"),
    "kazoo": ("kazoo", "lock", "lock"),
    "kazoo-rw": ("kazoo", "rw", "rw"),
}


class Engine:
    def __init__(self, run):
        self.run = run
        self.servers, rest = run.args.url.removeprefix("zk://").split("/", 1)
        self.path = "/" + rest.split("?")[0] + "/" + run.name
        self.dialect, self.kind, self.other_kind = KINDS[run.args.pair]
        logging.getLogger("kazoo").setLevel(logging.CRITICAL)
        self.client = KazooClient(hosts=self.servers)

    def url(self):
        return self.run.args.url + "&dialect=" + self.dialect

    def rota_kind(self):
        return self.kind

    def other(self):
        run = self.run
        return run.args.other_side.split(" ") + [self.other_kind, self.servers, self.path, run.folder, str(run.other_think)]

    def ends_by_itself(self):
        return False

    def begin(self):
        self.client.start(timeout=20)
        if self.kind == "lead":
            self.run.observe(self.run.rota("observe"))

    def left(self):
        return self.client.get_children(self.path) if self.client.exists(self.path) else []

    def say(self, word):
        host, port = self.servers.split(",")[0].split(":")
        with socket.create_connection((host, int(port)), 5) as s:
            s.sendall(word.encode())
            return b"".join(iter(lambda: s.recv(4096), b"")).decode()

    def write_history(self):
        """From the log of the first server, as far as it concerns the line."""
        self.client.sync("/")
        folder = next(x.split("=", 1)[1] for x in self.say("conf").splitlines() if x.startswith("dataLogDir="))
        for zxid, came, path in txnlog.read(folder):
            if os.path.dirname(path) == self.path:
                self.run.say(f"{'P' if came else 'D'} {zxid} {path}")
