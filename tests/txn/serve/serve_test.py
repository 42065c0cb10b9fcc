# SPDX-License-Identifier: Apache-2.0
"""rota-txn serve from outside: what its clients are told, what services are asked, servers that are killed.
serve_test.py ROTA-TXN MAKE-CERTS JOURNAL [CASE...]: JOURNAL is file (in a folder of its own), or a URL"""
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time

from kit import LIMIT, Server, Services, good, msg, refused, saga, tcc, wait_for


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
    good(saga(server, services, "s5", ["/a", "/never"], retry_interval=1, timeout_to_fail=8))
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
    heir = start()
    heir.wait("ends", "succeed")
    heir.end()


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
        assert [p for p in dict.fromkeys(back) if p.startswith("/un")] == ["/unrefuses", "/una"], back  # an heir may ask again
        assert set(services.paths("k-left%d" % i)) == {"/cancel01", "/cancel02"}
        assert set(services.paths("k-tcc%d" % i)) == {"/confirm01", "/confirm02"}
        assert set(services.paths("k-msg%d" % i)) == {"/query-k-msg%d" % i, "/one", "/two"}


def test_rivals(server, services, start):
    """A server that was stopped goes on beside the one that took over: what any of them may have run is compensated."""
    first = start()
    services.script["/second"] = [425]
    good(saga(first, services, "rivals", ["/first", "/second", "/third"], retry_interval=1))
    wait_for(lambda: "/second" in services.paths("rivals"))
    first.process.send_signal(signal.SIGSTOP)
    while server.ask("prepare", {"gid": "probe", "trans_type": "tcc"})[0] != 200:  # it has the journal's file
        first.process.send_signal(signal.SIGCONT)
        first.process.send_signal(signal.SIGSTOP)
    services.script["/second"] = [500]
    seen = len(services.paths("rivals"))
    wait_for(lambda: services.paths("rivals")[seen:].count("/second") >= 4)  # the next one comes after 8 s
    services.script["/second"], services.script["/third"] = [200, 409], [425]
    first.process.send_signal(signal.SIGCONT)
    wait_for(lambda: "/third" in services.paths("rivals") or server.status("rivals") != "submitted")
    first.kill()
    server.wait("rivals", "failed")
    paths = services.paths("rivals")
    assert "/third" not in paths or "/unthird" in paths, paths
    assert "/unsecond" in paths and "/unfirst" in paths, paths
    good(server.ask("abort", {"gid": "probe", "trans_type": "tcc", "wait_result": True}))


def test_claimed(services, start):
    """What a server is at work with is claimed: another one leaves it alone, however old it is."""
    owner, other = start("--takeover", "8s"), start("--takeover", "8s")
    services.script["/long"] = [425]
    good(saga(owner, services, "claimed", ["/long"], retry_interval=1))
    wait_for(lambda: len(services.of("claimed")) >= 13)
    assert "rota_txn_serve_taken_over_total 0\n" in other.ask("/api/metrics", raw=True)[1]
    services.script["/long"] = [200]
    other.wait("claimed", "succeed")
    owner.end()
    other.end()


def test_late(services, start):
    """A saga whose server died, found when its time is over: nothing of it is asked again, and all that may have run is
    compensated."""
    began, dead = time.time(), start()
    services.script["/never"] = [425]
    good(saga(dead, services, "late-saga", ["/a", "/b", "/never", "/d"], retry_interval=1, timeout_to_fail=6))
    wait_for(lambda: "/never" in services.paths("late-saga"))
    dead.kill()
    wait_for(lambda: time.time() > began + 7)
    asked = len(services.paths("late-saga"))
    heir = start()
    heir.wait("late-saga", "failed")
    assert services.paths("late-saga")[asked:] == ["/unnever", "/unb", "/una"], services.paths("late-saga")
    heir.end()


