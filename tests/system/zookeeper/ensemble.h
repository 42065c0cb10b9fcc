/* SPDX-License-Identifier: Apache-2.0 */
/* The three ZooKeepers of the fault programme (../trio/trio.h), and what may be left in them once everybody has gone:
 * empty containers. */
#ifndef RT_ENSEMBLE_H
#define RT_ENSEMBLE_H

#include "../trio/trio.h"
#include "lib/zookeeper_server.h"

extern struct rt_zks ensemble;

#endif
