/* SPDX-License-Identifier: Apache-2.0 */
/* Questions of three-phase commit to an address, through the HTTP client of services: a POST, answered with how it
 * stands there.
 *
 * Everybody who takes part has the same token: it goes with every question, over https or to this machine only. */
#ifndef RT_THREE_CALLS_H
#define RT_THREE_CALLS_H

#include "txn/phase/words.h"

struct rt_three_calls;

/* TOKEN_FILE: its first line goes with each question; CA_FILE: authorities instead of the system's, for https. NULL: none.
 * 0, or ROTA_NOMEM. */
int rt_three_calls_open(struct rt_three_calls **out, const char *token_file, const char *ca_file);
void rt_three_calls_close(struct rt_three_calls *c); /* every answer was delivered; NULL is legal */

/* Whether URL can be asked: 0; or ROTA_INVALID and one line. No I/O. */
int rt_three_calls_check(const struct rt_three_calls *c, const char *url, char *why, size_t room);

typedef void rt_three_told_fn(void *arg, uint32_t whom, uint32_t seq,
                              const struct rt_answer *answer, const char *trouble);

/* Sends TEXT (copied) to URL. The callback is called once, from another thread, without a lock: ANSWER; NULL: no
 * answer, or not a valid one: TROUBLE is a line about that. False: no memory, or TEXT is too long (rt_three_calls_fits); then there is no
 * callback. */
bool rt_three_calls_ask(struct rt_three_calls *c, const char *url, const struct rt_name *name,
                        const char *text, rt_three_told_fn *told, void *arg, uint32_t whom,
                        uint32_t seq);
/* Whether TEXT can be sent to URL: 32 KB at most. */
bool rt_three_calls_fits(const char *url, const char *text);

#endif
