#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sums the cases in a Meson testlog.json: prints "PASSED FAILED".

Counts cmocka's own cases, or those of a program that ends with "N passed, N failed"; any other
program is one case. What ends badly without saying so (crash, timeout, leak found at exit) is one
failure, so a broken run can never look like a good one. Names the failures on stderr.
"""
import json
import re
import sys

CMOCKA_PASSED = re.compile(r"^\[  PASSED  \] (\d+) test\(s\)\.", re.M)
CMOCKA_FAILED = re.compile(r"^\[  FAILED  \] (\d+) test\(s\), listed below", re.M)
OWN_COUNT = re.compile(r"^(\d+) passed, (\d+) failed$", re.M)


def count(test):
    out = test.get("stdout") or ""
    err = test.get("stderr") or ""
    text = out + "\n" + err
    passed = sum(int(n) for n in CMOCKA_PASSED.findall(text))
    failed = sum(int(n) for n in CMOCKA_FAILED.findall(text))
    for p, f in OWN_COUNT.findall(text):
        passed += int(p)
        failed += int(f)
    if test["result"] == "SKIP":
        return 0, 0
    if test["result"] != "OK":
        return passed, max(failed, 1)
    if failed > 0:  # says it failed, ends with 0: that is a failure too
        return passed, failed
    return max(passed, 1), 0


def main(path):
    passed = failed = 0
    with open(path, encoding="utf-8") as log:
        for line in log:
            test = json.loads(line)
            p, f = count(test)
            passed += p
            failed += f
            if f > 0 or test["result"] == "SKIP":
                print(f"{test['result']}: {test['name']}", file=sys.stderr)
    print(passed, failed)


main(sys.argv[1])
