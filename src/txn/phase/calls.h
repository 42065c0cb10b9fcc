/* SPDX-License-Identifier: Apache-2.0 */
/* Questions of three-phase commit to an address, by the HTTP client of services: a POST, and how it stands there.
 *
 * Everybody who takes part has the same token: it is sent to whomever one asks, over https or to this machine only. */
#ifndef RT_THREE_CALLS_H
#define RT_THREE_CALLS_H

#include "txn/phase/words.h"

struct rt_three_calls;

/* TOKEN_FILE: its first line goes with each question; CA_FILE: authorities instead of the system's, for https. NULL: none.
 * 0, or ROTA_NOMEM. */
int rt_three_calls_open(struct rt_three_calls **out, const char *token_file, const char *ca_file);
void rt_three_calls_close(struct rt_three_calls *c); /* every answer has been told; NULL is legal */

/* Whether URL can be asked: 0; or ROTA_INVALID and one line. No I/O. */
int rt_three_calls_check(const struct rt_three_calls *c, const char *url, char *why, size_t room);

typedef void rt_three_told_fn(void *arg, uint32_t whom, uint32_t seq, const struct rt_stand *stand);

/* Sends TEXT (copied) to URL. Told once, from another thread, without a lock: STAND; NULL: no answer, or none that is
 * one. False: no memory, or TEXT is too long (rt_three_calls_fits); nothing is told. */
bool rt_three_calls_ask(struct rt_three_calls *c, const char *url, const struct rt_name *name,
                        const char *text, rt_three_told_fn *told, void *arg, uint32_t whom,
                        uint32_t seq);
/* Whether TEXT can be sent to URL: it has 32 KB at most. */
bool rt_three_calls_fits(const char *url, const char *text);

#endif
