#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make test: the gates and the tests, in every build that they need. The last line is "N passed, N failed".

    scripts/test.py [--all] [gates|asan|tsan|planted]...     only these
    MESON_FLAGS=-Dengine_mysql=disabled scripts/test.py      without that engine, in new build folders

Builds, gates and the simulator need all the CPU that there is: they go first, one thing at a time. Most other tests wait
most of the time, for sessions that end: they run several at once, of all builds beside each other, but not so many that
they starve each other, for a session that is not renewed in time is lost, as it should be. A build makes only what its
tests need. --all: also the suite slow. A table says at the end what each engine cost."""
import argparse
import json
import os
import subprocess
import sys
import threading
import time

import tally

CORES = os.cpu_count() or 1
SANITIZERS = {
    "ASAN_OPTIONS": "detect_leaks=1:detect_stack_use_after_return=1:strict_string_checks=1",
    "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
    # Tests fork while threads run, which TSan refuses unless told.
    "TSAN_OPTIONS": "halt_on_error=1:die_after_fork=0:second_deadlock_stack=1",
}
# With sanitizers -O1: half the time to compile, and less is optimised away that they would have seen. Lines and functions are
# all that a report needs: -g1 compiles in a fifth less.
OPTIONS = {
    "asan": ["-Db_sanitize=address,undefined", "-Doptimization=1", "-Dc_args=-g1"],
    "tsan": ["-Db_sanitize=thread", "-Doptimization=1", "-Dc_args=-g1"],
    "planted": ["-Dplanted=true", "-Dc_args=-g1"],
}
GATES = [
    ("clang-format", ["scripts/gate-format.sh"]),
    ("core is pure", ["scripts/gate-core.sh", "build"]),
    ("crash points: the table and the calls", ["scripts/gate-points.sh"]),
    ("builds without engines", ["scripts/gate-engines.sh"]),
    ("nm -D shows only rota_*", ["scripts/gate-symbols.sh", "build"]),
    ("hardening", ["scripts/gate-hardening.sh", "build"]),
    ("install, pkg-config, the README's example", ["scripts/gate-install.sh", "build"]),
    ("documents say what the program says", ["scripts/gate-docs.sh", "build"]),
    ("Debian packages", ["scripts/gate-deb.sh"]),
    ("clang-tidy", ["scripts/gate-tidy.sh"]),
]
# Tests that wait, of one build, at once. Builds of one row run one after the other, rows beside each other: with these the two
# end at about the same time, and six tests run at any.
ROWS = [["asan"], ["tsan", "planted"]]
AT_ONCE = {"asan": 5, "tsan": 1, "planted": 1}


def chosen(test, folder, slow):
    """Whether a test runs in build-FOLDER. A test says its suites in its meson.build; tests/meson.build explains them."""
    suites = {suite.split(":")[-1] for suite in test["suite"]}
    if "slow" in suites and not slow:
        return False
    if folder == "tsan":
        return "threads" in suites or (slow and "threads-slow" in suites)
    return bool(suites & {"planted", "plain"}) == (folder == "planted")


class Run:
    """The whole: what is counted, and said as one."""

    def __init__(self, slow):
        self.slow, self.began, self.lock = slow, time.time(), threading.Lock()
        self.passed, self.broken, self.tests, self.others = 0, [], [], []

    def say(self, text):
        with self.lock:
            print("%4d s  %s" % (time.time() - self.began, text), flush=True)

    def fail(self, what, text=""):
        self.say("FAIL  " + what + ("\n" + text if text else ""))
        with self.lock:
            self.broken.append(what)

    def command(self, part, words):
        """Runs it, and counts its CPU for PART: (status, what it printed)."""
        began = time.time()
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        text = process.stdout.read().decode(errors="replace")
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if part:
            with self.lock:
                self.others.append((part, used.ru_utime + used.ru_stime, time.time() - began))
        return process.returncode, text

    # ---- Builds and gates, one after the other

    def build(self, folder):
        """Makes what the tests of build-FOLDER need, and tells which these are."""
        where = "build-" + folder
        if not os.path.exists(where + "/build.ninja"):
            status, text = self.command("builds", ["meson", "setup", where, "-Dtests=enabled", "-Dwerror=true"] + OPTIONS[folder] +
                                            os.environ.get("MESON_FLAGS", "").split())
            if status != 0:
                self.fail("build-%s cannot be set up" % folder, text[-4000:])
                return []
        status, text = self.command("builds", ["ninja", "-C", where, "build.ninja"]) # as its meson.build is now
        if status != 0:
            self.fail("build-%s cannot be set up" % folder, text[-4000:])
            return []
        tests = [t for t in introspect(where, "tests") if chosen(t, folder, self.slow)]
        files = {t["id"]: t["filename"] for t in introspect(where, "targets")}
        needed = sorted({os.path.relpath(files[d][0], os.path.abspath(where)) for t in tests for d in t["depends"]})
        status, text = self.command("builds", ["ninja", "-C", where, "-j", str(CORES)] + needed)
        if status != 0:
            self.fail("build-%s does not build" % folder, text[-4000:])
            return []
        self.say("build-%s: %d programs" % (folder, len(needed)))
        return tests

    def gate(self, name, words):
        status, text = self.command("gates", words)
        if status != 0:
            return self.fail("gate: " + name, text)
        self.say("ok    gate: " + name)
        with self.lock:
            self.passed += 1
        return True

    def gates(self):
        if self.gate("build", ["make", "-s"]):
            for name, words in GATES:
                self.gate(name, words + (["--all"] if self.slow and words == ["scripts/gate-engines.sh"] else []))

    # ---- Tests

    def meson_test(self, folder, tests, at_once, word):
        """Runs TESTS of build-FOLDER, AT_ONCE at a time, and counts what became of them."""
        log = "build-%s/meson-logs/%s-timed.sh.json" % (folder, word) # so Meson names it
        if os.path.exists(log):
            os.unlink(log)
        words = ["meson", "test", "-C", "build-" + folder, "--no-rebuild", "--print-errorlogs", "--timeout-multiplier", "3",
                 "--logbase", word, "--num-processes", str(at_once), "--wrapper", os.path.abspath("scripts/timed.sh")]
        words = without_aslr() + words + [t["name"] for t in tests]
        status, text = self.command(None, words)
        done = tally.read(log) if os.path.exists(log) else []
        failed = [t for t in done if t.failed > 0]
        with self.lock:
            self.tests += done
            self.passed += sum(t.passed for t in done)
        for t in failed:
            for _ in range(t.failed):
                self.broken.append("build-%s: %s (%s), see %s" % (folder, t.name, t.result, log.replace(".json", ".txt")))
        if len(done) != len(tests) or (status != 0 and not failed):
            self.fail("build-%s: %d of %d tests of %s ran, meson test ended with %d" % (folder, len(done), len(tests), word, status))
        if failed:
            print(text, flush=True)
        self.say("%s  tests: %s, %s: %d cases" % ("FAIL" if failed else "ok  ", folder, word,
                                                 sum(t.passed + t.failed for t in done)))
        for seeds in (line for t in done for line in t.seeds): # what the simulator ran
            self.say(seeds)

    def beside(self, row, waiting):
        """The tests that wait of a row's builds, in a thread of its own."""
        for folder in row:
            if not waiting.get(folder):
                continue
            try:
                self.meson_test(folder, waiting[folder], AT_ONCE[folder], "waiting")
            except Exception as error: # pylint: disable=broad-except
                self.fail("build-%s: what ran cannot be told: %r" % (folder, error))

    def run(self, parts):
        tests = {folder: self.build(folder) for folder in OPTIONS if folder in parts}
        if "gates" in parts:
            self.gates()
        waiting = {}
        for folder, mine in tests.items():
            if any(computes(t) for t in mine):
                self.meson_test(folder, [t for t in mine if computes(t)], CORES, "computing")
            waiting[folder] = [t for t in mine if not computes(t)]
        threads = [threading.Thread(target=self.beside, args=(row, waiting)) for row in ROWS]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def introspect(where, what):
    with open("%s/meson-info/intro-%s.json" % (where, what), encoding="utf-8") as file:
        return json.load(file)


