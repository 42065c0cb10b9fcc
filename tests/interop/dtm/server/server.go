// SPDX-License-Identifier: Apache-2.0

// Package server is DTM itself as a child of whoever measures it or compares with it: the same program again.
package server

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"github.com/dtm-labs/dtm/dtmsvr/entry"
	_ "github.com/dtm-labs/dtm/dtmsvr/microservices"
)

const mark = "ROTA_DTM_SERVER"

// Main is to be called first: in the child it is DTM, and does not return.
func Main() {
	if os.Getenv(mark) != "" {
		version := "v1.19.0"
		entry.Main(&version)
		select {}
	}
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port), nil
}

// Start starts it in folder, with its default store (boltdb) or what more of its environment says, and returns its URL when it
// answers.
func Start(folder string, more ...string) (string, error) {
	var ports [3]string
	for i := range ports {
		var err error
		if ports[i], err = freePort(); err != nil {
			return "", err
		}
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", err
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Dir = folder
	cmd.Stderr = os.Stderr
	cmd.Env = append(os.Environ(), mark+"=1", "HTTP_PORT="+ports[0], "GRPC_PORT="+ports[1], "JSON_RPC_PORT="+ports[2])
	cmd.Env = append(cmd.Env, more...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	at := "http://127.0.0.1:" + ports[0] + "/api/dtmsvr"
	for end := time.Now().Add(60 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if reply, err := http.Get(at + "/newGid"); err == nil {
			reply.Body.Close()
			return at, nil
		}
	}
	return "", fmt.Errorf("DTM does not answer at %s", at)
}
