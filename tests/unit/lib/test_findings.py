#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What make explore finds reaches make test: a planted violation becomes a line of known-red.txt, and make test says what has
become of that line.

    tests/unit/lib/test_findings.py SIMULATOR      one that was built with -Dplanted=true"""
import contextlib
import io
import os
import sys
import tempfile

SCRIPTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "scripts")
sys.path.insert(0, SCRIPTS)
import explore  # pylint: disable=wrong-import-position
import findings  # pylint: disable=wrong-import-position

BUG = "1"  # a LEAVE takes what is not its own: mem is red by I4 at once


def search(simulator):
    """What a second of searching finds with the bug planted."""
    explore.SIM = simulator
    one = explore.Search("mem", "")
    os.environ["ROTA_BUG"] = BUG
    one.run(1, start="1")
    return one.found


def says(simulator, line):
    """What make test says of LINE, and whether it is green."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file, contextlib.redirect_stdout(io.StringIO()) as out:
        file.write("# a comment\n" + line + "\n")
        file.flush()
        findings.KNOWN = file.name
        code = findings.seeds(simulator)
    return out.getvalue(), code == 0


def main():
    simulator = os.path.abspath(sys.argv[1])
    found = search(simulator)
    first = found[0]
    line = first.line()
    other = line.replace("  I4  ", "  I1  ")
    stale = line.replace(first.plan, "0123456789abcdef")
    checks = [
        ("it is found", first.verdict == "I4" and "LEAVE" in first.words),
        ("the line says all of it", line.startswith("mem  %d  %s  I4  " % (first.seed, first.plan)) and len(first.plan) == 16),
        ("still red: known", says(simulator, line)[1] and "known red: I4" in says(simulator, line)[0]),
        ("by another invariant: fails", not says(simulator, other)[1] and "was I1, is I4" in says(simulator, other)[0]),
        ("another schedule: stale", says(simulator, stale)[1] and "stale mem" in says(simulator, stale)[0]),
    ]
    del os.environ["ROTA_BUG"]
    text, green = says(simulator, line)
    checks.append(("fixed: fails", not green and "mended: move it to tests/sim/corpus.txt" in text))
    for what, held in checks:
        print("ok   " if held else "FAIL ", what)
    failed = sum(not held for _, held in checks)
    print("%d passed, %d failed" % (len(checks) - failed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
