/* SPDX-License-Identifier: Apache-2.0 */
/* What engines say: errmsg, the log, and the sentences that all of them have to say alike. */
#ifndef RT_WORDS_H
#define RT_WORDS_H

#include "engine/engine.h"

/* Sets errmsg, cut to its room, and returns ERR. */
__attribute__((format(printf, 3, 4))) int rt_words_fail(struct rt_conn *conn, int err,
                                                        const char *format, ...);
int rt_words_nomem(struct rt_conn *conn); /* ROTA_NOMEM, "out of memory" */

/* A line for the user's log, cut to 511 bytes; does nothing if nobody listens. */
__attribute__((format(printf, 3, 4))) void rt_words_log(struct rt_conn *conn, int level,
                                                        const char *format, ...);

/* "a lock", "permits of 3": what a line is. Any MODE, also one that nobody knows. */
void rt_words_kind(char *out, size_t size, int64_t mode, int64_t of);

/* Each sets errmsg and returns the error in its name. */
int rt_words_other_kind(struct rt_conn *conn, const struct rt_join *join, int64_t mode,
                        int64_t of); /* INVALID: the line is MODE of OF */
int rt_words_busy(struct rt_conn *conn, const char *name, const char *holder,
                  size_t size);                                  /* BUSY */
int rt_words_no_ticket(struct rt_conn *conn, const char *name);  /* LOST: ours is not in the line */
int rt_words_no_session(struct rt_conn *conn, uint64_t session); /* LOST */
int rt_words_no_such(struct rt_conn *conn, const char *name);    /* LOST: BREAK found none */
int rt_words_set_ended(struct rt_conn *conn);                    /* LOST: a part of the set */
int rt_words_not_exclusive(struct rt_conn *conn, const char *name); /* INVALID: no downgrade */

/* A verdict of CHECK. */
void rt_words_verdict(const struct rt_op *op, const char *promise, const char *verdict,
                      const char *setting, const char *remedy);

#endif
