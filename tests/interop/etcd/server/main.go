// SPDX-License-Identifier: Apache-2.0

// A current etcd, from its published module: go.mod says which.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