def test_native(server, services):
    """An id of this journal that newGid has not given is a transaction's of the library, with a row or without: nothing is
    written there."""
    given = json.loads(server.ask("newGid")[1])["gid"]
    native = given[:20] + "%x" % (int(given[20], 16) & 7) + given[21:]
    step = {"action": services.base + "/native"}
    branch = {"trans_type": "tcc", "branch_id": "01", "confirm": services.base + "/native", "cancel": ""}
    for endpoint, body in (("prepare", {"trans_type": "tcc"}), ("registerBranch", branch), ("submit", {"trans_type": "tcc"}),
                           ("submit", {"trans_type": "saga", "steps": [step], "payloads": ["x"]}), ("abort", {"trans_type": "tcc"})):
        refused(server.ask(endpoint, {**body, "gid": native}), 400, "newGid")
    assert services.paths(native) == []
    good(server.ask("prepare", {"gid": given, "trans_type": "tcc"}))
    good(server.ask("abort", {"gid": given, "trans_type": "tcc", "wait_result": True}))


def test_sizes(server, services):
    """What could never be called is refused; what can be is called as it is."""
    long = {"gid": "l" * 128, "trans_type": "saga", "steps": [{"action": services.base + "/" + "u" * 1900}]}
    refused(server.ask("submit", {**long, "payloads": ["x"]}), 400, "2048 bytes")
    large = {"gid": "large", "trans_type": "saga", "steps": [{"action": services.base + "/large"}]}
    refused(server.ask("submit", {**large, "payloads": ["x" * 33000]}), 400, "leave the rest")
    good(server.ask("submit", {**large, "payloads": ["x" * 32000], "wait_result": True,
                               "branch_headers": {"authorization": "Bearer " + "t" * 4000, "x-empty": ""}}))
    _, _, _, body, headers = services.of("large")[0]
    assert len(body) == 32000 and headers["authorization"] == "Bearer " + "t" * 4000, headers
    refused(server.ask("submit", {**large, "gid": "smuggled", "branch_headers": {"Content-Length": "3"}}), 400, "Length")
    tcc(server, services, "broad", ())
    branch = {"gid": "broad", "trans_type": "tcc", "confirm": services.base + "/confirm", "cancel": ""}
    refused(server.ask("registerBranch", {**branch, "branch_id": "01", "data": "x" * 33000}), 400, "leave the rest")
    refused(server.ask("registerBranch", {**branch, "branch_id": "01", "confirm": "http://h/" + "u" * 2000}), 400, "2048")
    for i in range(1100):
        good(server.ask("registerBranch", {**branch, "branch_id": "%04d" % i, "confirm": ""}))
    good(server.ask("registerBranch", {**branch, "branch_id": "9999"}))
    good(server.ask("submit", {"gid": "broad", "trans_type": "tcc", "wait_result": True}))
    assert services.paths("broad") == ["/confirm"]


def told(program, journal, *words):
    """What a command of rota-txn prints; of --json what it means."""
    run = subprocess.run([program, "--journal", journal, *words], capture_output=True, text=True, timeout=LIMIT, check=False)
    assert run.returncode in (0, 1), run
    return json.loads(run.stdout) if "--json" in words else run.stdout + run.stderr


def id_of(program, journal, gid):
    return next(t["id"] for t in told(program, journal, "ls", "--json")["transactions"] if t["label"] == gid)


def is_claimed(program, journal, gid):
    return told(program, journal, "show", "--json", id_of(program, journal, gid))["served"]["claimed"]


