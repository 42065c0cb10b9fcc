# SPDX-License-Identifier: Apache-2.0
"""Other clients of Redis: of string tokens redis-py, redsync and node-redlock, on one and on Redlock's five; Redisson's plain,
fair and read/write lock. See ../contend.py."""
import time

from redis import Redis

JAVA, GO, NODE, PYTHON = "java", "go", "node", "python"
# How many workers of each side, and how long each rests between two rounds (microseconds, at most): where nobody stands in a
# line both sides ask again and again, so who asks at once after its own release would have it most of the time.
PAIRS = {
    "redis-py": (3, 4, 20000, 20000),
    "redis-py-also": (2, 2, 20000, 20000),
    "redsync": (3, 4, 20000, 20000),
    "redsync-five": (4, 3, 20000, 20000),
    "node-redlock": (3, 4, 20000, 20000),
    "node-redlock-five": (4, 3, 20000, 20000),
    "redisson": (3, 4, 5000, 5000),
    "redisson-fair": (3, 4, 0, 0),
    "redisson-rw": (3, 4, 5000, 5000),
}
# Whose they are; the dialect of Rota, none on five; what Rota's side does, and theirs.
KINDS = {
    "redis-py": (PYTHON, "token", "lock", []),
    "redis-py-also": (PYTHON, "token", "lock", []),
    "redsync": (GO, "token", "lock", ["lock"]),
    "redsync-five": (GO, None, "lock", ["lock"]),
    "node-redlock": (NODE, "token", "lock", ["lock"]),
    "node-redlock-five": (NODE, None, "lock", ["lock"]),
    "redisson": (JAVA, "redisson", "lock", ["lock"]),
    "redisson-fair": (JAVA, "redisson-fair", "lock", ["fair"]),
    "redisson-rw": (JAVA, "redisson-rw", "rw", ["rw"]),
}
OTHER = {pair: kind[0] for pair, kind in KINDS.items()}
ORDERED = False  # only grants of Rota's are numbered


def clients(url):
    """Where the servers of URL are, and a client of each."""
    servers = url.split("://")[1].split("/")[0].split("?")[0]
    return servers, [Redis(host=host, port=int(port)) for host, port in (s.split(":") for s in servers.split(","))]


def in_queue(client, key):
    """How many of the fair queue whose times are in KEY are still believed: who was killed stands there until somebody comes."""
    return client.zcount(key, time.time() * 1000, "inf")


class Engine:
    def __init__(self, run):
        self.run = run
        _, self.dialect, self.kind, self.how = KINDS[run.args.pair]
        self.servers, self.clients = clients(run.args.url)

    def url(self):
        word = "?also=" if self.run.args.pair.endswith("-also") else "?dialect="
        return self.run.args.url + (word + self.dialect if self.dialect else "")

    def rota_kind(self):
        return self.kind

    def other(self):
        run = self.run
        return run.args.other_side.split(" ") + self.how + [self.servers, run.name, run.folder, str(run.other_think)]

    def ends_by_itself(self):
        return False

    def begin(self):
        for client in self.clients:
            client.ping()

    def left(self):
        keys = []
        for client in self.clients:
            for key in client.keys(f"*{self.run.name}*"):
                if key.startswith(b"rota:{0}"):
                    continue  # of the line: whoever was killed is swept by the next client that comes
                if key.startswith(b"redisson_unlock_latch"):
                    continue  # of one killed while it released: it ends by itself
                if key.startswith((b"redisson_lock_queue", b"redisson_lock_timeout")):
                    if in_queue(client, key.replace(b"_queue", b"_timeout")) == 0:
                        continue
                keys.append(key)
        return keys

    def write_history(self):
        pass  # a Redis tells of no past
