# SPDX-License-Identifier: Apache-2.0
"""Builds, and one queue of tests over all of them: what scripts/test.py and scripts/explore.py stand on.

Meson says which tests there are and how each is started; it does not run them, because its runner draws the byte that fresh
memory is filled with, knows only one build at a time, and stretches every limit of its own."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

import tally

CORES = os.cpu_count() or 1
ENVIRONMENT = {
    "ASAN_OPTIONS": "detect_leaks=1:detect_stack_use_after_return=1:strict_string_checks=1",
    "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
    # Tests fork while threads run, which TSan refuses unless told.
    "TSAN_OPTIONS": "halt_on_error=1:die_after_fork=0:second_deadlock_stack=1",
    "MALLOC_PERTURB_": "165",
    "LC_ALL": "C.UTF-8",
}
FOREIGN = ("ROTA_URL", "ROTA_TRACE", "ROTA_BUG", "ROTA_PASSWORD", "DESTDIR", "MAKEFLAGS", "MAKELEVEL")
# -O1: half the time to compile. With it gcc 12 guesses some lengths wrong. With sanitizers lines and functions are all that a
# report needs: -g1 compiles in a fifth less.
OPTIONS = {
    "test": ["-Dplanted=true", "-Doptimization=1", "-Dc_args=-g1 -Wno-format-truncation", "--prefix=/usr/local", "--libdir=lib"],
    "asan": ["-Db_sanitize=address,undefined", "-Doptimization=1", "-Dc_args=-g1"],
    "tsan": ["-Db_sanitize=thread", "-Doptimization=1", "-Dc_args=-g1"],
}


class Test:
    """A program and how it is run. FINDS: words that its failure must say; None: it must not fail."""

    def __init__(self, name, words, build=None, suites=(), env=None, alone=False, priority=0, depends=()):
        self.name, self.words, self.build, self.suites = name, words, build, frozenset(suites)
        self.env, self.alone, self.priority, self.depends = env or {}, alone, priority, depends
        self.finds = self.env.get("ROTA_FINDS")

    def again(self):
        """How a person runs it alone."""
        return "scripts/test.py %s'%s'" % ("" if self.build in ("test", None) else "--build %s " % self.build, self.name)


class Done:
    """What became of a test."""

    def __init__(self, test, result, text, wall, cpu):
        self.test, self.result, self.text, self.wall, self.cpu = test, result, text, wall, cpu
        self.part = "gates" if test.build is None else tally.part_of(test.name)
        self.passed, self.failed = tally.count(result, text)
        if test.finds is not None:
            self.passed, self.failed = self.found()
        self.skipped = tally.skipped(text)

    def found(self):
        """A planted bug is found if the test fails and says the right words: a time-out is no find, nor is a case's mere name."""
        if self.result == "OK":
            self.result = "found nothing"
        elif self.result.startswith("ended with") and re.search(self.test.finds, tally.failures(self.text), re.S):
            self.result = "OK"
        else:
            self.result = "%s, without '%s'" % (self.result, self.test.finds)
        return (1, 0) if self.result == "OK" else (0, 1)


def say_at(began, text):
    print("%4d s  %s" % (time.time() - began, text), flush=True)