def test_shown(services, start, program, journal):
    """rota txn ls, show and recover tell of a server's transactions: what they are, what was asked, who finishes them."""
    server = start()
    services.script["/stuck"], services.script["/unstuck"] = [409], [500]
    good(saga(server, services, "shown", ["/a", "/stuck", "/c"], retry_interval=1))
    tcc(server, services, "shown-tcc")
    wait_for(lambda: len([p for p in services.paths("shown") if p == "/unstuck"]) >= 2)
    rows = {t["label"]: t for t in told(program, journal, "ls", "--json")["transactions"]}
    assert rows["shown"]["state"] == "aborting" and rows["shown"]["served"] and rows["shown"]["age_ms"] >= 0, rows
    text = told(program, journal, "show", rows["shown"]["id"])
    for words in ("saga, by 'rota txn serve'", "01          to be compensated   " + services.base + "/una",
                  "02          to be compensated   " + services.base + "/unstuck", "03          not asked "):
        assert words in text, text
    shown = told(program, journal, "show", rows["shown-tcc"]["id"], "--json")
    assert shown["served"]["kind"] == "tcc" and shown["branches"] == [], shown
    assert [(b["branch"], b["state"]) for b in shown["served"]["branches"]] == \
        [("01", "perhaps reserved"), ("02", "perhaps reserved")], shown
    assert told(program, journal, "recover", "--once", "--json")["served"] == 2
    assert "2 of 'rota txn serve': a server that runs on this journal finishes them" in told(program, journal, "recover", "--once")
    asked = {(b["branch_id"], b["op"]): b for b in json.loads(server.ask("query?gid=shown")[1])["branches"]}
    assert asked["01", "action"]["status"] == "succeed" and asked["02", "action"]["status"] == "failed", asked
    assert asked["02", "compensate"]["asked"] >= 2 and "500" in asked["02", "compensate"]["said"], asked
    assert "asked" not in asked["03", "action"] and "asked" not in asked["01", "compensate"], asked
    services.script["/unstuck"] = [200]
    good(server.ask("abort", {"gid": "shown-tcc", "trans_type": "tcc"}))
    for gid in ("shown", "shown-tcc"):
        server.wait(gid, "failed")
    assert "compensated   " in told(program, journal, "show", rows["shown"]["id"])
    server.end()


def test_elsewhere(services, start, program, journal):
    """What one server holds open is decided at another one, or by a command, which then ends: somebody goes on with it."""
    server, dead = start(), start()
    services.script["/confirm01"] = services.script["/one"] = [500]
    tcc(server, services, "else-tcc", ("01",), timeout_to_fail=600)
    good(server.ask("prepare", msg(services, "else-msg", timeout_to_fail=600)))
    wait_for(lambda: is_claimed(program, journal, "else-tcc") and is_claimed(program, journal, "else-msg"))
    good(dead.ask("submit", {"gid": "else-tcc", "trans_type": "tcc"}))
    good(dead.ask("submit", msg(services, "else-msg")))
    wait_for(lambda: services.paths("else-tcc") and services.paths("else-msg"))
    dead.kill()
    services.script["/confirm01"] = services.script["/one"] = [200]
    server.wait("else-tcc", "succeed")
    server.wait("else-msg", "succeed")
    services.script["/busy"] = [425]
    tcc(server, services, "else-settled", timeout_to_fail=600)
    good(saga(server, services, "else-saga", ["/a", "/busy"], retry_interval=1))
    wait_for(lambda: "/busy" in services.paths("else-saga"))
    for gid in ("else-settled", "else-saga"):
        told(program, journal, "settle", id_of(program, journal, gid))
        server.wait(gid, "failed")
    assert services.paths("else-settled") == ["/cancel02", "/cancel01"]
    assert services.paths("else-saga")[-2:] == ["/unbusy", "/una"]
    server.end()


def test_vouched(services, start, program, journal):
    """A person says that it is done: its server asks no more."""
    server = start()
    services.script["/confirm01"] = [500]
    tcc(server, services, "vouched", ("01",), timeout_to_fail=600)
    good(server.ask("submit", {"gid": "vouched", "trans_type": "tcc"}))
    wait_for(lambda: services.paths("vouched"))
    told(program, journal, "resolve", "--done", "--yes", id_of(program, journal, "vouched"))
    wait_for(lambda: "rota_txn_serve_open 0\n" in server.ask("/api/metrics", raw=True)[1])
    server.end()


