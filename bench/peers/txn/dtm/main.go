// SPDX-License-Identifier: Apache-2.0

// Command dtm-peer: DTM's XA mode for rota-bench (txn_peers.c): its server, a service with two branches, and clients
// who wait until phase two is over.
//
//	dtm-peer MYSQL-PORT:PASSWORD:POSTGRES-PORT:FOLDER   says "ready", then per line: xa A B CLIENTS SECONDS: per second
package main

import (
	"bufio"
	"database/sql"
	"fmt"
	"math/rand"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/dtm-labs/dtm/client/dtmcli"
	"github.com/dtm-labs/dtm/dtmsvr/entry"
	_ "github.com/dtm-labs/dtm/dtmsvr/microservices"
	"github.com/dtm-labs/logger"
	"github.com/go-resty/resty/v2"
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

func freePort() string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

// The server is this program again, in a folder of its own, with its default store (boltdb).
func startServer(folder string) {
	port := freePort()
	cmd := exec.Command("/proc/self/exe")
	cmd.Dir = folder
	cmd.Stderr = os.Stderr
	cmd.Env = append(os.Environ(), "ROTA_DTM_SERVER=1", "HTTP_PORT="+port, "GRPC_PORT="+freePort(),
		"JSON_RPC_PORT="+freePort(), "LOG_LEVEL=error")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must(cmd.Start())
	server = "http://127.0.0.1:" + port + "/api/dtmsvr"
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		reply, err := http.Get(server + "/newGid")
		if err == nil {
			reply.Body.Close()
			return
		}
		if time.Now().After(end) {
			must(err)
		}
	}
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

func measure(dbs [2]string, clients int, seconds float64) float64 {
	var done, failed atomic.Int64
	var wg sync.WaitGroup
	from := time.Now()
	until := from.Add(time.Duration(seconds * float64(time.Second)))
	for c := 0; c < clients; c++ {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for time.Now().Before(until) {
				if err := transfer(dbs, c); err != nil {
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
	if os.Getenv("ROTA_DTM_SERVER") != "" {
		version := "v1.19.0"
		entry.Main(&version)
		select {}
	}
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
	startServer(part[3])
	startService()
	fmt.Println("ready")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var dbs [2]string
		var clients int
		var seconds float64
		_, err := fmt.Sscanf(lines.Text(), "xa %s %s %d %g", &dbs[0], &dbs[1], &clients, &seconds)
		must(err)
		fmt.Println(measure(dbs, clients, seconds))
	}
}
