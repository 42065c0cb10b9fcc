/* SPDX-License-Identifier: Apache-2.0 */
/* Strays: tickets of ours that nobody here knows. A JOIN that was given up, and whose LEAVE by nonce found nothing,
 * has reached the engine after all; or a grant that numbers a ticket crossed with our giving that ticket up. A stray is
 * given back, or our beats would keep it for ever (I6). If that fails, the next BEAT brings it up again; a session
 * without beats (no ttl) tries again by itself, since nobody else can take it away while this process lives. */
#ifndef RT_STRAY_H
#define RT_STRAY_H

#include "client/dispatch.h"

/* While a JOIN of LINE is open, what is granted may be that JOIN's, unless the engine knows its nonce: a set of a
 * cluster may be joining for as long as the stray stands before it. If it is not, the next BEAT brings it up again. */
bool rt_stray_may_be_joining(const struct rt_line *line, uint64_t nonce);

void rt_stray_init(struct rt_dispatch *d);

/* What EVENT (GRANTED) tells of is to be given back. Without memory the next BEAT brings it up again. */
void rt_stray_note(struct rt_dispatch *d, const struct rt_event *event);
void rt_stray_send(struct rt_dispatch *d); /* all that are noted; the connection is open */
void rt_stray_fini(struct rt_dispatch *d);

#endif
