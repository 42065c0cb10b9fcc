// SPDX-License-Identifier: Apache-2.0

// Command dtm-peer: DTM's XA and TCC modes for rota-bench (txn_peers.c, tcc_peers.c): its server, for XA a service with
// two branches, and clients who wait until phase two is over.
//
//	dtm-peer MYSQL-PORT:PASSWORD:POSTGRES-PORT:FOLDER   says "ready", then per line: how many per second
//	  xa A B CLIENTS SECONDS     transfers between A and B, each mysql or postgres; DTM's store is its default, boltdb
//	  tcc A B CLIENTS SECONDS    the services at the URLs A and B, with /try, /confirm and /cancel behind them; DTM's store
//	                             is the MariaDB
//	  saga A B CLIENTS SECONDS   the same two, /try and /cancel
//	  tcc-rota, saga-rota ...    the same on rota-txn serve, whose journal is $ROTA_JOURNAL
package main

import (
	"bufio"
	"database/sql"
	"fmt"
	"io"
	"math/rand"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/dtm-labs/dtm/client/dtmcli"
	"github.com/dtm-labs/dtm/dtmutil"
	"github.com/dtm-labs/logger"
	"github.com/go-resty/resty/v2"

	dtm "rota/interop/dtm/server"
)

const accounts = 1000 // of each client: see txn.h

var confs = map[string][2]dtmcli.DBConf{}
var service, server string

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "dtm-peer:", err)
		os.Exit(1)
	}
}

// DTM in FOLDER.
func startServer(folder string, more ...string) string {
	at, err := dtm.Start(folder, append(more, "LOG_LEVEL=error")...)
	must(err)
	return at
}

// A branch: adds to an account. Its query says where (db, side) and which account (id, by).
func branch(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	side, _ := strconv.Atoi(q.Get("side"))
	conf := confs[q.Get("db")][side]
	err := dtmcli.XaLocalTransaction(q, conf, func(db *sql.DB, xa *dtmcli.Xa) error {
		_, err := db.Exec("UPDATE account SET balance = balance + " + q.Get("by") + " WHERE id = " + q.Get("id"))
		return err
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "dtm-peer:", err)
		w.WriteHeader(http.StatusConflict)
	}
}

func startService() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	service = "http://" + l.Addr().String() + "/branch"
	http.HandleFunc("/branch", branch)
	go http.Serve(l, nil)
}

func transfer(dbs [2]string, client int) error {
	id := client*accounts + rand.Intn(accounts)
	return dtmcli.XaGlobalTransaction2(server, dtmcli.MustGenGid(server), func(xa *dtmcli.Xa) {
		xa.WaitResult = true // phase two is over
	}, func(xa *dtmcli.Xa) (*resty.Response, error) {
		var reply *resty.Response
		for side, db := range dbs {
			url := fmt.Sprintf("%s?db=%s&side=%d&id=%d&by=%d", service, db, side, id, 1-2*side)
			var err error
			if reply, err = xa.CallBranch(nil, url); err != nil {
				return reply, err
			}
		}
		return reply, nil
	})
}

var stored string // the server whose store is the MariaDB

// Its tables are made by DTM's own statements, which build.sh has put beside this program.
func startStored(conf dtmcli.DBConf, folder string) {
	self, err := os.Executable()
	must(err)
	dtmutil.RunSQLScript(conf, filepath.Join(self+".parts", "sqls", "dtmsvr.storage.mysql.sql"), false)
	stored = startServer(folder, "STORE_DRIVER=mysql", "STORE_HOST="+conf.Host, "STORE_PORT="+strconv.FormatInt(conf.Port, 10),
		"STORE_USER="+conf.User, "STORE_PASSWORD="+conf.Password)
}

var rota string // rota-txn serve

