# SPDX-License-Identifier: Apache-2.0
"""A bank behind rota-txn serve: accounts that services keep, each behind DTM's barrier, and clients that move money by tcc,
saga and msg, ask again when nobody answers, and leave some of it to the server. Afterwards every effect is there as often as its
transaction says, and the sum is what it was."""
import http.client
import json
import sqlite3
import threading
import time

from kit import LIMIT, Services

ACCOUNTS = 5
PATIENCE = 3  # s: a client's, until it asks again
ORIGIN = {"cancel": "try", "compensate": "action"}


class Bank(Services):
    """What a call does it does once, in one local transaction with DTM's barrier (dtmcli's BranchBarrier)."""

    def __init__(self):
        self.db = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        self.db.executescript("""
            CREATE TABLE barrier (gid TEXT, branch TEXT, op TEXT, reason TEXT, PRIMARY KEY (gid, branch, op));
            CREATE TABLE effect (gid TEXT, branch TEXT, op TEXT);
            CREATE TABLE account (id INTEGER PRIMARY KEY, balance INTEGER, hold INTEGER);""")
        self.db.executemany("INSERT INTO account VALUES (?, 1000, 0)", [(i,) for i in range(ACCOUNTS)])
        super().__init__()
        self.port = self.http.server_port

    def bar(self, gid, branch, op, reason):
        return self.db.execute("INSERT OR IGNORE INTO barrier VALUES (?, ?, ?, ?)", (gid, branch, op, reason)).rowcount

    def move(self, gid, branch, op, order):
        amount = order["amount"]
        balance, hold = {"try": (0, amount), "confirm": (amount, -amount), "cancel": (0, -amount), "action": (amount, 0),
                         "compensate": (-amount, 0), "msg": (amount, 0)}[op]
        self.db.execute("UPDATE account SET balance = balance + ?, hold = hold + ? WHERE id = ?",
                        (balance, hold, order["account"]))
        self.db.execute("INSERT INTO effect VALUES (?, ?, ?)", (gid, branch, op))

    def answer(self, path, query, body):
        gid, branch, op = query["gid"], query["branch_id"], query["op"]
        if path == "/query":
            self.bar(gid, branch, "msg", "rollback")
            reason = self.db.execute("SELECT reason FROM barrier WHERE gid = ? AND branch = ? AND op = 'msg'",
                                     (gid, branch)).fetchone()[0]
            return 200 if reason == "msg" else 409
        order = json.loads(body)
        if op in ("try", "action") and "say" in order:
            return order["say"]
        self.db.execute("BEGIN")
        empty = op in ORIGIN and self.bar(gid, branch, ORIGIN[op], op) > 0
        again = self.bar(gid, branch, op, op) == 0
        if not empty and not again:
            self.move(gid, branch, op, order)
        self.db.execute("COMMIT")
        return 200

    def write(self, gid, order):
        """A message's own local transaction."""
        with self.lock:
            self.db.execute("BEGIN")
            first = self.bar(gid, "00", "msg", "msg") > 0
            if first:
                self.move(gid, "00", "msg", order)
            self.db.execute("COMMIT")
        return first

    def effects(self, gid):
        with self.lock:
            return self.db.execute("SELECT branch, op FROM effect WHERE gid = ? ORDER BY branch, op", (gid,)).fetchall()

    def check_sums(self):
        with self.lock:
            assert self.db.execute("SELECT sum(balance), sum(hold) FROM account").fetchone() == (1000 * ACCOUNTS, 0)


