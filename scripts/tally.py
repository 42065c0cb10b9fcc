# SPDX-License-Identifier: Apache-2.0
"""What the output of a test says: its cases, by name and by number; and the table of a run.

Counts cmocka's own cases, or those of a program that ends with "N passed, N failed"; any other program is one case.
What ends badly without saying so (a crash, a time-out, a leak found at exit) is one failure: a broken run can never look
like a good one. Cases that their program leaves out are counted apart. A test belongs to the engine in its name, unless
that names a part that only runs on its server."""
import os
import re

CMOCKA_PASSED = re.compile(r"^\[  PASSED  \] (\d+) test\(s\)\.", re.M)
CMOCKA_FAILED = re.compile(r"^\[  FAILED  \] (\d+) test\(s\), listed below", re.M)
CMOCKA_SKIPPED = re.compile(r"^\[  SKIPPED \] (\d+) test\(s\), listed below", re.M)
CMOCKA_RUNNING = re.compile(r"^\[=+\] Running (\d+) test\(s\)\.", re.M)
CMOCKA_CASE = re.compile(r"^\[ RUN      \] (\S+)", re.M)
OWN_COUNT = re.compile(r"^(\d+) passed, (\d+) failed(?:, \d+ skipped)?$", re.M)
OWN_CASE = re.compile(r"^ok +(\S.*)$", re.M)
TROUBLE = re.compile(r"^(?!\[ +(RUN|OK|PASSED|SKIPPED) +\]|\[=+\]|ok ).*\S.*$", re.M)  # not what went well

ENGINES = sorted(name for name in os.listdir(os.path.join(os.path.dirname(__file__), "..", "src", "engine"))
                 if name not in ("fault", "kit", "resp", "sql", "trace") and "." not in name)
# What runs on an engine's server, but is not the engine's: a word in its name says so.
OTHER_PARTS = {"transactions": {"journal", "branch", "takeover", "txn", "fence", "event", "resource", "manager", "bank", "tcc",
                                "phase", "http", "serve", "transfer"},
               "outbox": {"relay", "broker", "lane", "outbox"},
               "SQL dialects": {"row", "version", "shedlock", "lease", "hold", "getlock", "advisory", "forupdate", "table"}}
CORES = 2  # what we count on
BUDGET_S = 30  # of each part in make test: what it may add to a run on that many
BUDGETS_S = {"transactions": 60, "all others": 60}  # the larger ones


def part_of(name):
    words = set(re.split(r"\W|_", name))
    other = next((part for part, marks in OTHER_PARTS.items() if marks & words), None)
    return other or next((e for e in ENGINES if e in words), "command" if "command" in words else "all others")


def count(result, text):
    """Cases passed and failed of a test that ended with RESULT (OK, or why it is red) and printed TEXT."""
    counts = [(int(n), 0) for n in CMOCKA_PASSED.findall(text)] + [(0, int(n)) for n in CMOCKA_FAILED.findall(text)]
    counts += [(int(p), int(f)) for p, f in OWN_COUNT.findall(text)]
    passed, failed = sum(c[0] for c in counts), sum(c[1] for c in counts)
    if result != "OK":
        return passed, max(failed, 1)
    running = [int(n) for n in CMOCKA_RUNNING.findall(text)]
    if running and sum(running) != passed + failed + skipped(text):
        return passed, max(failed, 1)  # it ended early, and said that all is well
    if not counts:  # it does not count
        return 1, 0
    return passed, failed  # says it failed, ends with 0: that is a failure too


def skipped(text):
    return sum(int(n) for n in CMOCKA_SKIPPED.findall(text))


def cases(name, result, text):
    """A line for each case that the test NAME has run."""
    found = CMOCKA_CASE.findall(text) or OWN_COUNT.search(text) and OWN_CASE.findall(text) or []
    total = sum(count(result, text)) + skipped(text)
    found += ["%d" % n for n in range(len(found) + 1, total + 1)]
    return ["%s: %s" % (name, case) for case in found]


def failures(text):
    """TEXT without what went well."""
    return "\n".join(line[0] for line in TROUBLE.finditer(text))


def trouble(text, first=20, last=10):
    """What a person needs to see of a test that failed."""
    lines = failures(text).splitlines()
    return lines if len(lines) <= first + last else lines[:first] + ["..."] + lines[-last:]


def table(done):
    """The lines of the table: a part each. A part costs its CPU divided by the cores that we count on: its tests mostly wait,
    and others run beside them. So a busy machine does not make it look dearer."""
    parts = {d.part for d in done}
    yield "%-12s %6s %6s %8s %8s %7s  %s" % ("part", "tests", "cases", "CPU s", "costs s", "budget", "the longest, s of wall time")
    for part in [e for e in ENGINES if e in parts] + sorted(parts - set(ENGINES)):
        mine = [d for d in done if d.part == part]
        cpu, longest = sum(d.cpu for d in mine), max(mine, key=lambda d: d.wall)
        last = "%.0f: %s" % (longest.wall, longest.test.name)
        budget = BUDGETS_S.get(part, BUDGET_S)
        if cpu / CORES > budget:
            last = "OVER by %.0f s; " % (cpu / CORES - budget) + last
        yield "%-12s %6d %6d %8.1f %8.1f %7d  %s" % (part, len(mine), sum(d.passed + d.failed for d in mine), cpu, cpu / CORES,
                                                    budget, last)
