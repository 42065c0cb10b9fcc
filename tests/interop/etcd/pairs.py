# SPDX-License-Identifier: Apache-2.0
"""Other clients of etcd: Go's Mutex and Election, the lock service, `etcdctl lock`. See contend.py."""
import os
import subprocess

OTHER = "go"

# How many workers of each side, and how long each rests between two rounds (microseconds, at most): so that both
# come to the lock often enough. etcdctl is started anew for every round.
PAIRS = {
    "mutex": (3, 4, 0, 0),
    "election": (3, 4, 0, 0),
    "service": (3, 4, 0, 0),
    "etcdctl": (2, 5, 20000, 0),
}


class Engine:
    def __init__(self, run):
        os.environ["ETCDCTL_API"] = "3"
        self.run = run
        self.endpoint = run.args.url.removeprefix("etcd://").split("?")[0].rstrip("/")
        self.elects = run.args.pair == "election"

    def url(self):
        return self.run.args.url

    def rota_kind(self):
        return "elect" if self.elects else "lock"

    def go(self, kind):
        run = self.run
        return [run.args.other_side, kind, self.endpoint, run.name, run.folder, str(run.other_think)]

    def other(self):
        run = self.run
        if run.args.pair == "etcdctl":
            return ["etcdctl", "--endpoints", self.endpoint, "lock", "--ttl", "2", run.name, run.args.other_side,
                    "held", self.endpoint, run.folder]
        return self.go(run.args.pair)

    def ends_by_itself(self):
        return self.run.args.pair == "etcdctl"

    def begin(self):
        self.run.observe(self.go("watch"))
        self.run.await_line(b"W\n")
        if self.elects:
            self.run.observe(self.go("observe"))
            self.run.observe(self.run.rota("observe"))

    def left(self):
        return subprocess.run(["etcdctl", "--endpoints", self.endpoint, "get", "--prefix", "--keys-only",
                               self.run.name + "/"], capture_output=True, check=True).stdout.split()

    def write_history(self):
        pass  # the watcher has written it down
