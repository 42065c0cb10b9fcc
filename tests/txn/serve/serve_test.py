# SPDX-License-Identifier: Apache-2.0
"""rota-txn serve from outside: requests as DTM's clients send them, services that say what they are told to, servers that
are killed. serve_test.py ROTA-TXN"""
import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, quote, urlparse

LIMIT = 90  # s: nothing takes so long unless it hangs
BASE = "/api/dtmsvr/"


class Services:
    """Answers by path: a list of statuses or bodies, of which the last one stays; and what was asked."""

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
                    say = services.script.get(url.path, [200])
                    what = say.pop(0) if len(say) > 1 else say[0]
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

    def of(self, gid):
        with self.lock:
            return [c for c in self.calls if c[2].get("gid") == gid]

    def paths(self, gid):
        return [c[1] for c in self.of(gid)]


class Server:
    def __init__(self, program, journal, *more):
        self.process = subprocess.Popen(
            [program, "--journal", "file:" + journal, "serve", "--listen", "127.0.0.1:0", "--takeover", "1s", *more],
            stderr=subprocess.PIPE, text=True)
        line = ""
        while "listening at port" not in line:
            line = self.process.stderr.readline()
            if line == "":
                raise AssertionError("it does not listen: %s" % self.process.wait())
        self.port = int(line.split()[-1].rstrip('"}'))
        threading.Thread(target=self.read_log, daemon=True).start()

    def read_log(self):
        for line in self.process.stderr:
            sys.stderr.write(line)

    def ask(self, path, body=None, headers=None, raw=False):
        conn = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT)
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        try:
            conn.request("GET" if data is None else "POST", path if raw else BASE + path, data, headers or {})
        except (BrokenPipeError, ConnectionResetError):
            pass  # too large: it was answered before all was sent
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


def test_tcc(server, services):
    gid = json.loads(server.ask("newGid")[1])["gid"]
    tcc(server, services, gid, branch_headers={"test-header": "x"})
    assert server.status(gid) == "prepared"
    good(server.ask("submit", {"gid": gid, "trans_type": "tcc", "wait_result": True}))
    calls = services.of(gid)
    assert [(c[0], c[1], c[3]) for c in calls] == [("POST", "/confirm02", '{"n":2}'), ("POST", "/confirm01", '{"n":1}')]
    assert calls[0][2] == {"gid": gid, "trans_type": "tcc", "branch_id": "02", "op": "confirm"}
    assert calls[0][4]["test-header"] == "x" and not any(h.lower().startswith("rota-") for h in calls[0][4])
    assert server.status(gid) == "succeed"
    refused(server.ask("submit", {"gid": gid, "trans_type": "tcc"}), 409, "succeed")
    refused(server.ask("abort", {"gid": gid, "trans_type": "tcc"}), 409, "cannot abort")
    refused(server.ask("prepare", {"gid": gid, "trans_type": "tcc"}), 409, "cannot prepare")
    refused(server.ask("registerBranch", {"gid": gid, "trans_type": "tcc", "branch_id": "03"}), 409, "prepared")
    own = "an order / 47 ö"
    tcc(server, services, own)
    good(server.ask("abort", {"gid": own, "trans_type": "tcc", "wait_result": True}))
    assert services.paths(own) == ["/cancel02", "/cancel01"]
    assert server.status(own) == "failed"
    refused(server.ask("registerBranch", {"gid": "never", "trans_type": "tcc", "branch_id": "01"}), 409, "never")
    assert server.status("never") == ""


def test_tcc_too_late(server, services):
    tcc(server, services, "late", timeout_to_fail=8)
    server.wait("late", "failed")
    assert services.paths("late") == ["/cancel02", "/cancel01"]
    refused(server.ask("submit", {"gid": "late", "trans_type": "tcc"}), 409, "failed")


