/* SPDX-License-Identifier: Apache-2.0 */
/* How often processes reached crash points (txn/point.h). */
#ifndef BANK_HITS_H
#define BANK_HITS_H

/* How often any process reached NAME since the world began, as ROTA_POINTS_SEEN records it. */
long point_hits(const char *name);

#endif