class Run:
    """A run: when it began, what is under way, what is done. LIMIT_S: of each test; WHOLE_S: of all, 0: none. FIRST_RED: it
    ends with the first test that is red."""

    def __init__(self, limit_s, whole_s=0, logs="build-test/logs", first_red=False):
        self.limit_s, self.whole_s, self.logs, self.first_red = limit_s, whole_s, logs, first_red
        self.began, self.lock = time.time(), threading.Condition()
        self.running, self.done, self.broken, self.stopped, self.queued = {}, [], [], False, 0
        shutil.rmtree(logs, ignore_errors=True)
        os.makedirs(logs)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(number, self.interrupted)

    def say(self, text):
        with self.lock:
            say_at(self.began, text)

    # ---- Builds

    def command(self, words):
        process = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        return process.returncode, process.stdout.decode(errors="replace")

    def build(self, build, chosen):
        """Makes what the tests need for which CHOSEN(test) says so, and what users get; returns these tests."""
        where, began = "build-" + build, time.time()
        steps = [["ninja", "-C", where, "build.ninja"]]  # as its meson.build is now
        if not os.path.exists(where + "/build.ninja"):
            steps = [["meson", "setup", where, "-Dtests=enabled", "-Dwerror=true"] + OPTIONS[build] +
                     os.environ.get("MESON_FLAGS", "").split()]
        for words in steps:
            if not self.step(where, words):
                return []
        tests = [t for t in tests_of(build) if chosen(t)]
        targets = introspect(where, "targets")
        files = {t["id"]: t["filename"][0] for t in targets}
        users = [t["id"] for t in targets if t["installed"]]
        needed = sorted({os.path.relpath(files[d], os.path.abspath(where)) for d in users + [d for t in tests for d in t.depends]})
        if not self.step(where, ["ninja", "-C", where, "-j", str(CORES)] + needed):
            return []
        self.say("%s: %d programs in %d s" % (where, len(needed), time.time() - began))
        return tests

    def step(self, where, words):
        status, text = self.command(words)
        if status != 0:
            self.broken.append("%s does not build: %s" % (where, " ".join(words[:3])))
            self.say("FAIL  %s\n%s" % (self.broken[-1], text[-6000:]))
        return status == 0

    # ---- Tests

    def one(self, test):
        """Runs TEST; its output is in the logs when it has ended."""
        path = "%s/%s.txt" % (self.logs, re.sub(r"[^\w.-]+", "-", "%s-%s" % (test.build or "gate", test.name)))
        env = {k: v for k, v in os.environ.items() if k not in FOREIGN}
        env.update(ENVIRONMENT, **test.env)
        folder = "build-" + test.build if test.build else "."
        words = (without_aslr() if test.build == "tsan" else []) + test.words
        began = time.time()
        with open(path, "wb") as log:
            process = subprocess.Popen(words, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                       start_new_session=True)
        with self.lock:
            self.running[process.pid] = (test, began)
        was_late = threading.Event()

        def end_it():
            was_late.set()
            kill(process.pid)

        late = threading.Timer(self.limit_s, end_it)
        late.start()
        _, status, used = os.wait4(process.pid, 0)
        late.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        kill(process.pid, signal.SIGKILL)  # what it left behind in its session
        with self.lock:
            del self.running[process.pid]
        wall = time.time() - began
        result = "OK" if process.returncode == 0 else "ended with %d" % process.returncode
        if was_late.is_set():
            result = "no end within %d s" % self.limit_s
        elif self.stopped:
            result = "stopped"
        with open(path, "rb") as log:
            text = log.read().decode(errors="replace")
        return Done(test, result, text, wall, used.ru_utime + used.ru_stime)

    def queue(self, tests, at_once):
        """Runs TESTS, AT_ONCE at a time, the ones with the highest priority first; those that are ALONE at the end."""
        waiting = sorted((t for t in tests if not t.alone), key=lambda t: -t.priority)
        self.queued += len(tests)
        watch = threading.Thread(target=self.watch, daemon=True)
        watch.start()
        workers = [threading.Thread(target=self.work, args=(waiting,)) for _ in range(at_once)]
        for thread in workers:
            thread.start()
        for thread in workers:
            thread.join()
        self.work([t for t in tests if t.alone])

    def work(self, waiting):
        while True:
            with self.lock:
                if not waiting or self.stopped:
                    return
                test = waiting.pop(0)
                left = len(waiting)
            try:
                done = self.one(test)
            except Exception as what:  # it cannot be started, or its log not written
                done = Done(test, "cannot be run: %s" % what, "", 0, 0)
            self.end(done, left)

    def end(self, done, left):
        with self.lock:
            self.done.append(done)
            if done.failed and done.result != "stopped":
                say_at(self.began, "FAIL  %s (%s)\n      %s" % (name_of(done.test), done.result,
                                                               "\n      ".join(tally.trouble(done.text))))
            if done.failed or left % 25 == 0:
                say_at(self.began, "%d tests done, %d waiting" % (len(self.done), left))
            if done.failed and self.first_red:
                self.stop()

    def watch(self):
        """Ends a run that does not end, and says what was under way."""
        while self.whole_s and time.time() - self.began < self.whole_s:
            time.sleep(1)
        if not self.whole_s:
            return
        with self.lock:
            self.stop()
            self.broken.append("not all had run after %d s" % self.whole_s)

    def interrupted(self, *_):
        with self.lock:
            self.stop()
            self.broken.append("interrupted")

    def stop(self):
        """Ends what is under way, and begins nothing more."""
        if self.stopped:
            return
        self.stopped = True
        for pid, (test, began) in self.running.items():
            say_at(self.began, "stopped: %s, %d s under way" % (name_of(test), time.time() - began))
            kill(pid)

    # ---- The end

    def close(self):
        """Prints the table, what failed and how to run it again, and the last line. Returns the exit code."""
        wall, cpu = time.time() - self.began, sum(d.cpu for d in self.done)
        print()
        for row in tally.table(self.done) if self.done else []:
            print(row)
        print("all in %d s: %d s of CPU in tests" % (wall, cpu))
        self.list_cases()
        for d in [d for d in self.done if d.failed]:
            print("failed: %s (%s); again: %s" % (name_of(d.test), d.result, d.test.again()))
        for what in self.broken:
            print("failed: " + what)
        if not self.stopped and (len(self.done) < self.queued or not self.done):
            self.broken.append("%d of %d tests have run" % (len(self.done), self.queued))
            print("failed: " + self.broken[-1])
        failed = sum(d.failed for d in self.done) + len(self.broken)
        left_out = sum(d.skipped for d in self.done)
        print("%d passed, %d failed" % (sum(d.passed for d in self.done), failed) + (", %d skipped" % left_out if left_out else ""))
        return 1 if failed else 0

    def list_cases(self):
        """Writes the name of each case, as many as are counted."""
        with open(self.logs + "/cases.txt", "w", encoding="utf-8") as file:
            for d in sorted(self.done, key=lambda d: name_of(d.test)):
                cases = tally.cases(name_of(d.test), d.result, d.text)
                file.writelines(line + "\n" for line in sorted(cases))
                if not d.failed and d.test.finds is None and len(cases) != d.passed + d.skipped:
                    self.broken.append("%s names %d cases and counts %d" % (name_of(d.test), len(cases), d.passed + d.skipped))


def name_of(test):
    return ("gate: " if test.build is None else "" if test.build == "test" else test.build + ": ") + test.name


def kill(pid, how=signal.SIGTERM):
    """Ends all of the session that PID leads."""
    try:
        os.killpg(pid, how)
    except ProcessLookupError:
        return
    if how == signal.SIGTERM:
        threading.Timer(5, kill, [pid, signal.SIGKILL]).start()


def introspect(where, what):
    with open("%s/meson-info/intro-%s.json" % (where, what), encoding="utf-8") as file:
        return json.load(file)


def tests_of(build):
    return [Test(t["name"], t["cmd"], build, [s.split(":")[-1] for s in t["suite"]], t["env"], not t["is_parallel"], t["priority"],
                 t["depends"]) for t in introspect("build-" + build, "tests")]


def without_aslr():
    """Where the kernel's address randomisation is wider than gcc 12's TSan can bear, it must be off."""
    words = ["setarch", os.uname().machine, "-R"]
    return words if subprocess.run(words + ["true"], stderr=subprocess.DEVNULL, check=False).returncode == 0 else []


def to_the_sources():
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(sys.argv[0])), ".."))