def test_saga(server, services):
    good(saga(server, services, "s1", ["/a", "/b"], wait_result=True))
    assert services.paths("s1") == ["/a", "/b"]
    services.script["/no"] = [409]
    services.script["/failure"] = ['{"dtm_result":"FAILURE"}']
    refused(saga(server, services, "s2", ["/a", "/no", "/c"], wait_result=True), 409, "409")
    assert services.paths("s2") == ["/a", "/no", "/unno", "/una"]
    good(saga(server, services, "s3", ["/a", "/failure"]))
    server.wait("s3", "failed")
    services.script["/slow"] = [425, "ONGOING", 500, 200]
    good(saga(server, services, "s4", ["/slow", "/b"], retry_interval=1))
    server.wait("s4", "succeed")
    assert services.paths("s4") == ["/slow"] * 4 + ["/b"]
    services.script["/never"] = [425]
    good(saga(server, services, "s5", ["/a", "/never"], retry_interval=1, timeout_to_fail=2))
    server.wait("s5", "failed")
    assert services.paths("s5")[-2:] == ["/unnever", "/una"]
    orders = json.dumps({"concurrent": True, "orders": {"2": [0, 1]}})
    refused(saga(server, services, "s6", ["/a", "/b", "/no"], custom_data=orders, wait_result=True), 409, "409")
    paths = services.paths("s6")
    assert sorted(paths[:2]) == ["/a", "/b"] and paths[2:4] == ["/no", "/unno"] and sorted(paths[4:]) == ["/una", "/unb"]
    refused(server.ask("abort", {"gid": "s1", "trans_type": "saga"}), 409, "cannot abort")


def test_msg(server, services):
    good(server.ask("submit", msg(services, "m1", wait_result=True)))
    assert services.paths("m1") == ["/one", "/two"]
    good(server.ask("prepare", msg(services, "m2", timeout_to_fail=1)))
    server.wait("m2", "succeed")
    first = services.of("m2")[0]
    assert first[:3] == ("GET", "/query-m2", {"gid": "m2", "trans_type": "msg", "branch_id": "00", "op": "msg"})
    assert services.paths("m2")[1:] == ["/one", "/two"]
    services.script["/query-m3"] = [409]
    good(server.ask("prepare", msg(services, "m3", timeout_to_fail=1)))
    server.wait("m3", "failed")
    assert services.paths("m3") == ["/query-m3"]
    good(server.ask("prepare", msg(services, "m4")))
    good(server.ask("submit", msg(services, "m4", wait_result=True)))
    good(server.ask("prepare", msg(services, "m5")))
    good(server.ask("abort", msg(services, "m5")))
    server.wait("m5", "failed")
    assert services.paths("m5") == []
    good(server.ask("prepare", msg(services, "m6")))
    good(server.ask("submit", msg(services, "m6", custom_data='{"delay":1}')))
    server.wait("m6", "succeed")
    refused(server.ask("prepare", {**msg(services, "m7"), "query_prepared": ""}), 400, "query_prepared")


def test_hostile(server, services):
    deep = b"[" * 100000
    for endpoint in ("prepare", "submit", "abort", "registerBranch"):
        for body, word in ((b"", "JSON"), (b"garbage", "JSON"), (b"\xff\xfe\x00", "JSON"), (deep, "JSON"), ({}, "gid"),
                           ({"gid": "g" * 1000, "trans_type": "tcc"}, "1000 bytes"), ({"gid": ["x"]}, "gid")):
            refused(server.ask(endpoint, body), 400, word)
        assert server.ask(endpoint, b"x" * 10_000_000)[0] in (413, 0)
    refused(server.ask("submit", {"gid": "x", "trans_type": "xa"}), 400, "tcc, saga and msg")
    refused(server.ask("submit", {"gid": "x", "trans_type": "saga", "steps": [{"action": "ftp://x"}]}), 400, "http")
    refused(server.ask("submit", {"gid": "x", "trans_type": "msg", "steps": [{"action": "topic://x"}]}), 400, "topics")
    big = {"gid": "big", "trans_type": "saga", "steps": [{"action": ""}], "payloads": ["x" * 100000]}
    refused(server.ask("submit", big), 400, "journal")
    refused(server.ask("prepareWorkflow", {}), 501, "not here")
    refused(server.ask("subscribe?topic=x"), 501, "not here")
    assert server.ask("/somewhere", raw=True)[0] == 404
    assert "rota_txn_serve_requests_total" in server.ask("/api/metrics", raw=True)[1]
    assert services.of("x") == []


