// SPDX-License-Identifier: Apache-2.0

// Command dtm-side: transactions by DTM's own Go client, failures included, against a server; what came of each is printed.
// The server is rota-txn serve or DTM itself: both must print the same.
//
//	dtm-side URL      http://127.0.0.1:36789/api/dtmsvr
//	dtm-side --dtm    starts DTM in the folder it is in
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dtm-labs/dtm/client/dtmcli"
	"github.com/dtm-labs/dtm/client/dtmcli/dtmimp"
	"github.com/dtm-labs/logger"
	"github.com/go-resty/resty/v2"

	dtm "rota/interop/dtm/server"
)

var service, server string

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "dtm-side:", err)
		os.Exit(1)
	}
}

// ---- The services --------------------------------------------------------------------------

var mu sync.Mutex
var seen = map[string][]string{} // by gid: what was asked, each once
var times = map[string]int{}

// What is asked of a service, and which answer of its list (say=425,200) is due; the last one stays.
func note(r *http.Request) string {
	q := r.URL.Query()
	what := strings.TrimPrefix(r.URL.Path, "/") + " " + q.Get("trans_type") + " " + q.Get("branch_id") + " " + q.Get("op")
	if h := r.Header.Get("Test-Header"); h != "" {
		what += " " + h
	}
	say := strings.Split(q.Get("say"), ",")
	mu.Lock()
	defer mu.Unlock()
	n := times[q.Get("gid")+what]
	times[q.Get("gid")+what]++
	if n == 0 {
		seen[q.Get("gid")] = append(seen[q.Get("gid")], what)
	}
	if n >= len(say) {
		n = len(say) - 1
	}
	return say[n]
}

func answer(w http.ResponseWriter, r *http.Request) {
	say := note(r)
	if status, err := strconv.Atoi(say); err == nil {
		w.WriteHeader(status)
	} else if say != "" {
		fmt.Fprintf(w, `{"dtm_result":"%s"}`, say)
	} else {
		fmt.Fprint(w, `{"dtm_result":"SUCCESS"}`)
	}
}

// A try that adds a branch of its own to the transaction.
func nested(w http.ResponseWriter, r *http.Request) {
	note(r)
	tcc, err := dtmcli.TccFromQuery(r.URL.Query())
	if err == nil {
		_, err = tcc.CallBranch(map[string]int{"amount": 1}, at("inner"), at("inner"), at("inner"))
	}
	if err != nil {
		w.WriteHeader(500)
	}
}

func startService() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	service = "http://" + l.Addr().String()
	http.HandleFunc("/nested", nested)
	http.HandleFunc("/", answer)
	go http.Serve(l, nil)
}

func at(path string) string { return service + "/" + path }

// ---- The transactions ----------------------------------------------------------------------

type body map[string]int

func tcc(gid string, set func(*dtmcli.Tcc), tries ...string) error {
	return dtmcli.TccGlobalTransaction2(server, gid, set, func(t *dtmcli.Tcc) (*resty.Response, error) {
		var reply *resty.Response
		var err error
		for _, try := range tries {
			name := strings.Split(try, "?")[0]
			if reply, err = t.CallBranch(body{"amount": 30}, at(try), at("c"+name), at("x"+name)); err != nil {
				break
			}
		}
		return reply, err
	})
}

func saga(gid string, set func(*dtmcli.Saga), actions ...string) error {
	s := dtmcli.NewSaga(server, gid)
	for _, a := range actions {
		s.Add(at(a), at("undo-"+strings.Split(a, "?")[0]), body{"amount": 30})
	}
	set(s)
	return s.Submit()
}

func msg(gid string) *dtmcli.Msg {
	return dtmcli.NewMsg(server, gid).Add(at("one"), body{"n": 1}).Add(at("two"), body{"n": 2})
}

func noTcc(*dtmcli.Tcc)   {}
func noSaga(*dtmcli.Saga) {}