def computes(test):
    return any(suite.endswith(":sim") for suite in test["suite"])


def without_aslr():
    """Where the kernel's address randomisation is wider than gcc 12's TSan can bear, it must be off."""
    words = ["setarch", os.uname().machine, "-R"]
    return words if subprocess.run(words + ["true"], stderr=subprocess.DEVNULL).returncode == 0 else []


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="also the suite slow")
    parser.add_argument("part", nargs="*", choices=["gates", *OPTIONS, []])
    arguments = parser.parse_args()
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    for name in ("ROTA_URL", "ROTA_TRACE", "ROTA_BUG", "ROTA_PASSWORD", "DESTDIR"):
        os.environ.pop(name, None)
    os.environ.update(SANITIZERS, LC_ALL="C.UTF-8")
    run = Run(arguments.all)
    run.run(arguments.part or ["gates", *OPTIONS])
    wall = time.time() - run.began
    cpu = sum(t.cpu for t in run.tests) + sum(o[1] for o in run.others)
    print()
    for row in tally.table(run.tests, run.others):
        print(row)
    print("all in %d s: %d s of CPU, %d %% of %d cores" % (wall, cpu, 100 * cpu / wall / CORES, CORES))
    for t in run.tests:
        if t.skipped > 0:
            print("left out: %d cases of %s" % (t.skipped, t.name))
    for t in run.tests: # the whole is far above, and in the logs
        if t.failed > 0:
            print("\n%s:\n    %s\n" % (t.name, "\n    ".join(t.trouble)))
    for what in run.broken:
        print("failed: " + what)
    failed = len(run.broken)
    print("%d passed, %d failed" % (run.passed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