def test_ends(services, start):
    """At SIGTERM whoever waits is told, and nothing is lost; a port that is taken is said so."""
    server = start()
    services.script["/waits"] = [425] * 3 + [200]
    told = []
    asker = threading.Thread(target=lambda: told.append(saga(server, services, "ends", ["/waits"], retry_interval=1)))
    asker.start()
    asker.join()
    good(told[0])
    taken = subprocess.run(server.process.args[:5] + ["127.0.0.1:%d" % server.port], stderr=subprocess.PIPE, text=True,
                           timeout=LIMIT, check=False)
    assert taken.returncode == 69 and "in use" in taken.stderr and "the manager" not in taken.stderr, taken
    server.end()
    start().wait("ends", "succeed")


def test_several(server, services, start):
    """Two servers on one journal: what one has prepared the other submits, and it is in doubt nowhere."""
    other = start()
    tcc(server, services, "both")
    good(other.ask("submit", {"gid": "both", "trans_type": "tcc", "wait_result": True}))
    assert server.status("both") == "succeed" and set(services.paths("both")) == {"/confirm02", "/confirm01"}
    refused(server.ask("abort", {"gid": "both", "trans_type": "tcc"}), 409, "cannot abort")
    other.end()


def test_killed(server, services, start):
    """A server is killed with transactions of all kinds under way: another one ends each of them as it was told."""
    dead = start()
    services.script["/later"] = [425] * 12 + [200]
    services.script["/refuses"] = [425] * 8 + [409]
    for i in range(4):
        good(saga(dead, services, "k-saga%d" % i, ["/a", "/later"], retry_interval=1))
        good(saga(dead, services, "k-back%d" % i, ["/a", "/refuses"], retry_interval=1))
        tcc(dead, services, "k-left%d" % i, timeout_to_fail=8)
        tcc(dead, services, "k-tcc%d" % i)
        good(dead.ask("submit", {"gid": "k-tcc%d" % i, "trans_type": "tcc"}))
        good(dead.ask("prepare", msg(services, "k-msg%d" % i, timeout_to_fail=3)))
    dead.kill()
    for i in range(4):
        for kind, status in (("saga", "succeed"), ("back", "failed"), ("left", "failed"), ("tcc", "succeed"),
                             ("msg", "succeed")):
            server.wait("k-%s%d" % (kind, i), status)
        saga_paths, back = services.paths("k-saga%d" % i), services.paths("k-back%d" % i)
        assert set(saga_paths) == {"/a", "/later"} and saga_paths[0] == "/a"
        assert back[-2:] == ["/unrefuses", "/una"], back
        assert set(services.paths("k-left%d" % i)) == {"/cancel01", "/cancel02"}
        assert set(services.paths("k-tcc%d" % i)) == {"/confirm01", "/confirm02"}
        assert set(services.paths("k-msg%d" % i)) == {"/query-k-msg%d" % i, "/one", "/two"}


def test_token(program, folder):
    path = os.path.join(folder, "token")
    with open(path, "w", encoding="utf-8") as f:
        f.write("sesame\n")
    os.chmod(path, 0o600)
    server = Server(program, os.path.join(folder, "guarded"), "--token-file", path)
    assert server.ask("newGid")[0] == 401
    assert server.ask("newGid", headers={"Authorization": "Bearer no"})[0] == 401
    assert server.ask("newGid", headers={"Authorization": "Bearer sesame"})[0] == 200
    server.end()
    open_to_all = subprocess.run([program, "--journal", "file:" + folder + "/guarded", "serve", "--listen", "0.0.0.0:0"],
                                 stderr=subprocess.PIPE, text=True, timeout=LIMIT, check=False)
    assert open_to_all.returncode != 0 and "token" in open_to_all.stderr, open_to_all


def main():
    program, folder = sys.argv[1], tempfile.mkdtemp(prefix="rota-serve-")
    started = []

    def start():
        started.append(Server(program, os.path.join(folder, "journal")))
        return started[-1]

    try:
        services, server = Services(), start()
        for test in (test_tcc, test_tcc_too_late, test_saga, test_msg, test_hostile):
            test(server, services)
            print("ok", test.__name__, flush=True)
        for test in (test_several, test_killed):
            test(server, services, start)
            print("ok", test.__name__, flush=True)
        server.end()
        test_ends(services, start)
        print("ok test_ends")
        test_token(program, folder)
        print("ok test_token")
    finally:
        for s in started:
            if s.process.poll() is None:
                s.kill()
        shutil.rmtree(folder)


main()
