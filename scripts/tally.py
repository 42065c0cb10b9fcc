#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a Meson testlog.json says: cases passed and failed, and what each engine cost.

    scripts/tally.py LOG...     the table of a run, again

Counts cmocka's own cases, or those of a program that ends with "N passed, N failed"; any other
program is one case. What ends badly without saying so (crash, timeout, leak found at exit) is one
failure, and so is a test that does not run at all; a broken run can never look like a good one. Cases that their
program leaves out are counted apart. A test belongs to the engine in its name, unless that
names a part that only runs on its server."""
import json
import os
import re
import sys

CMOCKA_PASSED = re.compile(r"^\[  PASSED  \] (\d+) test\(s\)\.", re.M)
CMOCKA_FAILED = re.compile(r"^\[  FAILED  \] (\d+) test\(s\), listed below", re.M)
CMOCKA_SKIPPED = re.compile(r"^\[  SKIPPED \] (\d+) test\(s\), listed below", re.M)
OWN_COUNT = re.compile(r"^(\d+) passed, (\d+) failed$", re.M)
TROUBLE = re.compile(r"^(?!\[ +(RUN|OK|PASSED|SKIPPED) +\]|\[=+\]|ok |\d+m[\d.]+s ).*\S.*$", re.M) # not what went well
CPU = re.compile(r"^(\d+)m([\d.]+)s (\d+)m([\d.]+)s$", re.M) # scripts/timed.sh: of the shell, of what it waited for

ENGINES = sorted(name for name in os.listdir(os.path.join(os.path.dirname(__file__), "..", "src", "engine"))
                 if name not in ("fault", "kit", "resp", "sql", "trace") and "." not in name)
# What runs on an engine's server, but is not the engine's: a word in its name says so.
OTHER_PARTS = {"transactions": {"journal", "branch", "takeover", "txn", "fence", "event", "resource", "manager", "bank", "tcc",
                                "phase", "http", "serve", "transfer"},
               "outbox": {"relay", "broker", "lane", "outbox"},
               "SQL dialects": {"row", "version", "shedlock", "lease", "hold", "getlock", "advisory", "forupdate", "table"}}
CORES = 2 # what we count on
BUDGET_S = 90 # of each engine: what it may add to a run on that many


class Test:
    """One test of a log: its name, cases, begin and end, CPU seconds."""

    def __init__(self, entry):
        text = (entry.get("stdout") or "") + "\n" + (entry.get("stderr") or "")
        self.name, self.result = entry["name"], entry["result"]
        self.begin, self.end = entry["starttime"], entry["starttime"] + entry["duration"]
        self.passed, self.failed = count(self.result, text)
        self.skipped = sum(int(n) for n in CMOCKA_SKIPPED.findall(text))
        self.cpu = sum(60 * int(m) + float(s) + 60 * int(n) + float(t) for m, s, n, t in CPU.findall(text)[-2:])
        self.seeds = re.findall(r"^seeds drawn anew.*", text, re.M)
        self.trouble = cut([line[0] for line in TROUBLE.finditer(text)]) if self.failed > 0 else []
        words = re.split(r"\W|_", self.name)
        self.part = part_of(words)


def part_of(words):
    other = next((part for part, marks in OTHER_PARTS.items() if marks & set(words)), None)
    return other or next((e for e in ENGINES if e in words), "command" if "command" in words else "all others")


def cut(lines, first=20, last=10):
    """What a person needs to see of them."""
    return lines if len(lines) <= first + last else lines[:first] + ["..."] + lines[-last:]


def count(result, text):
    """Cases passed and failed."""
    counts = [(int(n), 0) for n in CMOCKA_PASSED.findall(text)] + [(0, int(n)) for n in CMOCKA_FAILED.findall(text)]
    counts += [(int(p), int(f)) for p, f in OWN_COUNT.findall(text)]
    passed, failed = sum(c[0] for c in counts), sum(c[1] for c in counts)
    if result == "EXPECTEDFAIL": # what it counts is what it must find
        return 1, 0
    if result != "OK":
        return passed, max(failed, 1)
    if not counts: # it does not count
        return 1, 0
    return passed, failed # says it failed, ends with 0: that is a failure too


def read(path):
    with open(path, encoding="utf-8") as log:
        return [Test(json.loads(line)) for line in log]


def table(tests, others=()):
    """The lines of the table: a part each. OTHERS: (part, CPU, wall) of what is no test. An engine costs its CPU by the cores
    that we count on: its tests mostly wait, and others run beside them. So a busy machine does not make it look dearer."""
    parts = {t.part for t in tests} | {o[0] for o in others}
    yield "%-12s %6s %6s %8s %8s %7s  %s" % ("part", "tests", "cases", "CPU s", "costs s", "budget", "the longest, s of wall time")
    for part in [e for e in ENGINES if e in parts] + sorted(parts - set(ENGINES)):
        mine, more = [t for t in tests if t.part == part], [o for o in others if o[0] == part]
        cpu = sum(t.cpu for t in mine) + sum(o[1] for o in more)
        longest = max(mine, key=lambda t: t.end - t.begin, default=None)
        last = "%.0f: %s" % (longest.end - longest.begin, longest.name.split(" / ")[-1]) if longest else ""
        if part in ENGINES and cpu / CORES > BUDGET_S:
            last = "OVER by %.0f s; " % (cpu / CORES - BUDGET_S) + last
        yield "%-12s %6s %6s %8.1f %8.1f %7s  %s" % (part, len(mine) or "", sum(t.passed + t.failed for t in mine) or "", cpu,
                                                    cpu / CORES, BUDGET_S if part in ENGINES else "", last)


if __name__ == "__main__":
    for row in table([t for path in sys.argv[1:] for t in read(path)]):
        print(row)
