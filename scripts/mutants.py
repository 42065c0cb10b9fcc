#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Mutation testing: one line of the sources is broken, and a quick test must find it.

    scripts/mutants.py [-n N] [--seed S] [--folder FOLDER[,FOLDER]] [--only FILE[:LINE]] [--jobs J] [--at-least PERCENT]
                       [--again LOG] [--root FOLDER] [--list]
    scripts/mutants.py --gate [--seed S]                              one line each of twelve places, against make test

N mutants of each folder (0: all) are drawn by SEED, planted in a copy of the tree (build-mutants/), compiled, and run against
the quick tests of their folder, the likeliest killers first, until one is red or does not end. One that does not compile, or
makes the same object file, does not count; nor does one of tests/mutants/equivalent/FOLDER.txt, where a person says why it
changes nothing. The score is what was found of the rest; what survived is listed, to be killed by a test or marked there.
With --gate the tests of the suite `gate` must find it, whichever they are: eleven of the twelve, or the exit code is 1."""
import argparse
import collections
import filecmp
import glob
import os
import queue
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time

import runner

UNIT = "tests/unit/"
SIM = "tests/sim/sim --from 1" # the same worlds each time: a score can be repeated
CONFORMANCE = "tests/conformance/conformance"
CORE_TESTS = [UNIT + "core/test_" + name for name in ("desk", "edges", "readers", "giving_up", "session", "grant", "quorum", "timers")]
CLIENT_TESTS = [UNIT + "client/test_" + name for name in ("dispatch", "misuse", "failing", "hunt", "late", "metrics", "drive",
                                                          "client", "oom", "races", "trouble")]
ON_MEM = CONFORMANCE + " mem:mutants"


def named(prefix, names):
    """The unit tests PREFIX + each of NAMES."""
    return [UNIT + prefix + name for name in names.split()]


# Each folder: its sources, and the commands that look at it, the quickest and likeliest killers first.
FOLDERS = {
    "core": ("src/core", CORE_TESTS + [UNIT + "client/test_hunt", UNIT + "client/test_dispatch", SIM + " --seeds 400",
                                       UNIT + "mem/test_mem", SIM + " --redis --seeds 40", SIM + " --etcd --seeds 40", ON_MEM]),
    "client": ("src/client", CLIENT_TESTS[:5] + [SIM + " --seeds 400"] + CLIENT_TESTS[5:] + [SIM + " --etcd --seeds 40", ON_MEM,
                                                                                              CONFORMANCE + " file:@TMP@"]),
    "lua": ("src/engine/redis/lua", named("redis/test_redis_", "script_stories script_leaving script_edges scripts_room "
                                          "scripts clocks") +
            [SIM + " --redis --seeds 80"] + named("redis/test_redis_", "keys_gone ops_server doctor")),
    "mem": ("src/engine/mem", [UNIT + "mem/test_" + name for name in ("mem", "fault", "mem_random", "mem_threads")] +
            [SIM + " --seeds 400", UNIT + "client/test_hunt", UNIT + "client/test_races", UNIT + "client/test_oom", ON_MEM]),
    "file": ("src/engine/file", [UNIT + "file/test_file" + name for name in ("", "_power", "_folder", "_full", "_ends")] +
             [SIM + " --file --seeds 30", UNIT + "client/test_trouble", CONFORMANCE + " file:@TMP@"]),
    "kit": ("src/engine/kit", named("", "etcd/test_etcd_stories redis/test_redis_ops_words redis/test_redis_ops file/test_file") +
            [SIM + " --etcd --seeds 40", SIM + " --redis --seeds 40", CONFORMANCE + " file:@TMP@"]),
    "net": ("src/net", named("etcd/test_", "grpc grpc_ends grpc_hostile") + named("net/test_", "stream_played loop stream tls") +
            named("", "etcd/test_etcd_played_errors etcd/test_grpc_fuzz redis/test_redis_link")),
    "redis": ("src/engine/redis", named("redis/test_redis_", "ops ops_fail ops_words ops_rooms ops_pushes ops_replicas link "
                                        "link_greet link_where link_beside doctor_played ops_errors ops_order") +
              [SIM + " --redis --seeds 80", SIM + " --cluster --seeds 30"] +
              named("redis/test_redis_", "link_fuzz keys_gone doctor ops_server") +
              ["tests/system/redis/test_redis_bad_input", "tests/system/redis/test_redis_cluster",
               "tests/lib/with-redis one -- " + CONFORMANCE + " --ttl=1s --alone @URL@"]),
    "etcd": ("src/engine/etcd", named("etcd/test_", "etcd_played etcd_played_ops etcd_played_looks etcd_stories "
                                      "etcd_giving_up etcd_played_shelf etcd_played_errors etcd_played_watches etcd_line etcd_proto "
                                      "etcd_doctor grpc grpc_ends grpc_hostile") +
             [SIM + " --etcd --seeds 150", "tests/lib/with-etcd one -- " + CONFORMANCE + " --ttl=1s --alone @URL@"] +
             named("etcd/test_etcd_", "secrets conn conn_auth ops doctor_live live conn_three ops_oom") +
             ["tests/system/etcd/test_etcd_rogue", "tests/system/etcd/test_etcd_regress"]),
    "sql": ("src/engine/sql", [UNIT + "sql/test_sql_engine", UNIT + "sql/test_sql_ops", UNIT + "sql/test_sql_sweep", SIM + " --postgres --seeds 150", SIM + " --mysql --seeds 80",
                               "tests/lib/with-postgres one -- " + CONFORMANCE + " --ttl=1s --alone @URL@",
                               "tests/lib/with-mysql one -- " + CONFORMANCE + " --ttl=1s --alone @URL@"]),
}
FOLDERS["redlock"] = ("src/engine/redlock", [SIM + " --redlock --seeds 20", "tests/system/redlock/test_redlock_steps",
                                             "tests/system/redlock/test_redlock_bad_input", UNIT + "redis/test_redlock_oom",
                                             "tests/lib/with-redis redlock -- " + CONFORMANCE + " --ttl=1s --alone @URL@"])
FOLDERS["txn-core"] = ("src/txn/core", ["tests/txn/unit/core/test_txn_" + name for name in ("stories", "phase_two", "recovery",
                                                                                          "parts")] + [SIM + " --txn --seeds 3000"])
FOLDERS["guard"] = ("src/guard", named("guard/test_", "guard_file guard_etcd retry guard_redis"))
FOLDERS["resp"] = ("src/engine/resp", FOLDERS["redis"][1]) # the connection that the Redis engine rides on
# As in `make explore`: what writes behind its memory, uses it freed, or loses it is found by the address sanitizer.
CHECKING = {"ASAN_OPTIONS": "detect_leaks=1:strict_string_checks=1"}
# Where --gate breaks a line: each engine with a server or a file, and what stands on them.
GATE_PLACES = {place: "src/" + place for place in ("engine/file", "engine/redis", "engine/redlock", "engine/etcd", "engine/postgres",
                                                   "engine/mysql", "engine/zookeeper", "txn/journal", "core", "client", "cli",
                                                   "txn/relay")}
GATE_LEAST = 11
COPIED = ("src", "tests", "include", "examples", "bench", "scripts", "docs", "completions", "systemd", "meson.build",
          "meson_options.txt", "README.md", "README.zh.md", "SECURITY.md")
EQUIVALENT = "tests/mutants/equivalent" # FOLDER.txt, so that two people who mark do not meet

Mutant = collections.namedtuple("Mutant", "folder path line operator old new")

# ---- Mutating: a line of code, with strings and comments masked, to the lines it may become ----

C_SWAPS = [("eq", r"==", "!="), ("eq", r"!=", "=="), ("less", r"(?<=\s)<(?=\s)", "<="), ("less", r"<=", "<"),
           ("less", r"(?<=\s)>(?=\s)", ">="), ("less", r">=", ">"), ("sum", r"(?<=\s)\+(?=\s)", "-"),
           ("sum", r"(?<=[\w\])] )-(?=\s)", "+"), ("sum", r"\+=", "-="), ("sum", r"-=", "+="), ("sum", r"\+\+", "--"),
           ("sum", r"--", "++"), ("logic", r"&&", "||"), ("logic", r"\|\|", "&&"), ("not", r"!(?=[\w(])", ""),
           ("bool", r"\btrue\b", "false"), ("bool", r"\bfalse\b", "true")]
LUA_SWAPS = [("eq", r"==", "~="), ("eq", r"~=", "=="), ("less", r"(?<=\s)<(?=\s)", "<="), ("less", r"<=", "<"),
             ("less", r"(?<=\s)>(?=\s)", ">="), ("less", r">=", ">"), ("sum", r"(?<=\s)\+(?=\s)", "-"),
             ("sum", r"(?<=[\w\])] )-(?=\s)", "+"), ("logic", r"\band\b", "or"), ("logic", r"\bor\b", "and"),
             ("not", r"\bnot ", ""), ("bool", r"\btrue\b", "false"), ("bool", r"\bfalse\b", "true")]
NUMBER = re.compile(r"(?<![\w.])(\d+)(?=[uUlL]*\b)(?![.\w]*x)")
UNTOUCHED = re.compile(r"assert|RT_BUG|^\s*(#include|#if|#endif|#else|case .*:$)|^\s*--@")
STATEMENT = re.compile(r"^\s*(?!return\b|goto\b|break\b|continue\b|else\b|if\b|while\b|for\b|case\b|struct\b|const\b|static\b|do\b)"
                       r"(\(void\))?[\w>.\[\]()*&-]+\s*(\(.*\)|(=|\+=|-=|\|=|&=)\s.*|\+\+|--);$")
DECLARED = re.compile(r"^\s*(struct |const |static |enum |unsigned |u?int\w*(_t)? |size_t |char |bool |void |sqlite3\w* |uv_\w+ )")


def mask(text, lua):
    """TEXT with strings and comments as blanks of the same length."""
    pattern = (r"--\[\[.*?\]\]|--[^\n]*|'(\\.|[^'\\\n])*'|\"(\\.|[^\"\\\n])*\"" if lua else
               r"/\*.*?\*/|//[^\n]*|'(\\.|[^'\\\n])*'|\"(\\.|[^\"\\\n])*\"")
    text = re.sub(pattern, lambda m: re.sub(r"[^\n]", " ", m.group()), text, flags=re.S)
    # A plain find of a letter is the same as one by pattern; and "+ 0" only makes a number of a text.
    return re.sub(r", 1, true\)| \+ 0\b", lambda m: m.group()[-1].replace("0", " ").rjust(len(m.group())), text) if lua else text


def condition(line, code, lua):
    """The line with its whole condition negated; None: it has none that ends on it."""
    if lua:
        m = re.search(r"\b(?:if|elseif|while) (.*) (?:then|do)\b", code)
        return line[:m.start(1)] + "not (" + line[m.start(1):m.end(1)] + ")" + line[m.end(1):] if m else None
    m = re.search(r"\b(?:if|while) \(", code)
    if not m:
        return None
    depth, at = 1, m.end()
    while at < len(code) and depth > 0:
        depth += {"(": 1, ")": -1}.get(code[at], 0)
        at += 1
    return line[:m.end()] + "!(" + line[m.end():at - 1] + ")" + line[at - 1:] if depth == 0 else None


def is_whole(code, before, lua):
    """Whether a statement begins and ends on this line."""
    if lua:
        return bool(re.match(r"^\s*(call\(.*\)|[\w.\[\]]+ = .*)\s*$", code)) and code.count("(") == code.count(")") and \
            code.count("{") == code.count("}")
    starts = not before or before[-1] in ";{}:)" or before.endswith("else")
    return starts and code.count("(") == code.count(")") and bool(STATEMENT.match(code.rstrip())) and not DECLARED.match(code)


def mutations(line, code, before, lua):
    """All (operator, new line) of a line."""
    for name, pattern, by in LUA_SWAPS if lua else C_SWAPS:
        for m in re.finditer(pattern, code):
            if not (pattern in (r"==", r"<=", r">=", r"-=", r"\+=") and code[m.start() - 1:m.start()] in "<>=!~"):
                yield name, line[:m.start()] + by + line[m.end():]
    for m in NUMBER.finditer(code):
        n = int(m.group(1))
        if n > 9 and (code.startswith("#define") or re.search(r"\bchar\b.*\[$", code[:m.start()])):
            continue # a time, a room, a limit that was tuned: one more is no bug
        first = lua and n == 1 and re.search(r"\bsub\([^(]*, $", code[:m.start()]) # of a text: from 0 is from 1
        for by in {n + 1, max(n - 1, 0)} - ({n, 0} if first else {n}):
            yield "number", line[:m.start()] + str(by) + line[m.end(1):]
    negated = condition(line, code, lua)
    if negated:
        yield "negate", negated
    blanks = line[:len(line) - len(line.lstrip())]
    if is_whole(code, before, lua):
        yield "drop", blanks + (";" if not lua else "")
    m = re.match(r"^\s*return (.+);$", code.rstrip()) if not lua else None
    if m and m.group(1) not in ("0", "false", "NULL") and code.count("(") == code.count(")"):
        yield "return", blanks + "return 0;"


def mutants_of(root, folder, only):
    """All mutants of a folder, in the order of its lines."""
    top = os.path.join(root, FOLDERS[folder][0] if folder in FOLDERS else GATE_PLACES[folder])
    paths = sorted(os.path.join(where, name) for where, _, names in os.walk(top) for name in names)
    for full in paths:
        path, lua = os.path.relpath(full, root), full.endswith(".lua")
        if not (lua if folder == "lua" else full.endswith(".c")) or path.endswith("_test.lua"):
            continue
        if only and path != only.split(":")[0]:
            continue
        text = open(full).read()
        masked, before = mask(text, lua).split("\n"), ""
        for number, (line, code) in enumerate(zip(text.split("\n"), masked), 1):
            if code.strip() and not UNTOUCHED.search(code) and (":" not in only or only.endswith(":%d" % number)):
                for operator, new in mutations(line, code, before, lua):
                    yield Mutant(folder, path, number, operator, line, new)
            before = code.strip() or before


def read_equivalent(path):
    """The marked ones: "FILE: OPERATOR", "- OLD", "+ NEW" ("+ *": whatever it becomes), "= WHY", with blanks around the code left
    out."""
    marked, at = {}, None
    for line in open(path) if os.path.exists(path) else []:
        line = line.rstrip("\n")
        if re.match(r"^(src/\S+): (\w+)$", line):
            at = line.split(": ") + ["", ""]
        elif line[:1] in "-+" and at and line:
            at[2 if line[0] == "-" else 3] = line[2:].strip()
        elif line.startswith("= ") and at:
            marked[tuple(at)] = line[2:]
    return marked


def survivors_of(log, mutants):
    """What survived an earlier run, by what it printed; where a line is there more than once, the one nearest to where it was."""
    for path, line, *rest in re.findall(r"^survived: (\S+):(\d+): (\w+)\n- (.*)\n\+ (.*)$", open(log).read(), re.M):
        same = [m for m in mutants if key(m) == (path, *rest)]
        if same:
            yield min(same, key=lambda m: abs(m.line - int(line)))


def key(m):
    return (m.path, m.operator, m.old.strip(), m.new.strip())


def is_marked(m, marked):
    return key(m) in marked or key(m)[:3] + ("*",) in marked

# ---- Building and running, in one copy of the tree per job ----


def targets(command):
    """The programs that a command runs."""
    return [word for word in command.split() if word.startswith("tests/")]


def copy_changed(source, copy):
    """What is the same keeps its time, and is not compiled again."""
    if not os.path.exists(copy) or not filecmp.cmp(source, copy, shallow=False):
        shutil.copy(source, copy)


RUNNING = set() # the process group of each test that runs


def kill_group(group):
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass


def on_signal(number, _):
    """An interrupted run leaves no test behind; its tree is copied anew by the next one."""
    for group in list(RUNNING):
        kill_group(group)
    os._exit(128 + number) # the threads of the jobs would go on


def copy_tree(root, top):
    os.makedirs(top, exist_ok=True)
    for name in COPIED:
        source, copy = os.path.join(root, name), os.path.join(top, name)
        if os.path.isdir(source):
            shutil.copytree(source, copy, copy_function=copy_changed, dirs_exist_ok=True)
        else:
            copy_changed(source, copy)


class Tree:
    def __init__(self, root, number):
        self.top = os.path.join(root, "build-mutants", "tree%d" % number)
        self.build = os.path.join(self.top, "build")
        copy_tree(root, self.top)
        if not os.path.exists(os.path.join(self.build, "build.ninja")):
            subprocess.run(["meson", "setup", "build", "-Dtests=enabled", "-Dbuildtype=plain", "-Dwarning_level=0",
                            "-Db_sanitize=address", "-Db_lundef=false",
                            "-Dc_args=-O1 -w -ftrivial-auto-var-init=pattern"], # what nobody sets is not 0 by chance
                           cwd=self.top, check=True, stdout=subprocess.DEVNULL)
        self.limits = {}

    def ninja(self, *targets):
        return subprocess.run(["ninja", "-C", self.build, "-j2", *targets], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True)

    def prepare(self, commands):
        """Builds the tests and sees them green: how long each takes is what decides when one hangs."""
        built = self.ninja(*sorted({target for c in commands for target in targets(c)}))
        if built.returncode != 0:
            sys.exit(built.stdout[-3000:])
        for command in commands:
            for _ in range(2): # a busy machine may be too slow for one, once
                began = time.time()
                if self.run(command, 300):
                    self.limits[command] = 8 + 6 * (time.time() - began)
                    break
            else:
                print("left out, for it is red without any mutant: " + command, flush=True)

    def run(self, command, limit):
        """Whether it is green; with its children it ends in time, even one that loops after we were killed."""
        words = command.split()
        job = subprocess.Popen([os.path.join(self.build, words[0])] + words[1:], cwd=self.build, stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
                               env=dict(os.environ, **CHECKING))
        RUNNING.add(job.pid)
        try:
            most = int(2 * limit) # seconds of CPU, of two cores: only one that loops needs them
            resource.prlimit(job.pid, resource.RLIMIT_CPU, (most, most))
            return job.wait(limit) == 0
        except subprocess.TimeoutExpired:
            return False
        finally:
            kill_group(job.pid)
            job.wait()
            RUNNING.discard(job.pid)

    def object_of(self, path):
        if path.endswith(".lua"):
            return "librota.a.p/meson-generated_redis_texts.c.o"
        return "librota.a.p/" + path.replace("/", "_") + ".o"

    def try_one(self, m):
        """What became of it: the command that found it, or "invalid", "same", "" (it survived)."""
        full, part = os.path.join(self.top, m.path), os.path.join(self.build, self.object_of(m.path))
        lines = open(full).read().split("\n")
        if m.path.endswith(".c") and not os.path.exists(part):
            self.ninja(self.object_of(m.path))
        before = part + ".before"
        try:
            if m.path.endswith(".c"):
                shutil.copy2(part, before)
            changed = lines[:m.line - 1] + [m.new] + lines[m.line:]
            open(full, "w").write("\n".join(changed))
            if m.path.endswith(".c"):
                if self.ninja(self.object_of(m.path)).returncode != 0:
                    return "invalid"
                if filecmp.cmp(part, before, shallow=False):
                    return "same"
            for command in (c for c in FOLDERS[m.folder][1] if c in self.limits):
                if self.ninja(*targets(command)).returncode != 0:
                    return "invalid"
                if not self.run(command, self.limits[command]):
                    return command
            return ""
        finally:
            open(full, "w").write("\n".join(lines))
            if m.path.endswith(".c"):
                self.ninja(self.object_of(m.path))

# ---- The whole ----


def work(tree, todo, wanted, results, lock):
    """Takes mutants until its folder has as many as are wanted."""
    while True:
        with lock:
            while todo and results["counted"] >= wanted > 0:
                todo.clear()
            if not todo:
                return
            m = todo.pop()
            results["counted"] += 1 # given back if it does not count
        began = time.time()
        became = tree.try_one(m)
        with lock:
            if became in ("invalid", "same"):
                results["counted"] -= 1
                results[became] += 1
                continue
            results["found" if became else "survived"].append(m)
            print("[%s %d/%s] %s:%d %s: %s, %.1f s" % (m.folder, len(results["found"]) + len(results["survived"]), wanted or "all",
                                                       m.path, m.line, m.operator,
                                                       "found by " + became if became else "SURVIVED: " + m.new.strip(),
                                                       time.time() - began), flush=True)


def run_folder(trees, folder, arguments, marked):
    """Draws and tries: what was found, survived, and was left out."""
    all_of = list(mutants_of(arguments.root, folder, arguments.only))
    todo = [m for m in all_of if not is_marked(m, marked)]
    left_out = len(all_of) - len(todo)
    if arguments.again:
        todo = list(survivors_of(arguments.again, todo))
    random.Random("%s %s" % (arguments.seed, folder)).shuffle(todo)
    results = {"found": [], "survived": [], "invalid": 0, "same": 0, "counted": 0, "marked": left_out}
    lock = threading.Lock()
    threads = [threading.Thread(target=work, args=(tree, todo, arguments.n, results, lock)) for tree in trees]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def report(all_results):
    """Survivors by line, then a line per folder; the score of all, in percent."""
    for results in all_results.values():
        for m in sorted(results["survived"]):
            print("\nsurvived: %s:%d: %s\n- %s\n+ %s" % (m.path, m.line, m.operator, m.old.strip(), m.new.strip()))
    print("\n%-8s %6s %6s %9s %7s %8s %6s" % ("folder", "score", "found", "survived", "marked", "invalid", "same"))
    found = total = 0
    for folder, r in all_results.items():
        n = len(r["found"]) + len(r["survived"])
        found, total = found + len(r["found"]), total + n
        print("%-8s %5.1f%% %6d %9d %7d %8d %6d" % (folder, 100 * len(r["found"]) / n if n else 100, len(r["found"]),
                                                    len(r["survived"]), r["marked"], r["invalid"], r["same"]))
    score = 100 * found / total if total else 100
    print("%d of %d mutants found, %.1f %%" % (found, total, score))
    return score


# ---- Against make test


def try_in_gate(m):
    """What became of M in the tree that is the current folder: the test that was red first, "invalid", "same", "" (none)."""
    lines = open(m.path).read().split("\n")
    part = (glob.glob("build-test/*.p/" + m.path.replace("/", "_") + ".o") + [None])[0]
    before = open(part, "rb").read() if part else None
    try:
        open(m.path, "w").write("\n".join(lines[:m.line - 1] + [m.new] + lines[m.line:]))
        run = runner.Run(120, first_red=True)
        tests = run.build("test", lambda t: "gate" in t.suites)
        if not tests:
            return "invalid"
        if before is not None and open(part, "rb").read() == before:
            return "same"
        run.queue(tests, 6)
        if "interrupted" in run.broken:
            sys.exit("interrupted")
        return next((d.test.name for d in run.done if d.failed and d.result != "stopped"), "")
    finally:
        open(m.path, "w").write("\n".join(lines))


def gate(root, seed, marked):
    """Breaks a line of each place; returns how many of these turned make test red."""
    top = os.path.join(root, "build-mutants", "gate")
    copy_tree(root, top)
    os.chdir(top)
    os.environ.update(ROTA_SEED="1", ROTA_PATIENCE="4", MESON_FLAGS="-Dwerror=false")
    whole = runner.Run(120)
    whole.queue(whole.build("test", lambda t: "gate" in t.suites), 6)
    if whole.close() != 0:
        sys.exit("it is red without any mutant")
    found = 0
    for place in GATE_PLACES:
        todo = [m for m in mutants_of(root, place, "") if not is_marked(m, marked)]
        random.Random("%s %s" % (seed, place)).shuffle(todo)
        became = "invalid"
        while became in ("invalid", "same"):
            m = todo.pop()
            became = try_in_gate(m)
        found += became != ""
        print("[%s] %s:%d %s: %s\n- %s\n+ %s" % (place, m.path, m.line, m.operator, "found by " + became if became else "SURVIVED",
                                               m.old.strip(), m.new.strip()), flush=True)
    print("%d of %d broken lines turn make test red" % (found, len(GATE_PLACES)))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", type=int, default=40, help="of each folder; 0: all")
    parser.add_argument("--seed", default=str(int(time.time())))
    parser.add_argument("--folder", default=",".join(FOLDERS))
    parser.add_argument("--only", default="", help="FILE or FILE:LINE")
    parser.add_argument("--again", default="", metavar="LOG", help="only what survived in an earlier run, by what that printed")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--at-least", type=float, default=0, help="percent; less fails")
    parser.add_argument("--root", default=os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    parser.add_argument("--list", action="store_true", help="prints the mutants, and tries none")
    parser.add_argument("--gate", action="store_true", help="one of each of twelve places, against all of make test")
    arguments = parser.parse_args()
    folders = arguments.folder.split(",")
    if set(folders) - set(FOLDERS):
        parser.error("no such folder: %s; there are %s" % (arguments.folder, ", ".join(FOLDERS)))
    marked = {}
    for folder in folders + (["cli"] if arguments.gate else []):
        marked.update(read_equivalent(os.path.join(arguments.root, EQUIVALENT, folder + ".txt")))
    if arguments.gate:
        return 0 if gate(arguments.root, arguments.seed, marked) >= GATE_LEAST else 1
    if arguments.list:
        for m in (m for folder in folders for m in mutants_of(arguments.root, folder, arguments.only)):
            print("%s:%d: %s%s\n- %s\n+ %s" % (m.path, m.line, m.operator, " (marked)" if is_marked(m, marked) else "", m.old.strip(),
                                              m.new.strip()))
        return 0
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, on_signal)
    print("mutants: seed %s, %s of each of %s" % (arguments.seed, arguments.n or "all", ", ".join(folders)), flush=True)
    trees = [Tree(arguments.root, i) for i in range(arguments.jobs)]
    all_results = {}
    for folder in folders:
        for tree in trees:
            tree.prepare(FOLDERS[folder][1])
        all_results[folder] = run_folder(trees, folder, arguments, marked)
    return 0 if report(all_results) >= arguments.at_least else 1


if __name__ == "__main__":
    sys.exit(main())
