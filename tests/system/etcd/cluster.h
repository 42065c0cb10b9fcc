/* SPDX-License-Identifier: Apache-2.0 */
/* The three etcd of the fault programme (../trio/trio.h), and what may be left in them once everybody has gone:
 * nothing. */
#ifndef RT_CLUSTER_H
#define RT_CLUSTER_H

#include "../trio/trio.h"
#include "lib/etcd_server.h"

extern struct rt_etcds cluster;

#endif
