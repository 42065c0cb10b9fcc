#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make test: decides whether a change may land. One build, fixed seeds, no verdict by time, no retries. The last line is
"N passed, N failed".

    scripts/test.py                      the gates, and the tests of the suite `gate`, in build-test
    scripts/test.py NAME...              these tests, also such as only run in make explore (part of a name will do)
    scripts/test.py --build asan NAME... these tests in that build: asan or tsan
    scripts/test.py --list               every test, and which of make test, make explore and make torture runs it

The output of each test is in build-test/logs, the list of all cases in build-test/logs/cases.txt. If all is green and
nothing is uncommitted, build/green has the hash of the tree."""
import argparse
import os
import subprocess
import sys

import explore
import runner

LIMIT_S = 120  # of each test
WHOLE_S = 900  # of the run
AT_ONCE = 6  # most of them wait
LEAST = 250  # tests, with all engines
GATES = [
    ("clang-format", ["scripts/gate-format.sh"]),
    ("core is pure", ["scripts/gate-core.sh", "build-test"]),
    ("crash points: the table and the calls", ["scripts/gate-points.sh"]),
    ("nm -D shows only rota_*", ["scripts/gate-symbols.sh", "build-test"]),
    ("hardening", ["scripts/gate-hardening.sh", "build-test"]),
    ("install, pkg-config, the README's example", ["scripts/gate-install.sh", "build-test"]),
    ("documents say what the program says", ["scripts/gate-docs.sh", "build-test"]),
    ("known findings", ["scripts/findings.py", "check", "build-test"]),
    ("every test runs somewhere", ["scripts/test.py", "--list"]),
]


def tree():
    """The hash of the tree that is checked out, if nothing is uncommitted."""
    git = lambda *words: subprocess.run(["git", *words], capture_output=True, text=True, check=False).stdout.strip()
    return git("rev-parse", "HEAD^{tree}") if git("status", "--porcelain") == "" else None


def show_list():
    """Prints where each test runs. One that runs nowhere is a failure."""
    if not os.path.exists("build-test/meson-info/intro-tests.json"):
        sys.exit("test.py: there is no build-test yet: any other call of this script makes it")
    lost = 0
    for test in sorted(runner.tests_of("test"), key=lambda t: t.name):
        where = ["make test"] if "gate" in test.suites else []
        where += ["make explore " + part for part in explore.PARTS if explore.in_part(test, part)]
        where += ["make torture"] if any(suite.startswith("torture") for suite in test.suites) else []
        lost += not where
        print("%-50s %s" % (test.name, ", ".join(where) or "NOWHERE"))
    return 1 if lost else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="test", choices=list(runner.OPTIONS))
    parser.add_argument("--list", action="store_true")
    parser.add_argument("name", nargs="*")
    arguments = parser.parse_args()
    runner.to_the_sources()
    os.environ.setdefault("ROTA_SEED", "1")
    os.environ.setdefault("ROTA_PATIENCE", "4")
    if arguments.list:
        return show_list()
    if arguments.name:
        run = runner.Run(3600, logs="build-%s/logs" % arguments.build)
        known = runner.tests_of(arguments.build) if os.path.exists("build-%s/build.ninja" % arguments.build) else []
        names = {t.name for t in known}
        wanted = lambda t: any(n == t.name or n not in names and n in t.name for n in arguments.name)
        run.queue(run.build(arguments.build, wanted), 1)
        return run.close()
    before = tree()
    run = runner.Run(LIMIT_S, WHOLE_S)
    tests = run.build("test", lambda t: "gate" in t.suites)
    if len(tests) < LEAST:
        run.broken.append("the build has %d tests for the gate: rm -r build-test, if its options were changed" % len(tests))
    run.queue([runner.Test(name, words, priority=5) for name, words in GATES] + tests, AT_ONCE)
    code = run.close()
    if code == 0 and before is not None and before == tree():
        os.makedirs("build", exist_ok=True)
        with open("build/green", "w", encoding="utf-8") as file:
            print(before, file=file)
    return code


if __name__ == "__main__":
    sys.exit(main())
