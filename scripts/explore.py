#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make explore: searches for faults that no change needs to have caused: what draws, waits, kills and starves. It guards
nothing and ends with 0 also when it has found something: what it finds is in build-explore/report.md, with the lines to
paste into tests/sim/known-red.txt and tests/flaky.txt.

    scripts/explore.py [--minutes N] [PART...]

    seeds       worlds of the simulator from seeds that nobody has run, for N minutes (20)
    asan, tsan  everything under the address sanitizer; what has threads under the thread sanitizer
    planted     each planted bug must be found, and by the words that belong to it
    topologies  every topology and dialect, outages, and what is too long for make test
    gates       clang-tidy, the Debian packages, builds without engines

All builds share one queue. What is red is run again, five times alone and five times beside a load."""
import argparse
import collections
import os
import re
import subprocess
import sys
import threading
import time

import findings
import runner
import tally

LIMIT_S = 1800  # of each test: a hang must not end the search
AT_ONCE = 5
AGAIN = 5
PARTS = ["seeds", "asan", "tsan", "planted", "topologies", "gates"]
FOLDER = "build-explore"
SIM = "build-test/tests/sim/sim"
LOCKS = ["mem", "redis", "cluster", "redlock", "postgres", "mysql", "etcd", "zookeeper", "file", "token", "also"]
# A third of the others for what has had most worlds, three times for what has had fewest.
SHARES = {"mem": 0.3, "late": 0.3, "txn": 0.3, "three": 0.3, "relay": 0.3, "file": 3, "redlock": 3, "cluster": 3}
GATES = [
    ("clang-tidy", ["scripts/gate-tidy.sh"]),
    ("Debian packages", ["scripts/gate-deb.sh"]),
    ("builds without engines", ["scripts/gate-engines.sh", "--all"]),
]


def in_part(test, part):
    """Whether TEST runs in PART. tests/meson.build explains the suites."""
    suites = test.suites
    if "torture" in suites and "slow" in suites or "torture-relay" in suites:
        return False  # make torture
    if part == "planted":
        return "planted" in suites
    if part == "topologies":
        return bool(suites & {"plain", "topology", "slow"}) and "planted" not in suites
    if part == "tsan":
        return "threads" in suites
    return part == "asan" and not suites & {"plain", "topology", "slow", "planted"}


# ---- Seeds


class Search:
    """The worlds of one kind, one way."""

    def __init__(self, kind, way):
        self.kind, self.way, self.worlds, self.took, self.found = kind, way, 0, 0.0, []

    def name(self):
        return self.kind + ("+" + self.way if self.way else "")

    def words(self):
        return [SIM, "--" + self.kind] + (["--" + self.way] if self.way else [])

    def run(self, seconds, start="new"):
        """Runs worlds for SECONDS, from a seed that is drawn or from START on; what is red is kept, and the next seed follows."""
        began = time.time()
        while time.time() - began < seconds:
            out = self.draw(start, seconds - (time.time() - began))
            first = re.search(r"--from (\d+)$", out, re.M)
            first = int(first.group(1)) if first else 0
            done = re.search(r"^(\d+) schedules, ", out, re.M)
            red = re.search(r"^seed (\d+): (.*)$", out, re.M)
            if done:
                self.worlds += int(done.group(1))
                break
            if not red:
                self.found.append(findings.Finding(self.name(), first, "-", "crash", (out.strip() or "no word").splitlines()[-1]))
                break
            seed = int(red.group(1))
            self.worlds += seed - first + 1
            verdict, words = findings.verdict(red.group(2))
            self.found.append(findings.Finding(self.name(), seed, findings.digest(self.words(), seed), verdict, words))
            start = str(seed + 1)
        self.took = time.time() - began

    def draw(self, start, seconds):
        """What the simulator prints of SECONDS, or, if it hangs in a world, of some minutes."""
        try:
            done = subprocess.run(self.words() + ["--from", start, "--for", "%.1f" % seconds], capture_output=True, check=False,
                                  env=dict(os.environ, **runner.ENVIRONMENT), timeout=seconds + 300)
            return done.stdout.decode(errors="replace")
        except subprocess.TimeoutExpired as end:
            return (end.stdout or b"").decode(errors="replace") + "\nit hangs"


def searches(kinds):
    found = [Search(kind, "") for kind in kinds]
    return found + [Search(kind, way) for kind in LOCKS if kind in kinds and kind not in ("token", "also", "file", "redlock")
                    for way in ("rejoin", "observe", "crowd")]


def search(run, minutes):
    """The seeds part: all kinds, as many at once as there are cores."""
    if not run.build("test", lambda t: t.name.startswith("sim-")):
        return []
    kinds = [k for k in LOCKS + ["late", "txn", "three", "relay"] if has_kind(k)]
    todo = searches(kinds)
    share = minutes * 60 * runner.CORES / sum(SHARES.get(s.kind, 1) for s in todo)
    waiting, done = list(todo), []

    def work():
        while waiting:
            one = waiting.pop(0)
            one.run(share * SHARES.get(one.kind, 1))
            done.append(one)
            run.say("%-22s %8d worlds, %d red" % (one.name(), one.worlds, len(one.found)))

    threads = [threading.Thread(target=work) for _ in range(runner.CORES)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(done, key=lambda s: s.name())


def has_kind(kind):
    return subprocess.run([SIM, "--" + kind, "--seeds", "0"], capture_output=True, check=False).returncode == 0


# ---- What is red


def judge(run, done):
    """Runs a red test again: "always", "by load", "once", or how often."""
    if done.test.build is None:
        return "a gate: not run again"
    red = []
    for load in (0, 2 * runner.CORES):
        busy = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(load)]
        try:
            red.append(sum(not run.stopped and run.one(done.test).failed > 0 for _ in range(AGAIN)))
        finally:
            for process in busy:
                process.kill()
                process.wait()
    if run.stopped:
        return "interrupted"
    alone, beside = red
    if alone == AGAIN:
        return "always"
    if alone == 0:
        return "by load (%d of %d)" % (beside, AGAIN) if beside else "once"
    return "%d of %d alone, %d of %d beside a load" % (alone, AGAIN, beside, AGAIN)


# ---- The report


def report(run, parts, seeds, red):
    known = {(f.kind, f.seed) for f in findings.known()}
    shaky = findings.flaky()
    lines = ["# make explore, %s" % time.strftime("%Y-%m-%d %H:%M"), "",
             "Commit %s; parts: %s; %d s." % (findings.commit(), ", ".join(parts), time.time() - run.began), ""]
    if seeds:
        lines += ["## Seeds", "", "| kind | worlds | red | of 100,000 | verdicts |", "|---|---|---|---|---|"]
        for s in seeds:
            verdicts = ", ".join("%d %s" % (n, verdict) for verdict, n in
                                 sorted(collections.Counter(f.verdict for f in s.found).items()))
            lines.append("| %s | %d | %d | %.1f | %s |" % (s.name(), s.worlds, len(s.found), 1e5 * len(s.found) / max(s.worlds, 1), verdicts))
        lines.append("")
        new = [f for s in seeds for f in s.found if (f.kind, f.seed) not in known]
        if new:
            lines += ["New; each as a line of tests/sim/known-red.txt:", "", "```"] + [f.line() for f in new] + ["```", ""]
            for f in new:
                lines += ["### %s %d" % (f.kind, f.seed), "", "again: `%s`" % f.again(), "", "```"] + f.trace() + ["```", ""]
    if run.done:
        lines += ["## Tests", "", "%d programs: %d cases passed, %d failed." % (
            len(run.done), sum(d.passed for d in run.done), sum(d.failed for d in run.done)), ""]
    if red:
        lines += ["Red:", "", "| test | ended | again | how |", "|---|---|---|---|"]
        for d, how in red:
            lines.append("| %s | %s | %s | `%s` |" % (runner.name_of(d.test), d.result, how, d.test.again()))
        lines += ["", "Those that are red by load or once, as lines of tests/flaky.txt:", "", "```"]
        lines += ["%s\t-\t%s\t%s\topen\t%s" % (d.test.name, how, (tally.trouble(d.text) or ["-"])[-1][:80], findings.commit())
                  for d, how in red if how != "always" and d.test.name not in shaky]
        lines += ["```", ""]
        for d, _ in red:
            lines += ["### " + runner.name_of(d.test), "", "```"] + tally.trouble(d.text) + ["```", ""]
    for what in run.broken:
        lines.append("- " + what)
    with open(FOLDER + "/report.md", "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("part", nargs="*", help="one or more of " + ", ".join(PARTS))
    arguments = parser.parse_args()
    for part in arguments.part:
        if part not in PARTS:
            parser.error("there is no part '%s': %s" % (part, ", ".join(PARTS)))
    parts = arguments.part or PARTS
    runner.to_the_sources()
    os.environ.pop("ROTA_SEED", None)
    os.environ.setdefault("ROTA_PATIENCE", "4")
    run = runner.Run(LIMIT_S, logs=FOLDER + "/logs")
    seeds = search(run, arguments.minutes) if "seeds" in parts else []
    tests = []
    if "gates" in parts:
        run.build("test", lambda t: False)  # for the headers that are made
        tests += [runner.Test(name, words, priority=100) for name, words in GATES]
    for build, mine in (("asan", ["asan"]), ("tsan", ["tsan"]), ("test", ["planted", "topologies"])):
        chosen = [part for part in mine if part in parts]
        if chosen:
            tests += run.build(build, lambda t, chosen=chosen: any(in_part(t, part) for part in chosen))
    run.queue(tests, AT_ONCE)
    red = []
    for done in [d for d in run.done if d.failed and not run.stopped]:
        run.say("again: " + runner.name_of(done.test))
        red.append((done, judge(run, done)))
    run.close()
    report(run, parts, seeds, red)
    found = sum(len(s.found) for s in seeds) + len(red) + len(run.broken)
    print("%d findings: %s/report.md" % (found, FOLDER))
    return 0


if __name__ == "__main__":
    sys.exit(main())
