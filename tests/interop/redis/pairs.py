# SPDX-License-Identifier: Apache-2.0
"""Other clients of Redis: redis-py's Lock, which keeps a string token. See ../contend.py."""
from redis import Redis

PYTHON = "python"
# How many workers of each side, and how long each rests between two rounds (microseconds, at most): both sides ask again
# and again, so who asks at once after its own release would have it most of the time.
PAIRS = {"redis-py": (3, 4, 20000, 20000)}
OTHER = {pair: PYTHON for pair in PAIRS}
ORDERED = False  # nobody stands in a line: only grants of Rota's are numbered
DIALECTS = {"redis-py": "token"}


class Engine:
    def __init__(self, run):
        self.run = run
        self.server = run.args.url.removeprefix("redis://").split("/")[0]
        host, port = self.server.split(":")
        self.client = Redis(host=host, port=int(port))

    def url(self):
        return self.run.args.url + "?dialect=" + DIALECTS[self.run.args.pair]

    def rota_kind(self):
        return "lock"

    def other(self):
        run = self.run
        return run.args.other_side.split(" ") + [self.server, run.name, run.folder, str(run.other_think)]

    def ends_by_itself(self):
        return False

    def begin(self):
        self.client.ping()

    def left(self):
        return self.client.keys(self.run.name + "*")

    def write_history(self):
        pass  # a Redis tells of no past
