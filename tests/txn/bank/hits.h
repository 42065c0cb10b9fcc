/* SPDX-License-Identifier: Apache-2.0 */
/* Who came by crash points (txn/point.h). */
#ifndef BANK_HITS_H
#define BANK_HITS_H

/* How often anybody did, since the world began, as ROTA_POINTS_SEEN has it. */
long point_hits(const char *name);

#endif
