/* SPDX-License-Identifier: Apache-2.0 */
/* A test's user of a journal: a journal open on a real loop, and what the user was told. */
#ifndef TEST_CLERK_H
#define TEST_CLERK_H

#include "net/loop.h"
#include "txn/journal/journal.h"

#define CLERK_LIMIT_MS 30000 /* nothing takes this long unless it hangs */
#define CLERK_CALL_MS 10000

struct clerk {
    struct rt_journal_up up; /* first */
    struct rt_loop loop;
    struct rt_journal *j;
    uint32_t number; /* of the journal, by IDENTIFY */
    int64_t floor_ms, now_ms;
    char errmsg[256]; /* of the last op that failed, or of open */
    char log[512];
    long done; /* ops told */
};

/* What READ or SCAN reported, copied. */
struct seen {
    struct rt_txn_id id;
    enum rt_journal_stand stands;
    bool done;
    int64_t deadline_ms, decided_ms, claimed_ms;
    uint64_t claimer;
    uint32_t registered;
    char label[RT_JOURNAL_LABEL_MAX + 1];
    size_t branch_count, of_register;
    uint64_t sum;        /* of numbers, modes, names and payloads of its branches */
    uint32_t numbers[8]; /* of the first ones */
    char resources[8][RT_JOURNAL_NAME_MAX + 1];
};

struct page {
    struct seen seen[RT_JOURNAL_PAGE_MAX];
    size_t count;
};

int clerk_open(struct clerk *c, const char *url);
void clerk_start(struct clerk *c, const char *url); /* opens and identifies; both must succeed */
void clerk_close(struct clerk *c);
void clerk_turn(struct clerk *c, int limit_ms);

void clerk_submit(struct clerk *c, struct rt_journal_op *op);
bool clerk_told(const struct rt_journal_op *op); /* since it was submitted */
int clerk_wait(struct clerk *c,
               struct rt_journal_op *op); /* turns the loop until it is told; its error */
int clerk_do(struct clerk *c, struct rt_journal_op *op); /* both */

/* A new id of the journal, born now; clerk_born: born MS after 1970. */
struct rt_txn_id clerk_id(struct clerk *c);
struct rt_txn_id clerk_born(struct clerk *c, int64_t ms);

/* Each must succeed; it returns what stands. */
enum rt_journal_stand clerk_decide(struct clerk *c, struct rt_txn_id id,
                                   enum rt_journal_stand what);
enum rt_journal_stand clerk_register(struct clerk *c, struct rt_txn_id id, uint32_t number);
struct seen clerk_read(struct clerk *c, struct rt_txn_id id);
void clerk_finish(struct clerk *c, struct rt_txn_id id);
uint32_t clerk_forget(struct clerk *c, int64_t before_ms); /* all of it; how many went */
void clerk_identify(struct clerk *c);
/* All with deadlines from FROM_MS on, in pages of LIMIT. */
void clerk_scan(struct clerk *c, int64_t from_ms, int64_t before_ms, uint32_t limit,
                struct page *all);
void clerk_see(void *page, const struct rt_journal_record *record); /* each() for a struct page */
uint64_t clerk_sum(const struct rt_journal_branch *branches, size_t count);

#endif
