// SPDX-License-Identifier: Apache-2.0

// Command etcd-peer is what Rota is compared with on etcd: Go's clientv3 and its concurrency.Mutex.
//
//	etcd-peer ENDPOINT
//
// One command a line on its input, one line of numbers each on its output; times are CLOCK_MONOTONIC:
//
//	pairs N        N bare pairs, one after the other: their median in us, CPU of this process for each in us
//	flight K N     N bare pairs by K at once: pairs per second
//	mutex K MS     K mutexes of K names, for so long: pairs per second, CPU for each in us
//	same K MS      K sessions with the mutex of one name: pairs per second
//	waiters N      N clients in line: ms from the release ahead of them to the last grant
//	lock NAME      the time of the grant, in ns
//	unlock         the time just before it, in ns
//	line NAME      how many are in it
//	wire           bytes sent and received, segments sent and received, since it began
package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
)

const ttl = 60 // seconds: no lease ends while something is measured

var (
	ctx      = context.Background()
	endpoint string
	client   *clientv3.Client
	session  *concurrency.Session
	held     *concurrency.Mutex
	conns    []*net.TCPConn
	connsMu  sync.Mutex
	crowd    []*concurrency.Session // of `same`
)

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "etcd-peer:", err)
		os.Exit(1)
	}
}

func now() int64 {
	var ts unix.Timespec
	must(unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts))
	return ts.Nano()
}

func cpu() float64 {
	var u unix.Rusage
	must(unix.Getrusage(unix.RUSAGE_SELF, &u))
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1000
}

func dial(ctx context.Context, addr string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", strings.TrimPrefix(addr, "http://"))
	if tcp, ok := conn.(*net.TCPConn); ok {
		connsMu.Lock()
		conns = append(conns, tcp)
		connsMu.Unlock()
	}
	return conn, err
}

func newClient() *clientv3.Client {
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, DialTimeout: 10 * time.Second,
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(dial)}})
	must(err)
	return c
}

func newSession(c *clientv3.Client) *concurrency.Session {
	s, err := concurrency.NewSession(c, concurrency.WithTTL(ttl))
	must(err)
	return s
}

// ---- Bare: put if absent, delete

func barePair(key string) {
	got, err := client.Txn(ctx).If(clientv3.Compare(clientv3.Version(key), "=", 0)).Then(clientv3.OpPut(key, "x")).Commit()
	must(err)
	if !got.Succeeded {
		must(fmt.Errorf("%s is there already", key))
	}
	_, err = client.Delete(ctx, key)
	must(err)
}

func pairs(n int) {
	us := make([]float64, n)
	before := cpu()
	for i := range us {
		from := now()
		barePair("bare")
		us[i] = float64(now()-from) / 1000
	}
	spent := cpu() - before
	sort.Float64s(us)
	fmt.Println(us[n/2], spent/float64(n))
}

// each runs ROUND(i) in K goroutines, each until MORE says no.
func each(k int, more func() bool, round func(i int)) float64 {
	var all sync.WaitGroup
	var rounds atomic.Int64
	from := now()
	for i := 0; i < k; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for more() {
				round(i)
				rounds.Add(1)
			}
		}()
	}
	all.Wait()
	return float64(rounds.Load()) / (float64(now()-from) / 1e9)
}

func flight(k, n int) {
	var begun atomic.Int64
	rate := each(k, func() bool { return begun.Add(1) <= int64(n) }, func(i int) { barePair(fmt.Sprintf("bare-%d", i)) })
	fmt.Println(rate)
}

// ---- concurrency.Mutex

func until(ms int) func() bool {
	end := now() + int64(ms)*1e6
	return func() bool { return now() < end }
}

func turn(m *concurrency.Mutex) {
	must(m.Lock(ctx))
	must(m.Unlock(ctx))
}

func mutex(k, ms int) {
	mutexes := make([]*concurrency.Mutex, k)
	for i := range mutexes {
		mutexes[i] = concurrency.NewMutex(session, fmt.Sprintf("mutex-%d", i))
	}
	before := cpu()
	rate := each(k, until(ms), func(i int) { turn(mutexes[i]) })
	fmt.Println(rate, (cpu()-before)/(rate*float64(ms)/1000))
}

// same needs a session for each: those of one session are in the lock together.
func same(k, ms int) {
	for len(crowd) < k {
		crowd = append(crowd, newSession(client))
	}
	mutexes := make([]*concurrency.Mutex, k)
	for i := range mutexes {
		mutexes[i] = concurrency.NewMutex(crowd[i], "same")
	}
	fmt.Println(each(k, until(ms), func(i int) { turn(mutexes[i]) }))
}

func count(name string) int64 {
	got, err := client.Get(ctx, name+"/", clientv3.WithPrefix(), clientv3.WithCountOnly())
	must(err)
	return got.Count
}

func waiters(n int) {
	var all sync.WaitGroup
	var last atomic.Int64
	clients := make([]*clientv3.Client, n)
	first := concurrency.NewMutex(session, "waiters")
	must(first.Lock(ctx))
	for i := range clients {
		all.Add(1)
		go func() {
			defer all.Done()
			clients[i] = newClient()
			m := concurrency.NewMutex(newSession(clients[i]), "waiters")
			must(m.Lock(ctx))
			last.Store(now()) // under the lock: the last one stays
			must(m.Unlock(ctx))
		}()
	}
	for count("waiters") < int64(n)+1 {
		time.Sleep(time.Millisecond)
	}
	from := now()
	must(first.Unlock(ctx))
	all.Wait()
	fmt.Println(float64(last.Load()-from) / 1e6)
	for _, c := range clients {
		must(c.Close())
	}
}

func lock(name string) {
	held = concurrency.NewMutex(session, name)
	must(held.Lock(ctx))
	fmt.Println(now())
}

func unlock() {
	at := now()
	must(held.Unlock(ctx))
	fmt.Println(at)
}

// wire is of the connections that are open.
func wire() {
	var out, in, segmentsOut, segmentsIn uint64
	for _, conn := range conns {
		raw, err := conn.SyscallConn()
		must(err)
		_ = raw.Control(func(fd uintptr) {
			if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
				out += info.Bytes_acked
				in += info.Bytes_received
				segmentsOut += uint64(info.Data_segs_out)
				segmentsIn += uint64(info.Data_segs_in)
			}
		})
	}
	fmt.Println(out, in, segmentsOut, segmentsIn)
}

func obey(line string) {
	var word, name string
	var a, b int
	if n, _ := fmt.Sscan(line, &word, &a, &b); n < 2 {
		_, _ = fmt.Sscan(line, &word, &name)
	}
	switch word {
	case "pairs":
		pairs(a)
	case "flight":
		flight(a, b)
	case "mutex":
		mutex(a, b)
	case "same":
		same(a, b)
	case "waiters":
		waiters(a)
	case "lock":
		lock(name)
	case "unlock":
		unlock()
	case "line":
		fmt.Println(count(name))
	case "wire":
		wire()
	default:
		must(fmt.Errorf("no such command: %s", line))
	}
}

func main() {
	if len(os.Args) != 2 {
		must(fmt.Errorf("usage: etcd-peer ENDPOINT"))
	}
	endpoint = os.Args[1]
	client = newClient()
	session = newSession(client)
	fmt.Println("ready")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		obey(in.Text())
	}
}
