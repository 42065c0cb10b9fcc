# SPDX-License-Identifier: Apache-2.0
"""ShedLock's provider for JDBC on PostgreSQL and MariaDB, in its own table; pairs that end with -also: Rota stands in its own line,
with ?also=. See ../contend.py."""
import subprocess

# How many workers of each side, and how long each rests between two rounds (microseconds, at most): both ask again and again.
PAIRS = {
    "shedlock-postgres": (3, 4, 20000, 20000),
    "shedlock-mysql": (3, 4, 20000, 20000),
    "shedlock-postgres-also": (2, 2, 20000, 20000),
    "shedlock-mysql-also": (2, 2, 20000, 20000),
}
OTHER = "java"
ORDERED = False
FENCED = {pair: pair.endswith("-also") for pair in PAIRS}  # there is no room for a number in the table


class Engine:
    def __init__(self, run):
        self.run = run

    def url(self):
        url = self.run.args.url
        word = "also" if self.run.args.pair.endswith("-also") else "dialect"
        return f"{url}{'&' if '?' in url else '?'}{word}=shedlock"

    def rota_kind(self):
        return "lock"

    def other(self):
        run = self.run
        return run.args.other_side.split(" ") + [run.args.url, run.name, run.folder, str(run.other_think)]

    def ends_by_itself(self):
        return False

    def rota(self, *words):
        """What the command says of it."""
        program = self.run.args.rota_side.replace("tests/interop/rota-side", "rota")
        return subprocess.run([program, "--on", self.url(), *words], check=True, capture_output=True, text=True).stdout

    def begin(self):
        self.rota("run", self.run.name, "--", "true")  # makes the table

    def left(self):
        return "holds" in self.rota("show", self.run.name) and [self.run.name]

    def write_history(self):
        pass  # a database tells of no past
