// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-redsync/redsync/v4"
)

// peer is what the benches ask: "mutex K MS", K goroutines with a mutex of their own each, for so long: pairs per second.
func peer(rs *redsync.Redsync) {
	fmt.Println("ready")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var k, ms int
		_, err := fmt.Sscanf(lines.Text(), "mutex %d %d", &k, &ms)
		must(err)
		fmt.Printf("%.3f\n", crowd(rs, k, time.Duration(ms)*time.Millisecond))
	}
}

func crowd(rs *redsync.Redsync, k int, howLong time.Duration) float64 {
	var all sync.WaitGroup
	var pairs atomic.Int64
	begin := time.Now()
	for i := range k {
		all.Add(1)
		go func() {
			defer all.Done()
			mutex := rs.NewMutex(fmt.Sprintf("redsync-%d", i), redsync.WithExpiry(time.Minute))
			for time.Since(begin) < howLong {
				must(mutex.Lock())
				_, err := mutex.Unlock()
				must(err)
				pairs.Add(1)
			}
		}()
	}
	all.Wait()
	return float64(pairs.Load()) / time.Since(begin).Seconds()
}