def test_obeyed(services, start, program, journal):
    """What a person decides while a call is under way, or between two of them, is obeyed before the next call leaves; no
    other look at the journal (--takeover 1h) helps."""
    server = start("--takeover", "1h")

    def person(gid, answer, *words):
        """A service that is called: meanwhile a person does that, and then it answers."""
        def does():
            told(program, journal, *words, id_of(program, journal, gid))
            return answer
        return does

    def is_over(count):
        wait_for(lambda: "rota_txn_serve_open %d\n" % count in server.ask("/api/metrics", raw=True)[1])

    services.script["/settled"] = [person("o-saga", 500, "settle")]
    good(saga(server, services, "o-saga", ["/a", "/settled", "/c"], retry_interval=1))
    server.wait("o-saga", "failed")
    assert services.paths("o-saga") == ["/a", "/settled", "/unsettled", "/una"], services.paths("o-saga")

    hangs, done = threading.Event(), ("resolve", "--done", "--yes")
    services.script["/hangs"] = [lambda: hangs.wait(LIMIT) and 200]
    services.script["/beside"] = [500, person("o-beside", 500, "settle")]
    good(saga(server, services, "o-beside", ["/hangs", "/beside"], retry_interval=1, custom_data='{"concurrent":true}'))
    wait_for(lambda: len(services.paths("o-beside")) > 3)
    assert services.paths("o-beside")[3:] == ["/unbeside"], services.paths("o-beside")  # it does not wait for the other
    hangs.set()
    server.wait("o-beside", "failed")
    assert services.paths("o-beside")[3:] == ["/unbeside", "/unhangs"], services.paths("o-beside")

    services.script["/no"], services.script["/unback"] = [409], [person("o-back", 500, *done)]
    good(saga(server, services, "o-back", ["/a", "/back", "/no"], retry_interval=1))
    is_over(0)
    assert services.paths("o-back") == ["/a", "/back", "/no", "/unno", "/unback"], services.paths("o-back")

    for answer in (500, 200):  # it is asked again; the next one is asked
        for end, path in (("submit", "/confirm02"), ("abort", "/cancel02")):
            gid = "o-tcc-%s-%d" % (end, answer)
            services.script[path] = [person(gid, answer, *done)]
            tcc(server, services, gid, retry_interval=1)
            good(server.ask(end, {"gid": gid, "trans_type": "tcc"}))
            is_over(0)
            assert services.paths(gid) == [path], services.paths(gid)
        gid = "o-msg-%d" % answer
        services.script["/one"] = [person(gid, answer, *done)]
        good(server.ask("submit", msg(services, gid, retry_interval=1)))
        is_over(0)
        assert services.paths(gid) == ["/one"], services.paths(gid)
    services.script = {"/query-o-asked": [person("o-asked", 200, "settle")]}
    good(server.ask("prepare", msg(services, "o-asked", timeout_to_fail=1)))
    server.wait("o-asked", "failed")
    assert services.paths("o-asked") == ["/query-o-asked"], services.paths("o-asked")
    server.end()


def test_noticed(services, start, program, journal):
    """ABORT is noticed soon, also where the next call is due in ten minutes."""
    server = start("--takeover", "1h")
    services.script["/rests"] = [500]
    good(saga(server, services, "n-saga", ["/a", "/rests"], retry_interval=600))
    wait_for(lambda: "/rests" in services.paths("n-saga"))
    told(program, journal, "settle", id_of(program, journal, "n-saga"))
    server.wait("n-saga", "failed")
    assert services.paths("n-saga") == ["/a", "/rests", "/unrests", "/una"]
    server.end()


def test_resources(start, folder):
    """Its file of resources is read again once it has changed, and on SIGHUP, which does not end it; a broken one is refused."""
    path = os.path.join(folder, "resources")

    def write(text):
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)

    write("shop = postgres://127.0.0.1:1/shop\n")
    server = start("--resources", path)
    write("shop = postgres://127.0.0.1:2/shop\nledger = mysql://127.0.0.1:1/ledger\n")
    server.says("the list of resources was read again: shop has another URL, ledger is new")
    write("shop\n")
    server.says("not read again, the old one stays: %s:1: this is not NAME = URL" % path)
    write("shop = https://shop.example/\n")
    server.says("'shop' was a database, and is a service now")
    write("shop = postgres://127.0.0.1:2/shop\n")
    server.says("ledger is no longer named")
    server.log.clear()
    server.process.send_signal(signal.SIGHUP)
    server.says("was read again")
    assert server.ask("newGid")[0] == 200
    server.end()


