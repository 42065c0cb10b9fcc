// SPDX-License-Identifier: Apache-2.0

// Command redsync-side is redsync's Mutex in contention with Rota, on one Redis or on several.
//
//	redsync-side lock SERVERS NAME FOLDER THINK_US     $ROTA_GUARD_SIDE: the guard's program
//	redsync-side told SERVERS NAME                     what to do comes line by line: lock, unlock
//	redsync-side peer SERVERS                          what to measure does: see peer.go
package main

import (
	"bufio"
	"fmt"
	"io"
	"math/rand"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredislib "github.com/redis/go-redis/v9"
)

const (
	ttl   = 2 * time.Second
	pause = 20 * time.Millisecond // between two tries
)

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "redsync-side:", err)
		os.Exit(1)
	}
}

func locks(servers string) *redsync.Redsync {
	var pools []redis.Pool
	for _, server := range strings.Split(servers, ",") {
		pools = append(pools, goredis.NewPool(goredislib.NewClient(&goredislib.Options{Addr: server})))
	}
	return redsync.New(pools...)
}

func jitter(int) time.Duration { return pause/2 + time.Duration(rand.Int63n(int64(pause))) }

type guard struct {
	in  io.Writer
	out *bufio.Reader
}

func openGuard(folder string) *guard {
	child := exec.Command(os.Getenv("ROTA_GUARD_SIDE"), "go", folder)
	in, err := child.StdinPipe()
	must(err)
	out, err := child.StdoutPipe()
	must(err)
	child.Stderr = os.Stderr
	must(child.Start())
	return &guard{in, bufio.NewReader(out)}
}

// ask is answered with false when it is time to stop.
func (g *guard) ask(format string, args ...any) bool {
	_, err := fmt.Fprintf(g.in, format+"\n", args...)
	must(err)
	answer, err := g.out.ReadString('\n')
	must(err)
	return answer == "1\n"
}

func contend(rs *redsync.Redsync, name string, g *guard, think int64) {
	for round, on := 1, g.ask("ask"); on; round++ {
		mutex := rs.NewMutex(name, redsync.WithExpiry(ttl), redsync.WithTries(50), redsync.WithRetryDelayFunc(jitter))
		if mutex.Lock() != nil { // tries are used up
			on = g.ask("ask")
			continue
		}
		on = g.ask("inside %d", round)            // it has no fence
		if _, err := mutex.Unlock(); err != nil { // it ended by its time: while inside, that would be an overlap
			g.ask("say S go %d %q", os.Getpid(), err.Error())
		}
		if think > 0 {
			time.Sleep(time.Duration(rand.Int63n(think)) * time.Microsecond)
		}
	}
}

func told(rs *redsync.Redsync, name string) {
	mutex := rs.NewMutex(name, redsync.WithExpiry(10*time.Minute), redsync.WithTries(1000000), redsync.WithRetryDelayFunc(jitter))
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		if lines.Text() == "lock" {
			must(mutex.Lock())
			fmt.Println("locked", mutex.Value())
			continue
		}
		_, err := mutex.Unlock()
		must(err)
		fmt.Println("unlocked")
	}
}

func main() {
	rs := locks(os.Args[2])
	if os.Args[1] == "peer" {
		peer(rs)
		return
	}
	name := os.Args[3]
	if os.Args[1] == "told" {
		told(rs, name)
		return
	}
	think, err := strconv.ParseInt(os.Args[5], 10, 64)
	must(err)
	contend(rs, name, openGuard(os.Args[4]), think)
}
