#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make test says what is broken: one test of each kind, as Meson logs it, and what scripts/test.py makes of it.

    tests/unit/lib/test_tally.py     in the folder of the sources"""
import contextlib
import importlib.util
import io
import json
import os
import sys
import tempfile

SCRIPTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "scripts")
KINDS = [ # result, what it printed, cases passed and failed
    ("OK", "", 1, 0),
    ("OK", "[  PASSED  ] 3 test(s).\n", 3, 0),
    ("OK", "[  PASSED  ] 3 test(s).\n2 passed, 0 failed\n", 5, 0),
    ("OK", "[  PASSED  ] 0 test(s).\n[  SKIPPED ] 3 test(s), listed below:\n", 0, 0),
    ("OK", "[  FAILED  ] 2 test(s), listed below:\n", 0, 2),
    ("OK", "4 passed, 1 failed\n", 4, 1),
    ("FAIL", "", 0, 1),
    ("FAIL", "[  PASSED  ] 3 test(s).\n", 3, 1),
    ("TIMEOUT", "", 0, 1),
    ("ERROR", "", 0, 1),
    ("SKIP", "", 0, 1),
    ("INTERRUPT", "", 0, 1),
]


def load():
    sys.path.insert(0, SCRIPTS)
    spec = importlib.util.spec_from_file_location("rota_test", os.path.join(SCRIPTS, "test.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def outcome(module, log, status):
    """What a run makes of one test that Meson logged as LOG (None: it wrote none), and ended with STATUS."""
    run = module.Run(False)

    def command(_part, _words):
        if log is not None:
            with open("build-asan/meson-logs/waiting-timed.sh.json", "w", encoding="utf-8") as file:
                file.write(log)
        return status, ""

    run.command = command
    with contextlib.redirect_stdout(io.StringIO()):
        run.beside(["asan"], {"asan": [{"name": "one", "suite": []}]})
    return run.passed, len(run.broken)


def main():
    module, wrong = load(), []
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.makedirs("build-asan/meson-logs")
        for result, text, passed, failed in KINDS:
            entry = {"name": "one", "result": result, "starttime": 0, "duration": 1, "stdout": text}
            got = outcome(module, json.dumps(entry) + "\n", 0 if result in ("OK", "SKIP") else 1)
            if got != (passed, failed):
                wrong.append((result, text, got))
        for log, status in [(None, 1), ("", 0), ('{"name": "one", "resu', 1)]: # Meson itself has failed
            if outcome(module, log, status)[1] == 0:
                wrong.append((log, status))
        os.chdir("/")
    for what in wrong:
        print("wrong:", what)
    print("%d passed, %d failed" % (len(KINDS) + 3 - len(wrong), len(wrong)))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