def test_decider(services, start, program, journal):
    """The claim goes from the server that held a transaction open to the one that decided it: only that one works on it."""
    holder, decider = start("--takeover", "8s"), start("--takeover", "8s")
    services.script["/confirm01"] = [425]
    tcc(holder, services, "decider", ("01",), timeout_to_fail=600, retry_interval=1)
    wait_for(lambda: is_claimed(program, journal, "decider"))
    good(decider.ask("submit", {"gid": "decider", "trans_type": "tcc"}))
    wait_for(lambda: len(services.paths("decider")) >= 12)
    assert is_claimed(program, journal, "decider")
    for name in ("taken_over_total", "open", "calls_total"):
        assert "rota_txn_serve_%s 0\n" % name in holder.ask("/api/metrics", raw=True)[1]
    services.script["/confirm01"] = [200]
    holder.wait("decider", "succeed")
    holder.end()
    decider.end()


def test_person(services, start, program, journal):
    """After ten tries in vain a person is called: by the log, in ls --attention and show. Three minutes."""
    server = start()
    services.script["/hopeless"] = [500]
    good(saga(server, services, "person", ["/hopeless"], retry_interval=1))
    gid = id_of(program, journal, "person")
    wait_for(lambda: "called" in told(program, journal, "show", gid), 3 * LIMIT)
    text = told(program, journal, "show", gid)
    assert "01 action: failed 10 times, will be tried again" in text and "500" in text, text
    assert [t["id"] for t in told(program, journal, "ls", "--attention", "--json")["transactions"]] == [gid]
    assert "rota_txn_attention_total 1\n" in server.ask("/api/metrics", raw=True)[1]
    services.script["/hopeless"] = [200]
    wait_for(lambda: server.status("person") == "succeed")
    server.end()


def test_large(server, services):
    """The journal keeps 64 KB of a saga or a message: more is refused in a line, and leaves nothing behind."""
    def sized(gid, kind, count):
        return {"gid": gid, "trans_type": kind, "payloads": ["x" * 30000] * count, "query_prepared": services.base + "/query",
                "steps": [{"action": services.base + "/a", "compensate": services.base + "/una"}] * count}

    for kind, endpoint in (("saga", "submit"), ("msg", "submit"), ("msg", "prepare")):
        gid = "large-%s-%s" % (kind, endpoint)
        refused(server.ask(endpoint, sized(gid, kind, 3)), 400, "at most 65536 bytes")
        assert server.status(gid) == "" and services.of(gid) == []
        good(server.ask(endpoint, sized(gid, kind, 2)))
        if endpoint == "submit":
            server.wait(gid, "succeed")
            assert [len(call[3]) for call in services.of(gid)] == [30000] * 2
        else:
            good(server.ask("abort", {"gid": gid, "trans_type": kind}))
            server.wait(gid, "failed")


def test_doors(services, start, program, journal):
    """A web page cannot have it call anybody, and names that it was not told are not its own."""
    server = start("--allow-host", "tx.example", "--allow-host", "other.example")
    work = msg(services, "doors")
    for headers, status in (({"Host": "evil.example"}, 421), ({"Origin": "https://evil.example"}, 403),
                            ({"Content-Type": "text/plain"}, 415), ({"Sec-Fetch-Site": "cross-site"}, 403)):
        for path in ("prepare", "submit", "registerBranch"):
            told = server.ask(path, work, headers=headers)
            assert told[0] == status and told[1].count("\n") == 1, (headers, path, told)
    assert "--allow-host evil.example" in server.ask("newGid", headers={"Host": "evil.example"})[1]
    assert services.paths("doors") == []
    for host in ("tx.example", "Other.Example:36789"):
        assert server.ask("newGid", headers={"Host": host})[0] == 200
    good(server.ask("submit", msg(services, "doors", wait_result=True), headers={"Host": "tx.example"}))
    assert services.paths("doors") == ["/one", "/two"]
    server.end()
    told = subprocess.run([program, "--journal", journal, "serve", "--listen", "127.0.0.1:0", "--allow-host", "a:1"],
                          stderr=subprocess.PIPE, text=True, timeout=LIMIT, check=False)
    assert told.returncode == 64 and "--allow-host takes" in told.stderr, told


