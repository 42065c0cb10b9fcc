# SPDX-License-Identifier: Apache-2.0
"""What the tests of rota-txn serve share: a server of it, services that say what they are told to, and requests as DTM's
clients send them."""
import ctypes
import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, quote, urlparse

LIMIT = 90  # s: nothing takes so long unless it hangs
BASE = "/api/dtmsvr/"


def die_with_parent():
    """In a child, before it is another program: a test that is killed leaves nobody behind, who would keep its pipes open."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


class Services:
    """Answers by path: a list of statuses, bodies, or functions that return one, of which the last one stays; and what was
    asked."""

    def __init__(self):
        self.calls, self.script, self.lock = [], {}, threading.Lock()
        services = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
                url = urlparse(self.path)
                query = {k: v[0] for k, v in parse_qs(url.query).items()}
                with services.lock:
                    services.calls.append((self.command, url.path, query, body, dict(self.headers)))
                    what = services.answer(url.path, query, body)
                what = what() if callable(what) else what
                status = what if isinstance(what, int) else 200
                out = what.encode() if isinstance(what, str) else b"{}"
                self.send_response(status)
                self.send_header("Content-Length", str(len(out)))
                self.end_headers()
                self.wfile.write(out)

            do_GET = do_POST = do

            def log_message(self, *_):
                pass

        class Quiet(ThreadingHTTPServer):
            def handle_error(self, *_):
                pass  # whoever called was killed

        self.http = Quiet(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        threading.Thread(target=self.http.serve_forever, daemon=True).start()
        self.base = "http://127.0.0.1:%d" % self.http.server_port

    def answer(self, path, _query, _body):
        """A status, a body, or a function. With the lock."""
        say = self.script.get(path, [200])
        return say.pop(0) if len(say) > 1 else say[0]

    def of(self, gid):
        with self.lock:
            return [c for c in self.calls if c[2].get("gid") == gid]

    def paths(self, gid):
        return [c[1] for c in self.of(gid)]


class Server:
    """rota-txn serve on JOURNAL, a URL. ENV: what its environment has beside ours. SECURE: an SSL context, if it speaks TLS."""

    def __init__(self, program, journal, *more, env=None, secure=None):
        self.secure, self.through = secure, None  # through: the port of a proxy
        self.process = subprocess.Popen(
            [program, "--journal", journal, "serve", "--listen", "127.0.0.1:0", "--takeover", "1s", *more],
            stderr=subprocess.PIPE, text=True, env={**os.environ, **(env or {})}, preexec_fn=die_with_parent)
        line = ""
        while "listening at port" not in line:
            line = self.process.stderr.readline()
            if line == "":
                raise AssertionError("it does not listen: %s" % self.process.wait())
        self.log = []  # what it said since
        self.port = int(line.split()[-1].rstrip('"}'))
        threading.Thread(target=self.read_log, daemon=True).start()

    def read_log(self):
        for line in self.process.stderr:
            self.log.append(line)
            sys.stderr.write(line)

    def says(self, text):
        wait_for(lambda: any(text in line for line in self.log))

    def ask(self, path, body=None, headers=None, raw=False, timeout=LIMIT):
        at = ("127.0.0.1", self.through or self.port)
        conn = (http.client.HTTPSConnection(*at, timeout=timeout, context=self.secure) if self.secure else
                http.client.HTTPConnection(*at, timeout=timeout))
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        try:
            conn.request("GET" if data is None else "POST", path if raw else BASE + path, data,
                         {"Content-Type": "application/json", **(headers or {})})
        except (BrokenPipeError, ConnectionResetError):
            if conn.sock is None:  # it died
                return 0, ""  # else it was answered before all was sent: too large
        try:
            reply = conn.getresponse()
            return reply.status, reply.read().decode()
        except ConnectionResetError:
            return 0, ""  # cut: a peer that sends on does not hear the answer
        finally:
            conn.close()

    def status(self, gid):
        answer = json.loads(self.ask("query?gid=" + quote(gid, safe=""))[1])
        return answer["transaction"]["status"] if answer["transaction"] else ""

    def wait(self, gid, status):
        until = time.monotonic() + LIMIT
        while (now := self.status(gid)) != status:
            assert time.monotonic() < until, "%s is %s, not %s" % (gid, now, status)
            time.sleep(0.02)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(LIMIT) == 0


def wait_for(condition, limit=LIMIT):
    until = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < until, "it does not come to that"
        time.sleep(0.02)


def good(reply):
    assert reply[0] == 200 and json.loads(reply[1])["dtm_result"] == "SUCCESS", reply


def refused(reply, status, word):
    assert reply[0] == status and word in reply[1] and "\n" not in reply[1].strip(), reply
    if status == 409:
        assert json.loads(reply[1])["dtm_result"] == "FAILURE", reply


def tcc(server, services, gid, branches=("01", "02"), **options):
    good(server.ask("prepare", {"gid": gid, "trans_type": "tcc", "request_timeout": LIMIT, **options}))
    for b in branches:
        good(server.ask("registerBranch", {
            "gid": gid, "trans_type": "tcc", "branch_id": b, "data": '{"n":%d}' % int(b),
            "confirm": services.base + "/confirm" + b, "cancel": services.base + "/cancel" + b}))


def saga(server, services, gid, actions, **options):
    return server.ask("submit", {
        "gid": gid, "trans_type": "saga", "request_timeout": LIMIT, "payloads": ["{}"] * len(actions),
        "steps": [{"action": services.base + a, "compensate": services.base + "/un" + a[1:]} for a in actions], **options})


def msg(services, gid, **options):
    return {"gid": gid, "trans_type": "msg", "request_timeout": LIMIT, "payloads": ["1", "2"], "query_prepared": services.base + "/query-" + gid,
            "steps": [{"action": services.base + "/one"}, {"action": services.base + "/two"}], **options}
