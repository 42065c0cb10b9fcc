#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make test says what is broken: a program that ends in each way, and what scripts/runner.py makes of it.

    tests/unit/lib/test_tally.py     anywhere"""
import contextlib
import io
import os
import sys
import tempfile

SCRIPTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "scripts")
sys.path.insert(0, SCRIPTS)
import runner  # pylint: disable=wrong-import-position

PASSED = "[  PASSED  ] %d test(s).\n"
KINDS = [  # what it prints, how it ends, cases passed and failed
    ("", "exit 0", 1, 0),
    (PASSED % 3, "exit 0", 3, 0),
    (PASSED % 3 + "2 passed, 0 failed\n", "exit 0", 5, 0),
    (PASSED % 0 + "[  SKIPPED ] 3 test(s), listed below:\n", "exit 0", 0, 0),
    ("[  FAILED  ] 2 test(s), listed below:\n", "exit 0", 0, 2),
    ("4 passed, 1 failed\n", "exit 0", 4, 1),
    ("", "exit 1", 0, 1),
    (PASSED % 3, "exit 1", 3, 1),
    ("", "exit 77", 0, 1),  # Meson's word for skipped
    ("", "kill -9 $$", 0, 1),
    (PASSED % 3, "exec sleep 1000", 3, 1),
    (PASSED % 3, "trap 'exit 0' TERM; sleep 1000 & wait", 3, 1),
    ("[==========] Running 3 test(s).\n" + PASSED % 3, "exit 0", 3, 0),
    ("[==========] Running 3 test(s).\n" + PASSED % 2, "exit 0", 2, 1),
    ("4 passed, 1 failed, 2 skipped\n", "exit 0", 4, 1),
    ("ok one\nok two\n", "exit 0", 1, 0),  # it does not count
    ("ok one\nok two\n2 passed, 0 failed\n", "exit 0", 2, 0),
]
PLANTED = [  # what it says must match "I[45] is violated"
    ("I4 is violated", "exit 1", 1, 0),
    ("I3 is violated", "exit 1", 0, 1),
    ("I4 is violated", "exit 0", 0, 1),
    ("", "exec sleep 1000", 0, 1),
]


def outcome(text, end, env):
    """What a run of one test says: its cases passed and failed, and the last line."""
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as out:
        run = runner.Run(1, logs=folder + "/logs")
        run.queue([runner.Test("one", ["sh", "-c", "printf '%s' \"$TEXT\"; " + end], env=dict(env, TEXT=text))], 1)
        code = run.close()
    done, = run.done
    said = out.getvalue().splitlines()[-1].split(", ")
    assert said[:2] == ["%d passed" % done.passed, "%d failed" % done.failed], said
    assert (code == 0) == (done.failed == 0), code
    return done.passed, done.failed


def stopped():
    """What a run says that is over time, with one test under way and one that waits."""
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as out:
        run = runner.Run(1000, 1, logs=folder + "/logs")
        run.queue([runner.Test(name, ["sleep", "1000"]) for name in ("first", "second")], 1)
        code = run.close()
    text = out.getvalue()
    return code == 1 and "stopped: gate: first" in text and "0 passed, 2 failed" in text


def not_there():
    """A program that cannot be started is red; and so is a run of nothing."""
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        run = runner.Run(1, logs=folder + "/logs")
        run.queue([runner.Test("none", ["/nowhere/none"]), runner.Test("true", ["true"])], 1)
        nothing = runner.Run(1, logs=folder + "/logs")
        nothing.queue([], 1)
        return run.close() == 1 and len(run.done) == 2 and nothing.close() == 1


def main():
    wrong = [kind for kind in KINDS if outcome(kind[0], kind[1], {}) != kind[2:]]
    wrong += [kind for kind in PLANTED if outcome(kind[0], kind[1], {"ROTA_FINDS": "I[45] is violated"}) != kind[2:]]
    if not stopped():
        wrong.append("a run that does not end")
    if not not_there():
        wrong.append("a program that is not there")
    os.chdir("/")
    for what in wrong:
        print("wrong:", what)
    print("%d passed, %d failed" % (len(KINDS) + len(PLANTED) + 2 - len(wrong), len(wrong)))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