def listens_not(program, journal, *how):
    """One line, and what to do."""
    told = subprocess.run([program, "--journal", journal, "serve", "--listen", "0.0.0.0:0", *how], stderr=subprocess.PIPE,
                          text=True, timeout=LIMIT, check=False)
    assert told.returncode != 0 and "token and a certificate" in told.stderr and told.stderr.count("\n") == 1, told


def test_guarded(program, make_certs, journal, folder):
    """TLS and a token, on the listening side."""
    subprocess.run([make_certs, folder], check=True, timeout=LIMIT)
    at = {name: os.path.join(folder, name) for name in ("token", "ca.pem", "stranger.pem", "server.pem", "server.key")}
    with open(at["token"], "w", encoding="utf-8") as f:
        f.write("sesame\n")
    os.chmod(at["token"], 0o600)
    token, cert = ["--token-file", at["token"]], ["--tls-cert", at["server.pem"], "--tls-key", at["server.key"]]
    for how in ([], token, cert):
        listens_not(program, journal, *how)

    sesame = {"Authorization": "Bearer sesame"}
    server = Server(program, journal, *token, *cert, secure=ssl.create_default_context(cafile=at["ca.pem"]))
    services = Services()
    try:
        for headers in ({}, {"Authorization": "Bearer no"}, {"Authorization": "sesame"}, {"Authorization": "Bearer sesam"}):
            for path in ("newGid", "/api/metrics"):
                assert server.ask(path, headers=headers, raw=path[0] == "/")[0] == 401
            assert server.ask("submit", {"gid": "guarded", "trans_type": "msg"}, headers=headers)[0] == 401
        assert server.ask("newGid", headers=sesame)[0] == 200
        good(server.ask("submit", msg(services, "guarded", wait_result=True), headers=sesame))
        assert services.paths("guarded") == ["/one", "/two"]
        server.secure = ssl.create_default_context(cafile=at["stranger.pem"])
        try:
            server.ask("newGid", headers=sesame)
            raise AssertionError("it was believed without its authority")
        except ssl.SSLCertVerificationError:
            pass
        with socket.create_connection(("127.0.0.1", server.port), LIMIT) as plain:
            plain.sendall(b"GET /api/dtmsvr/newGid HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer sesame\r\n\r\n")
            said = b""
            while chunk := plain.recv(4096):
                said += chunk
        assert b"HTTP" not in said and b"gid" not in said, said
        server.secure = ssl.create_default_context(cafile=at["ca.pem"])
        assert server.ask("newGid", headers=sesame)[0] == 200
    finally:
        server.end()


def main():
    program, make_certs, journal, only = *sys.argv[1:4], sys.argv[4:]
    ran = []
    folder, started, services = tempfile.mkdtemp(prefix="rota-serve-"), [], Services()
    journal = "file:" + os.path.join(folder, "journal") if journal == "file" else journal

    def start(*how):
        started.append(Server(program, journal, *how))
        return started[-1]

    def run(test, *args):
        if not only or test.__name__[5:] in only:
            began = time.monotonic()
            test(*args)
            ran.append(test.__name__)
            print("ok %s %.1f s" % (test.__name__, time.monotonic() - began), flush=True)

    try:
        server = start()
        for test in (test_tcc, test_tcc_too_late, test_saga, test_msg, test_hostile, test_native, test_sizes, test_large):
            run(test, server, services)
        for test in (test_several, test_killed, test_rivals):
            run(test, server, services, start)
        server.end()
        for test in (test_ends, test_claimed, test_late):
            run(test, services, start)
        for test in (test_shown, test_elsewhere, test_vouched, test_obeyed, test_noticed, test_decider, test_doors):
            run(test, services, start, program, journal)
        run(test_resources, start, folder)
        if "person" in only:
            run(test_person, services, start, program, journal)
        run(test_guarded, program, make_certs, journal, folder)
    finally:
        for s in started:
            if s.process.poll() is None:
                s.kill()
        shutil.rmtree(folder)
    print("%d passed, 0 failed" % len(ran))


main()