// It is beside the folder of this program, and says on its standard error where it listens.
func startRota() {
	self, err := os.Executable()
	must(err)
	cmd := exec.Command(filepath.Join(filepath.Dir(self), "..", "rota-txn"), "serve", "--listen", "127.0.0.1:0")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	log, err := cmd.StderrPipe()
	must(err)
	must(cmd.Start())
	for lines := bufio.NewScanner(log); rota == "" && lines.Scan(); {
		if _, port, found := strings.Cut(lines.Text(), "listening at port "); found {
			rota = "http://127.0.0.1:" + port + "/api/dtmsvr"
		}
	}
	if rota == "" {
		must(fmt.Errorf("rota-txn serve does not listen"))
	}
	go io.Copy(os.Stderr, log)
}

func saga(server string, services [2]string) error {
	s := dtmcli.NewSaga(server, dtmcli.MustGenGid(server))
	for _, at := range services {
		s.Add(at+"/try", at+"/cancel", map[string]any{"amount": 1, "account": "0123456789"})
	}
	s.WaitResult = true
	return s.Submit()
}

func order(server string, services [2]string) error {
	return dtmcli.TccGlobalTransaction2(server, dtmcli.MustGenGid(server), func(tcc *dtmcli.Tcc) {
		tcc.WaitResult = true // both have confirmed
	}, func(tcc *dtmcli.Tcc) (*resty.Response, error) {
		body := map[string]any{"amount": 1, "account": "0123456789"}
		var reply *resty.Response
		for _, at := range services {
			var err error
			if reply, err = tcc.CallBranch(body, at+"/try", at+"/confirm", at+"/cancel"); err != nil {
				return reply, err
			}
		}
		return reply, nil
	})
}

func measure(one func(client int) error, clients int, seconds float64) float64 {
	var done, failed atomic.Int64
	var wg sync.WaitGroup
	from := time.Now()
	until := from.Add(time.Duration(seconds * float64(time.Second)))
	for c := 0; c < clients; c++ {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for time.Now().Before(until) {
				if err := one(c); err != nil {
					failed.Add(1)
					fmt.Fprintln(os.Stderr, "dtm-peer:", err)
				} else {
					done.Add(1)
				}
			}
		}()
	}
	wg.Wait()
	return float64(done.Load()) / time.Since(from).Seconds()
}

func main() {
	dtm.Main()
	logger.InitLog2("error", "stderr", 0, "")
	part := strings.SplitN(os.Args[1], ":", 4)
	my, _ := strconv.ParseInt(part[0], 10, 64)
	pg, _ := strconv.ParseInt(part[2], 10, 64)
	mysql := dtmcli.DBConf{Driver: "mysql", Host: "127.0.0.1", Port: my, User: "rota", Password: part[1]}
	postgres := dtmcli.DBConf{Driver: "postgres", Host: "127.0.0.1", Port: pg, User: "postgres", Password: "none",
		Schema: "public"}
	for side, db := range []string{"left", "right"} {
		a, b := confs["mysql"], confs["postgres"]
		a[side], b[side] = mysql, postgres
		a[side].Db, b[side].Db = db, db
		confs["mysql"], confs["postgres"] = a, b
	}
	dtmcli.SetBarrierTableName("barrier")
	server = startServer(part[3])
	startService()
	fmt.Println("ready")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var mode string
		var sides [2]string
		var clients int
		var seconds float64
		_, err := fmt.Sscanf(lines.Text(), "%s %s %s %d %g", &mode, &sides[0], &sides[1], &clients, &seconds)
		must(err)
		one := func(client int) error { return transfer(sides, client) }
		kind, onRota := strings.CutSuffix(mode, "-rota")
		if onRota && rota == "" {
			startRota()
		} else if kind != "xa" && !onRota && stored == "" {
			startStored(mysql, part[3]+"/stored")
		}
		at := stored
		if onRota {
			at = rota
		}
		if kind == "tcc" {
			one = func(int) error { return order(at, sides) }
		} else if kind == "saga" {
			one = func(int) error { return saga(at, sides) }
		}
		fmt.Println(measure(one, clients, seconds))
	}
}
