// SPDX-License-Identifier: Apache-2.0

// Command go-side is etcd's own client library in contention with Rota.
//
//	go-side mutex|election|service|observe|watch ENDPOINTS NAME FOLDER THINK_US
//	go-side held ENDPOINTS FOLDER      what `etcdctl lock` runs: inside the lock
package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb"
	"golang.org/x/sys/unix"
)

const ttl = 2 // seconds: the least that etcd gives by default

type side struct {
	*guard
	client  *clientv3.Client
	session *concurrency.Session
	name    string
	rounds  int
}

var ctx = context.Background()

// rev is asked of the server: Mutex and the lock service do not tell it.
func (s *side) rev(key string) (int64, error) {
	got, err := s.client.Get(ctx, key)
	if err != nil {
		return 0, err
	}
	if len(got.Kvs) != 1 {
		return 0, concurrency.ErrSessionExpired
	}
	return got.Kvs[0].CreateRevision, nil
}

func (s *side) inside(key string) error {
	fence, err := s.rev(key)
	if err != nil {
		return err
	}
	count := s.enter(fence, "")
	work()
	s.leave(fence, count)
	return nil
}

func (s *side) mutex() error {
	m := concurrency.NewMutex(s.session, s.name)
	if err := m.Lock(ctx); err != nil {
		return err
	}
	if err := s.inside(m.Key()); err != nil {
		return err
	}
	return m.Unlock(ctx)
}

func (s *side) service() error {
	lock := v3lockpb.NewLockClient(s.client.ActiveConnection())
	got, err := lock.Lock(ctx, &v3lockpb.LockRequest{Name: []byte(s.name), Lease: int64(s.session.Lease())})
	if err != nil {
		return err
	}
	if err := s.inside(string(got.Key)); err != nil {
		return err
	}
	_, err = lock.Unlock(ctx, &v3lockpb.UnlockRequest{Key: got.Key})
	return err
}

func (s *side) election() error {
	s.rounds++
	value := fmt.Sprintf("go:%d:%d", s.me, s.rounds)
	e := concurrency.NewElection(s.session, s.name)
	if err := e.Campaign(ctx, value); err != nil {
		return err
	}
	fence := e.Rev()
	count := s.enter(fence, value)
	work()
	if s.rounds%8 == 0 {
		s.awaitSeen(fence, uint64(fence)*2)
		if err := e.Proclaim(ctx, value+"!"); err != nil {
			return err
		}
		s.awaitSeen(fence, uint64(fence)*2+1)
	}
	s.leave(fence, count)
	return e.Resign(ctx)
}

// contend goes on with a new session when one ended, and says so: while inside, that would be an overlap.
func (s *side) contend(round func() error, think int) {
	for !s.stopped() {
		var err error
		if s.session == nil {
			s.session, err = concurrency.NewSession(s.client, concurrency.WithTTL(ttl))
			must(err)
		}
		if err = round(); err != nil {
			s.say("S go %d %s", s.me, strings.ReplaceAll(err.Error(), "\n", " "))
			if !errors.Is(err, concurrency.ErrSessionExpired) && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
				must(err)
			}
			s.session = nil
		}
		if think > 0 {
			time.Sleep(time.Duration(rand.Intn(think)) * time.Microsecond)
		}
	}
	if s.session != nil {
		must(s.session.Close())
	}
}

// observe is to be killed when all is over.
func (s *side) observe() {
	e := concurrency.NewElection(s.session, s.name)
	for got := range e.Observe(ctx) {
		rev, value := got.Kvs[0].CreateRevision, string(got.Kvs[0].Value)
		mark := uint64(rev) * 2
		if strings.HasSuffix(value, "!") {
			mark++
		}
		s.say("O go %d %s", rev, value)
		atomic.StoreUint64(&s.page.seen[0], mark)
	}
}

// watch writes down what the server says of the line: who came and who went, to be killed when all is over.
func (s *side) watch() {
	events := s.client.Watch(ctx, s.name+"/", clientv3.WithPrefix(), clientv3.WithCreatedNotify())
	for got := range events {
		must(got.Err())
		if got.Created {
			s.say("W")
		}
		for _, event := range got.Events {
			if event.IsCreate() {
				s.say("P %d %s", event.Kv.CreateRevision, event.Kv.Key)
			} else if event.Type == clientv3.EventTypeDelete {
				s.say("D %d %s", event.Kv.ModRevision, event.Kv.Key)
			}
		}
	}
}

func main() {
	must(unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0))
	if len(os.Args) < 4 {
		must(errors.New("usage: go-side KIND ENDPOINTS NAME FOLDER THINK_US"))
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: strings.Split(os.Args[2], ","), DialTimeout: 5 * time.Second})
	must(err)
	if os.Args[1] == "held" {
		s := &side{guard: openGuard(os.Args[3]), client: client}
		must(s.inside(os.Getenv("ETCD_LOCK_KEY")))
		return
	}
	s := &side{guard: openGuard(os.Args[4]), client: client, name: os.Args[3]}
	think, err := strconv.Atoi(os.Args[5])
	must(err)
	switch os.Args[1] {
	case "mutex":
		s.contend(s.mutex, think)
	case "service":
		s.contend(s.service, think)
	case "election":
		s.contend(s.election, think)
	case "observe":
		s.session, err = concurrency.NewSession(client, concurrency.WithTTL(ttl))
		must(err)
		s.observe()
	case "watch":
		s.watch()
	default:
		must(errors.New("no such kind: " + os.Args[1]))
	}
}
