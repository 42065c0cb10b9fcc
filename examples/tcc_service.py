#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A service that takes part in Rota's transactions by try, confirm and cancel: a shelf, in SQLite.

    tcc_service.py DATABASE ITEMS     serves on 127.0.0.1, says its port, and how many are free, reserved, sold by GET /

The fence is one statement in the same local transaction as the work (docs/transactions/tcc.md): calls that come
doubled, late, out of order, or without their try do no harm. Nothing but Python's own library is needed.
"""
import http.server
import sqlite3
import sys
import time

FENCE = {
    "try": "1, 0, :deadline) ON CONFLICT (txn, branch) DO UPDATE SET was = f.state RETURNING was",
    "confirm": "4, 0, :deadline) ON CONFLICT (txn, branch) DO UPDATE SET was = f.state, "
               "state = CASE f.state WHEN 1 THEN 2 ELSE f.state END RETURNING was",
    "cancel": "4, 0, :deadline) ON CONFLICT (txn, branch) DO UPDATE SET was = f.state, "
              "state = CASE f.state WHEN 1 THEN 3 ELSE f.state END RETURNING was",
}
WORK = {
    "try": "UPDATE shelf SET free = free - :n, reserved = reserved + :n WHERE free >= :n",
    "confirm": "UPDATE shelf SET reserved = reserved - :n, sold = sold + :n",
    "cancel": "UPDATE shelf SET reserved = reserved - :n, free = free + :n",
}
ANSWER = {  # by what the branch was before; None: now the work
    "try": {0: None, 1: 200, 2: 200, 3: 409, 4: 409},
    "confirm": {0: 409, 1: None, 2: 200, 3: 409, 4: 409},
    "cancel": {0: 200, 1: None, 2: 409, 3: 200, 4: 200},
}


def connect(path):
    return sqlite3.connect(path, timeout=5, isolation_level=None)


def call(path, op, txn, branch, deadline, n):
    """One local transaction: the fence, then the work if the fence says so. The status to answer."""
    if op == "try" and time.time() * 1000 > deadline + 3600_000:
        return 409
    db = connect(path)
    try:
        db.execute("BEGIN IMMEDIATE")
        fence = "INSERT INTO rota_fence AS f (txn, branch, state, was, deadline) VALUES (:txn, :branch, " + FENCE[op]
        was = db.execute(fence, {"txn": txn, "branch": branch, "deadline": deadline}).fetchall()[0][0]
        status = ANSWER[op][was]
        if status is None:
            status = 200 if db.execute(WORK[op], {"n": n}).rowcount == 1 else 409
        # An empty cancel is committed, too: so its try, should it come, is refused.
        db.execute("COMMIT" if status == 200 else "ROLLBACK")
        return status  # not before COMMIT
    except sqlite3.OperationalError:
        return 425  # locked: ask again. Closing rolls back
    finally:
        db.close()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status, text):
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            op = self.headers["Rota-Op"]
            asked = (op, self.headers["Rota-Txn"], int(self.headers["Rota-Branch"]),
                     int(self.headers["Rota-Deadline"]), int(body))
            known = op in FENCE and asked[1] is not None
        except (TypeError, ValueError):
            known = False
        status = call(self.server.path, *asked) if known else 400
        self.answer(status, {200: "done\n", 409: "refused\n", 425: "under way\n"}.get(status, "what is that?\n"))

    def do_GET(self):
        db = connect(self.server.path)
        free, reserved, sold = db.execute("SELECT free, reserved, sold FROM shelf").fetchone()
        db.close()
        self.answer(200, f"{free} free, {reserved} reserved, {sold} sold\n")

    def log_message(self, *_):
        pass


def main():
    path, items = sys.argv[1], int(sys.argv[2])
    db = connect(path)
    db.execute("CREATE TABLE IF NOT EXISTS rota_fence (txn TEXT NOT NULL, branch INTEGER NOT NULL, state INTEGER NOT NULL,"
               " was INTEGER NOT NULL, deadline INTEGER NOT NULL, PRIMARY KEY (txn, branch)) WITHOUT ROWID")
    db.execute("CREATE TABLE IF NOT EXISTS shelf (free INTEGER, reserved INTEGER, sold INTEGER)")
    db.execute("INSERT INTO shelf SELECT ?, 0, 0 WHERE NOT EXISTS (SELECT 1 FROM shelf)", (items,))
    db.close()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.path = path
    print(server.server_address[1], flush=True)
    server.serve_forever()


main()