var all = []struct {
	name string
	run  func(gid string) error
}{
	{"tcc", func(g string) error { return tcc(g, noTcc, "a", "b") }},
	{"tcc_rollback", func(g string) error { return tcc(g, noTcc, "a", "b?say=409") }},
	{"tcc_rollback_by_body", func(g string) error { return tcc(g, noTcc, "a", "b?say=FAILURE") }},
	{"tcc_nested", func(g string) error { return tcc(g, noTcc, "a", "nested") }},
	{"tcc_wait", func(g string) error { return tcc(g, func(t *dtmcli.Tcc) { t.WaitResult = true }, "a", "b") }},
	{"tcc_confirm_lost_once", func(g string) error {
		return dtmcli.TccGlobalTransaction2(server, g, func(t *dtmcli.Tcc) { t.RetryInterval = 1 },
			func(t *dtmcli.Tcc) (*resty.Response, error) {
				return t.CallBranch(body{}, at("a"), at("c?say=500,200"), at("x"))
			})
	}},
	{"tcc_headers", func(g string) error {
		return tcc(g, func(t *dtmcli.Tcc) { t.BranchHeaders = map[string]string{"test-header": "test"} }, "a")
	}},
	{"tcc_left", func(g string) error { // nobody submits it
		t := &dtmcli.Tcc{TransBase: *dtmimp.NewTransBase(g, "tcc", server, "")}
		t.TimeoutToFail = 2
		if err := dtmimp.TransCallDtm(&t.TransBase, "prepare"); err != nil {
			return err
		}
		_, err := t.CallBranch(body{}, at("a"), at("ca"), at("xa"))
		return err
	}},
	{"tcc_submitted_twice", func(g string) error {
		if err := tcc(g, func(t *dtmcli.Tcc) { t.WaitResult = true }, "a"); err != nil {
			return errors.New("the first one failed")
		}
		return dtmimp.TransCallDtm(dtmimp.NewTransBase(g, "tcc", server, ""), "submit")
	}},
	{"tcc_branch_too_late", func(g string) error {
		if err := tcc(g, func(t *dtmcli.Tcc) { t.WaitResult = true }, "a"); err != nil {
			return errors.New("the first one failed")
		}
		return dtmimp.TransRegisterBranch(dtmimp.NewTransBase(g, "tcc", server, ""),
			map[string]string{"branch_id": "02", "confirm": at("c"), "cancel": at("x"), "data": "{}"}, "registerBranch")
	}},
	{"saga", func(g string) error { return saga(g, noSaga, "a", "b") }},
	{"saga_rollback", func(g string) error { return saga(g, noSaga, "a", "b?say=409", "c") }},
	{"saga_rollback_by_body", func(g string) error { return saga(g, noSaga, "a", "b?say=FAILURE") }},
	{"saga_wait", func(g string) error { return saga(g, func(s *dtmcli.Saga) { s.WaitResult = true }, "a", "b") }},
	{"saga_wait_rollback", func(g string) error {
		return saga(g, func(s *dtmcli.Saga) { s.WaitResult = true }, "a", "b?say=409")
	}},
	{"saga_ongoing", func(g string) error {
		return saga(g, func(s *dtmcli.Saga) { s.RetryInterval = 1 }, "a", "b?say=425,ONGOING,200")
	}},
	{"saga_lost_once", func(g string) error {
		return saga(g, func(s *dtmcli.Saga) { s.RetryInterval = 1 }, "a?say=500,200", "b")
	}},
	{"saga_too_late", func(g string) error {
		return saga(g, func(s *dtmcli.Saga) { s.RetryInterval = 1; s.TimeoutToFail = 2 }, "a", "b?say=425")
	}},
	{"saga_concurrent", func(g string) error {
		return saga(g, func(s *dtmcli.Saga) { s.SetConcurrent().AddBranchOrder(2, []int{0, 1}) }, "a", "b", "c")
	}},
	{"saga_concurrent_rollback", func(g string) error {
		return saga(g, func(s *dtmcli.Saga) { s.SetConcurrent().AddBranchOrder(2, []int{0, 1}) }, "a", "b", "c?say=409", "d")
	}},
	{"msg", func(g string) error {
		m := msg(g)
		if err := m.Prepare(at("query")); err != nil {
			return err
		}
		return m.Submit()
	}},
	{"msg_at_once", func(g string) error { m := msg(g); m.WaitResult = true; return m.Submit() }},
	{"msg_concurrent", func(g string) error { m := msg(g); m.Concurrent = true; return m.Submit() }},
	{"msg_back_check_yes", func(g string) error { m := msg(g); m.TimeoutToFail = 2; return m.Prepare(at("query")) }},
	{"msg_back_check_no", func(g string) error { m := msg(g); m.TimeoutToFail = 2; return m.Prepare(at("query?say=409")) }},
	{"msg_back_check_later", func(g string) error {
		m := msg(g)
		m.TimeoutToFail = 2
		m.RetryInterval = 1
		return m.Prepare(at("query?say=425,200"))
	}},
	{"msg_do_and_submit", func(g string) error {
		return msg(g).DoAndSubmit(at("query"), func(*dtmcli.BranchBarrier) error { return nil })
	}},
	{"msg_do_and_abort", func(g string) error {
		return msg(g).DoAndSubmit(at("query"), func(*dtmcli.BranchBarrier) error { return dtmcli.ErrFailure })
	}},
}

func statusOf(gid string) string {
	var reply struct {
		Transaction *struct{ Status string }
	}
	r, err := http.Get(server + "/query?gid=" + gid)
	must(err)
	defer r.Body.Close()
	must(json.NewDecoder(r.Body).Decode(&reply))
	if reply.Transaction == nil {
		return ""
	}
	return reply.Transaction.Status
}

// How it ended, and what its services were asked; in order where there is one.
func outcome(name, gid string, err error) string {
	status := statusOf(gid)
	for end := time.Now().Add(60 * time.Second); status != "succeed" && status != "failed"; status = statusOf(gid) {
		if time.Now().After(end) {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	mu.Lock()
	defer mu.Unlock()
	asked := append([]string{}, seen[gid]...)
	if strings.Contains(name, "concurrent") {
		sort.Strings(asked)
	}
	said := "ok"
	if err != nil {
		said = "error"
		if strings.Contains(err.Error(), "FAILURE") {
			said = "FAILURE"
		}
	}
	return fmt.Sprintf("%-26s %-8s %-8s %s", name, said, status, strings.Join(asked, "; "))
}

func main() {
	dtm.Main()
	logger.InitLog("fatal")
	if len(os.Args) != 2 {
		must(errors.New("usage: dtm-side URL | --dtm"))
	}
	startService()
	if server = os.Args[1]; server == "--dtm" {
		var err error
		server, err = dtm.Start(".", "LOG_LEVEL=fatal", "TRANS_CRON_INTERVAL=1")
		must(err)
	}
	lines := make([]string, len(all))
	var wg sync.WaitGroup
	for i, one := range all {
		wg.Add(1)
		go func() {
			defer wg.Done()
			gid := dtmcli.MustGenGid(server)
			if i%2 == 0 {
				gid = fmt.Sprintf("own-%s-%d", one.name, time.Now().UnixNano())
			}
			lines[i] = outcome(one.name, gid, one.run(gid))
		}()
	}
	wg.Wait()
	fmt.Println(strings.Join(lines, "\n"))
}