class Order:
    """One transaction of one client. BANK's services are called at BASE; SERVER() is whom to ask just now."""

    def __init__(self, kind, gid, bank, base, server):
        self.kind, self.gid, self.bank, self.base, self.server = kind, gid, bank, base, server
        self.must = None  # how it ends; None: either way
        self.begun = False

    def ask(self, path, **body):
        """Until somebody answers."""
        until = time.monotonic() + LIMIT
        while True:
            try:
                status, text = self.server().ask(path, {"gid": self.gid, "request_timeout": 1, "retry_interval": 1,
                                                        "trans_type": self.kind.split("-")[0], **body}, timeout=PATIENCE)
                if status in (200, 409):
                    return status
                assert status in (0, 500), (self.gid, status, text)
            except (OSError, http.client.HTTPException):
                pass
            assert time.monotonic() < until, "%s: nobody answers" % self.gid
            time.sleep(0.05)

    def order(self, i, **more):
        return {"account": (hash(self.gid) + i) % ACCOUNTS, "amount": 10 if i % 2 else -10, **more}

    def tried(self, branch, order):
        """A client's own call; it asks once, and gives up."""
        conn = http.client.HTTPConnection(self.base[7:], timeout=PATIENCE)
        try:
            conn.request("POST", "/try?gid=%s&trans_type=tcc&branch_id=%s&op=try" % (self.gid, branch), json.dumps(order))
            return conn.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            conn.close()

    def tcc(self):
        left, no = self.kind == "tcc-left", self.kind == "tcc-no"
        good = self.ask("prepare", timeout_to_fail=2 if left else 30) == 200
        self.begun = True
        for i in range(2):
            order = self.order(i, **({"say": 409} if no and i == 1 else {}))
            good = good and self.ask("registerBranch", branch_id="0%d" % (i + 1), data=json.dumps(order),
                                     confirm=self.base + "/confirm", cancel=self.base + "/cancel") == 200
            good = good and self.tried("0%d" % (i + 1), order)
        if left:
            self.must = "failed"
        elif good and self.ask("submit") == 200:
            self.must = "succeed"
        elif not good and self.ask("abort") == 200:
            self.must = "failed"

    def steps(self, **more):
        last = {"saga": {}, "saga-no": {"say": 409}, "saga-late": {"say": 425}}.get(self.kind, {})
        orders = [self.order(0), self.order(1)] + ([self.order(2, **last)] if last else [])
        return {"steps": [{"action": self.base + "/action", "compensate": self.base + "/compensate"} for _ in orders],
                "payloads": [json.dumps(o) for o in orders], **more}

    def saga(self):
        self.ask("submit", **self.steps(timeout_to_fail=3 if self.kind == "saga-late" else 0))
        self.begun, self.must = True, "succeed" if self.kind == "saga" else "failed"

    def msg(self):
        silent = self.kind != "msg"
        orders = {"steps": [{"action": self.base + "/action"}], "payloads": [json.dumps(self.order(1))],
                  "query_prepared": self.base + "/query", "timeout_to_fail": 2 if silent else 30}
        self.ask("prepare", **orders)
        self.begun = True
        wrote = self.kind != "msg-no" and self.bank.write(self.gid, self.order(0))
        if not silent and wrote:
            self.ask("submit", **orders)
        self.must = "succeed" if wrote else "failed"

    def run(self):
        getattr(self, self.kind.split("-")[0])()

    def check(self, status):
        """Each effect as often as its outcome says."""
        assert status in ("succeed", "failed") and self.must in (None, status), (self.gid, self.must, status)
        done = self.bank.effects(self.gid)
        assert len(set(done)) == len(done), (self.gid, done)
        good, kind = status == "succeed", self.kind.split("-")[0]
        if kind == "msg":
            assert done == ([("00", "msg"), ("01", "action")] if good else []), (self.gid, done)
        forward, back = {"tcc": ("try", "cancel"), "saga": ("action", "compensate")}.get(kind, ("", ""))
        ahead, undone = ({b for b, op in done if op == what} for what in (forward, back))
        if kind != "msg":
            assert ahead == {"01", "02"} and not undone if good else ahead == undone, (self.gid, done)
        if kind == "tcc":
            assert {b for b, op in done if op == "confirm"} == (ahead if good else set()), (self.gid, done)


KINDS = ("saga", "saga-no", "saga-late", "tcc", "tcc-no", "tcc-left", "msg", "msg-no", "msg-left")


class Day:
    """Orders of all kinds, COUNT of each, in threads of their own."""

    def __init__(self, name, count, bank, base, server):
        self.bank, self.server, self.failed = bank, server, []
        self.orders = [Order(kind, "%s-%s-%d" % (name, kind, i), bank, base, server) for i in range(count) for kind in KINDS]
        self.threads = [threading.Thread(target=self.work, args=(self.orders[i::9],), daemon=True) for i in range(9)]
        for t in self.threads:
            t.start()

    def work(self, orders):
        try:
            for o in orders:
                o.run()
        except Exception as e:  # pylint: disable=broad-except
            self.failed.append(e)

    def after(self, earlier):
        """Both as one day; EARLIER, if there was any, has joined its threads."""
        if earlier is not None:
            self.orders, self.failed = earlier.orders + self.orders, earlier.failed + self.failed
        return self

    def status(self, order):
        """"": not known, or nobody answers."""
        try:
            return self.server().status(order.gid)
        except (OSError, http.client.HTTPException, ValueError, KeyError):
            return ""

    def over(self):
        return not any(t.is_alive() for t in self.threads) and \
            all(self.status(o) in ("succeed", "failed") for o in self.orders)

    def end(self):
        """Somebody serves now."""
        for t in self.threads:
            t.join()
        if self.failed:
            raise self.failed[0]
        for o in self.orders:
            until = time.monotonic() + LIMIT
            while (status := self.status(o)) not in ("succeed", "failed"):
                assert time.monotonic() < until, "%s is '%s'" % (o.gid, status)
                time.sleep(0.05)
            o.check(status)
        self.bank.check_sums()
