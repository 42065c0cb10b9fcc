# SPDX-License-Identifier: Apache-2.0
"""Sessions of psql and mariadb that hold advisory and named locks, and rows. See ../contend.py and session_side.py."""
import subprocess
import time

import importlib.util
import os

_here = os.path.dirname(os.path.abspath(__file__))
_spec = importlib.util.spec_from_file_location("session_side", _here + "/session_side.py")
session_side = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(session_side)

SESSION = "session"
# How many workers of each side, and how long each rests between two rounds (microseconds, at most).
# With ?also= one of Rota's that was killed keeps its place until its time is over, and the sessions go on: they rest longer.
PAIRS = {pair: (2, 2, 20000, 100000) if pair.endswith("-also") else (3, 3, 4000, 4000) for pair in session_side.WORDS}
OTHER = {pair: SESSION for pair in PAIRS}
FREES_AT_ONCE = True  # by the end of a connection
ORDERED = False  # the server's queue is the server's; only grants of Rota's are numbered


class Engine:
    def __init__(self, run):
        self.run = run

    def url(self):
        url, dialect = self.run.args.url, session_side.WORDS[self.run.args.pair].dialect
        word = "also" if self.run.args.pair.endswith("-also") else "dialect"
        calm = "&ttl=600s" if self.run.args.calm else ""
        return f"{url}{'&' if '?' in url else '?'}{word}={dialect}{calm}"

    def rota_kind(self):
        return "lock"

    def other(self):
        run = self.run
        return run.args.other_side.split(" ") + [run.args.pair, run.args.url, run.name, run.folder, str(run.other_think)]

    def ends_by_itself(self):
        return False

    def begin(self):
        if session_side.WORDS[self.run.args.pair].dialect == "shedlock":  # the table, and in it a row of the name
            rota = os.path.abspath(self.run.args.rota_side.replace("tests/interop/rota-side", "rota"))
            subprocess.run([rota, "--on", self.url(), "run", self.run.name, "--", "true"], check=True)
        session = session_side.Session(self.run.args.url)
        for line in session_side.WORDS[self.run.args.pair].first:
            session.ask(line.replace("NAME", self.run.name))
        session.end()

    def left(self):
        """What is still locked a while after all have gone."""
        session = session_side.Session(self.run.args.url)
        end = time.monotonic() + 20
        while True:
            left = session.ask(session_side.WORDS[self.run.args.pair].left.replace("NAME", self.run.name))
            if left == "0" or time.monotonic() > end:
                break
            time.sleep(0.1)
        session.end()
        return [] if left == "0" else [left]

    def write_history(self):
        pass  # a database tells of no past
