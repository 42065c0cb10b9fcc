// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math/rand"
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What both sides guard with the lock: see guard.h, which this mirrors.
type page struct {
	owner, counter, stop, grants uint64
	seen                         [2]uint64
}

// The process group stands for the worker: the driver kills groups.
type guard struct {
	page *page
	log  *os.File
	me   uint64
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "go-side:", err)
		os.Exit(1)
	}
}

func now() int64 {
	var ts unix.Timespec
	must(unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts))
	return ts.Nano()
}

func openGuard(folder string) *guard {
	file, err := os.OpenFile(folder+"/guard", os.O_RDWR, 0)
	must(err)
	bytes, err := syscall.Mmap(int(file.Fd()), 0, 4096, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	must(err)
	log, err := os.OpenFile(folder+"/log", os.O_WRONLY|os.O_APPEND, 0)
	must(err)
	return &guard{(*page)(unsafe.Pointer(&bytes[0])), log, uint64(syscall.Getpgrp())}
}

// One line by one write: whole in the file, or not there.
func (g *guard) say(format string, args ...any) {
	_, err := fmt.Fprintf(g.log, format+"\n", args...)
	must(err)
}

func (g *guard) stopped() bool { return atomic.LoadUint64(&g.page.stop) != 0 }

// enter is called as soon as the lock is held; leave before it is given back.
func (g *guard) enter(fence int64, value string) uint64 {
	t := now()
	if !atomic.CompareAndSwapUint64(&g.page.owner, 0, g.me) {
		g.say("V go %d %d %d", g.me, fence, atomic.LoadUint64(&g.page.owner))
		atomic.StoreUint64(&g.page.owner, g.me)
	}
	count := atomic.LoadUint64(&g.page.counter)
	g.say("E go %d %d %d %d %s", g.me, fence, t, count, value)
	return count
}

func (g *guard) leave(fence int64, count uint64) {
	atomic.StoreUint64(&g.page.counter, count+1)
	atomic.AddUint64(&g.page.grants, 1)
	if !atomic.CompareAndSwapUint64(&g.page.owner, g.me, 0) {
		g.say("V go %d %d %d", g.me, fence, atomic.LoadUint64(&g.page.owner))
	}
	g.say("L go %d %d %d", g.me, fence, now())
}

// work is short, and now and then long enough for a kill to find a holder.
func work() {
	if rand.Intn(16) == 0 {
		time.Sleep(20 * time.Millisecond)
	} else {
		time.Sleep(time.Duration(rand.Intn(500)) * time.Microsecond)
	}
}

// awaitSeen is for leaders: both observers must come to see what was proclaimed.
func (g *guard) awaitSeen(fence int64, mark uint64) {
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		a, b := atomic.LoadUint64(&g.page.seen[0]), atomic.LoadUint64(&g.page.seen[1])
		if a >= mark && b >= mark {
			return
		}
		if time.Now().After(end) {
			g.say("M go %d %d %d %d %d", g.me, fence, mark, a, b)
			return
		}
	}
}
