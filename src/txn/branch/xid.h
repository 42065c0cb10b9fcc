/* SPDX-License-Identifier: Apache-2.0 */
/* What MariaDB calls a branch: 'NAME','CONNECTION',1383036001. */
#ifndef RT_XID_H
#define RT_XID_H

#include "txn/branch/branch.h"

#define RT_XID_TEXT 96

/* As it stands in a statement. Returns OUT. */
const char *rt_xid_text(const struct rt_part *part, char out[RT_XID_TEXT]);
/* DATA as XA RECOVER FORMAT = 'SQL' has it. False: it is not one of Rota's. */
bool rt_xid_read(const char *data, struct rt_name *name, uint64_t *connection);

#endif
