#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What make explore has found and nobody has fixed yet: tests/sim/known-red.txt (seeds) and tests/flaky.txt (tests).

    scripts/findings.py check BUILD-FOLDER     both lists obey their rules, and no flaky test is in the suite `gate`
    scripts/findings.py seeds SIMULATOR        each known seed is red as it was; ends with "N passed, N failed" """
import json
import os
import re
import subprocess
import sys

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
KNOWN = os.path.join(TOP, "tests/sim/known-red.txt")
FLAKY = os.path.join(TOP, "tests/flaky.txt")
KNOWN_MOST = 12
LANDING_COMMITS = 60  # as many as one has at most
WHOSE = ("product", "judge", "open")
# Two hold at once, a fence that goes back, a decision that changes, money that is made: no line without an issue.
SAFETY = re.compile(r"I[1-5]$|X\d+$|V[12]$|H[23]$")


class Finding:
    """A world of KIND (+rejoin, +observe, +crowd) that is red."""

    def __init__(self, kind, seed, plan, verdict_, words, at="", whose="open", issue="-"):
        self.kind, self.seed, self.plan, self.verdict, self.words = kind, seed, plan, verdict_, words
        self.at, self.whose, self.issue = at or commit(), whose, issue

    def line(self):
        return "  ".join([self.kind, str(self.seed), self.plan, self.verdict, self.at, self.whose, self.issue, self.words])

    def flags(self):
        return ["--" + word for word in self.kind.split("+")]

    def again(self):
        return "build-test/tests/sim/sim %s --seed %d --trace" % (" ".join(self.flags()), self.seed)

    def trace(self):
        """The end of what it does."""
        out = subprocess.run(self.again().split(), cwd=TOP, capture_output=True, check=False).stdout.decode(errors="replace")
        return out.splitlines()[-100:]


def commit():
    return subprocess.run(["git", "rev-parse", "--short=8", "HEAD"], cwd=TOP, capture_output=True, text=True, check=False).stdout.strip()


def verdict(text):
    """Of "I8 is violated: c0 was not told": ("I8", "c0 was not told")."""
    match = re.match(r"(\w+) is violated: (.*)", text)
    return (match.group(1), match.group(2)) if match else ("assert" if "assertion" in text else "crash", text)


def run(words):
    """What a run of the simulator ends with: (verdict, words), or None if nothing is violated."""
    out = subprocess.run(words, capture_output=True, check=False)
    red = re.search(r"^seed \d+: (.*)$", out.stdout.decode(errors="replace"), re.M)
    if out.returncode == 0:
        return None
    return verdict(red.group(1)) if red else ("crash", "it ended with %d" % out.returncode)


def digest(words, seed):
    return subprocess.run(words + ["--seed", str(seed), "--digest"], capture_output=True, text=True, check=False).stdout.strip()


def rows(path, fields, separator):
    for line in open(path, encoding="utf-8"):
        line = line.rstrip("\n")
        if line and not line.startswith("#"):
            yield line.split(separator, fields - 1)


def known():
    for row in rows(KNOWN, 8, None):
        if len(row) != 8:
            sys.exit("%s: a line has 8 fields: %s" % (os.path.relpath(KNOWN, TOP), " ".join(row)))
        yield Finding(row[0], int(row[1]), row[2], row[3], row[7], row[4], row[5], row[6])


def flaky():
    """Names of tests that are red now and then."""
    return {row[0].split(" / ")[0] for row in rows(FLAKY, 6, "\t")}


def check(build):
    wrong, all_known = [], list(known())
    if len(all_known) > KNOWN_MOST:
        wrong.append("known-red.txt has %d lines, %d at most: fix some" % (len(all_known), KNOWN_MOST))
    for f in all_known:
        if not re.match(r"[0-9a-f]{8}$", f.at):
            wrong.append("known-red.txt, %s %d: SEEN-AT is the first eight digits of a commit, not '%s'" % (f.kind, f.seed, f.at))
        if f.whose not in WHOSE:
            wrong.append("known-red.txt, %s %d: '%s' is none of %s" % (f.kind, f.seed, f.whose, ", ".join(WHOSE)))
        if SAFETY.match(f.verdict) and f.issue == "-" and is_old(f.at):
            wrong.append("known-red.txt, %s %d: %s is about safety, is older than a landing, and has no issue" % (f.kind, f.seed, f.verdict))
    with open(build + "/meson-info/intro-tests.json", encoding="utf-8") as file:
        tests = json.load(file)
    names = {t["name"] for t in tests}
    gate = {t["name"] for t in tests if any(s.endswith(":gate") for s in t["suite"])}
    for row in rows(FLAKY, 6, "\t"):
        name = row[0].split(" / ")[0]
        if len(row) != 6:
            wrong.append("flaky.txt: a line has 6 fields, with tabs between: " + row[0])
        elif name not in names:
            wrong.append("flaky.txt: there is no test '%s'" % name)
        elif name in gate:
            wrong.append("flaky.txt: '%s' is in the suite gate" % name)
    for what in wrong:
        print(what)
    return 1 if wrong else 0


def is_old(at):
    """Whether AT is more than a landing ago, or no commit of ours."""
    out = subprocess.run(["git", "rev-list", "--count", at + "..HEAD"], cwd=TOP, capture_output=True, text=True, check=False)
    return out.returncode != 0 or int(out.stdout) > LANDING_COMMITS


def seeds(simulator):
    passed = failed = 0
    for f in known():
        words = [simulator] + f.flags()
        name = "%s %d" % (f.kind, f.seed)
        now, ended = digest(words, f.seed), run(words + ["--seed", str(f.seed)])
        if now == "":
            print("FAIL  %s: the simulator has no such kind" % name)
            failed += 1
        elif now != f.plan:
            print("stale %s: its seed draws another schedule now (%s); make explore looks for the fault again" % (name, now))
            passed += 1
        elif ended is None:
            print("FAIL  %s: mended: move it to %s" % (name, corpus(f.kind)))
            failed += 1
        elif ended[0] != f.verdict:
            print("FAIL  %s: was %s, is %s: %s" % (name, f.verdict, *ended))
            failed += 1
        else:
            print("ok    %s: known red: %s: %s" % (name, *ended))
            passed += 1
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed else 0


def corpus(kind):
    kind = kind.split("+")[0]
    return "tests/sim/corpus.txt" if kind == "mem" else "tests/sim/corpus-%s.txt" % kind


def main():
    calls = {"check": check, "seeds": seeds}
    if len(sys.argv) != 3 or sys.argv[1] not in calls:
        sys.exit(__doc__)
    return calls[sys.argv[1]](sys.argv[2])


if __name__ == "__main__":
    sys.exit(main())
