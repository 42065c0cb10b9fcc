/* SPDX-License-Identifier: Apache-2.0 */
/* A manager that a command opens, and turning errors into exit codes. */
#ifndef RT_VISIT_H
#define RT_VISIT_H

#include "txn/cli/args.h"
#include "txn/manager/manager.h"

struct rt_visit {
    struct rota_txns *m;
    uint32_t number;  /* of the journal */
    int64_t floor_ms; /* as it was at open */
    int64_t now_ms;   /* the journal's clock then */
    void (*beat)(
        void); /* called between questions that may take seconds each; NULL: nobody needs that */
};

/* RT_EXIT_OK, or a message was printed. OPTS: resources are ARGS's. */
int rt_visit_open(struct rt_visit *v, const struct rt_args *args,
                  const struct rota_txns_options *opts);
void rt_visit_close(struct rt_visit *v);

int rt_visit_exit(int err); /* the exit code for a ROTA_* */
/* Prints the line of the last failing call on V (NULL: the opening). Returns rt_visit_exit(ERR). */
int rt_visit_report(const struct rt_visit *v, int err);

/* RT_EXIT_OK; else ID belongs to another journal, and a message was printed. */
int rt_visit_ours(const struct rt_visit *v, const struct rt_txn_id *id);

int64_t rt_visit_wall_ms(void); /* this machine's clock */

/* "2026-11-16 17:03:56" in the reader's local time; "-" for 0. Returns OUT. */
const char *rt_visit_date(int64_t ms, char *out, size_t size);

#endif
