#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A session of psql or mariadb in contention with Rota: session_side.py PAIR URL NAME FOLDER THINK_US, $ROTA_GUARD: the
guard's module. Nothing but the client that comes with the database, and the statements that people type. Pairs that end with
-also: Rota stands in its own line, with ?also=."""
import collections
import ctypes
import os
import random
import signal
import subprocess
import sys
import time
import urllib.parse

Words = collections.namedtuple("Words", "dialect first lock unlock left")
WORDS = {
    "psql-advisory": Words(
        "advisory", [], "select 1 from pg_advisory_lock(hashtextextended('NAME', 0));",
        "select pg_advisory_unlock(hashtextextended('NAME', 0))::int;",
        "select count(*) from pg_locks where locktype = 'advisory';"),
    "psql-forupdate": Words(
        "forupdate", ["create table if not exists rota_forupdate (name text collate \"C\" not null primary key); select 1;",
                      "insert into rota_forupdate values ('NAME') on conflict do nothing; select 1;"],
        "begin; select 1 from rota_forupdate where name = 'NAME' for update;", "commit; select 1;",
        "select count(*) - 1 from pg_stat_activity where xact_start is not null and backend_type = 'client backend';"),
    "mariadb-getlock": Words(
        "getlock", [], "select get_lock('NAME', 1000);", "select release_lock('NAME');",
        "select coalesce(is_used_lock('NAME'), 0);"),
    "mariadb-forupdate": Words(
        "forupdate", ["create table if not exists rota_forupdate (name varbinary(767) not null primary key); select 1;",
                      "insert ignore into rota_forupdate values ('NAME'); select 1;"],
        "begin; select 1 from rota_forupdate where name = 'NAME' for update;", "commit; select 1;",
        "select count(*) - count(*) from rota_forupdate where name = 'NAME' for update;"),
    # ShedLock's own statements: whoever finds it taken asks again. ID: of the session. A row of the name is there.
    "psql-shedlock-also": Words(
        "shedlock", [],
        "with x as (update shedlock set lock_until = timezone('utc', now()) + interval '600 seconds', "
        "locked_at = timezone('utc', now()), locked_by = 'ID' where name = 'NAME' and lock_until <= timezone('utc', now()) "
        "returning 1) select count(*) from x;",
        "with x as (update shedlock set lock_until = timezone('utc', now()) where name = 'NAME' and locked_by = 'ID' "
        "returning 1) select count(*) from x;",
        "select count(*) from shedlock where lock_until > timezone('utc', now());"),
    "mariadb-shedlock-also": Words(
        "shedlock", [],
        "update shedlock set lock_until = timestampadd(second, 600, utc_timestamp(3)), locked_at = utc_timestamp(3), "
        "locked_by = 'ID' where name = 'NAME' and lock_until <= utc_timestamp(3); select row_count();",
        "update shedlock set lock_until = utc_timestamp(3) where name = 'NAME' and locked_by = 'ID'; select row_count();",
        "select count(*) from shedlock where lock_until > utc_timestamp(3);"),
}
WORDS["psql-advisory-also"] = WORDS["psql-advisory"]
WORDS["mariadb-getlock-also"] = WORDS["mariadb-getlock"]


class Session:
    def __init__(self, url):
        u = urllib.parse.urlsplit(url)
        if u.scheme.startswith("postgres"):
            argv = ["psql", "-XAtq", "-v", "ON_ERROR_STOP=1", url]
            env = dict(os.environ, PGAPPNAME="interop")
        else:
            query = dict(urllib.parse.parse_qsl(u.query))
            argv = ["mariadb", "--no-defaults", "-N", "-B", "-n", "-h", u.hostname, "-P", str(u.port), "-u", u.username,
                    u.path.lstrip("/")]
            with open(query["password_file"]) as f:
                env = dict(os.environ, MYSQL_PWD=f.read().strip())
        self.client = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, text=True, bufsize=1)

    def ask(self, line):
        """The one line of the answer; "" if the session has ended."""
        self.client.stdin.write(line + "\n")
        self.client.stdin.flush()
        return self.client.stdout.readline().strip()

    def end(self):
        self.client.stdin.close()
        self.client.wait()


class Guard:
    def __init__(self, folder):
        self.lib = ctypes.CDLL(os.environ["ROTA_GUARD"])
        self.lib.guard_enter.restype = ctypes.c_uint64
        self.lib.guard_open(b"session", folder.encode())

    def stopped(self):
        return self.lib.guard_stopped() != 0

    def inside(self, number):
        count = self.lib.guard_enter(ctypes.c_uint64(number), b"")
        # Short, and now and then long enough for a kill to find a holder.
        time.sleep(0.02 if random.randrange(16) == 0 else random.random() / 2000)
        self.lib.guard_leave(ctypes.c_uint64(number), ctypes.c_uint64(count))


def spell(line, name):
    return line.replace("NAME", name).replace("ID", f"session-{os.getpid()}")


def main():
    pair, url, name, folder, think = sys.argv[1:]
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG
    guard, words, session, rounds = Guard(folder), WORDS[pair], Session(url), 0
    while not guard.stopped():
        while (answer := session.ask(spell(words.lock, name))) == "0":
            time.sleep(random.random() / 200)
        if answer != "1":
            sys.exit("the session was not given the lock")
        rounds += 1
        guard.inside(rounds)  # it has no fence
        if session.ask(spell(words.unlock, name)) != "1":
            sys.exit("the session did not hold what it let go of")
        if int(think) > 0:
            time.sleep(random.randrange(int(think)) / 1e6)
    session.end()


if __name__ == "__main__":
    main()
