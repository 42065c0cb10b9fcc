/* SPDX-License-Identifier: Apache-2.0 */
/* The table of crash points, and what happens at one. */
#include "txn/point.h"

#ifdef ROTA_POINTS
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct rt_point_name points[] = {
    /* Participants: before a statement that forces something leaves; it has left; its answer is there. */
    {"branch-begun", NULL},
    {"prepare-asked", NULL},
    {"prepare-sent", NULL},
    {"prepare-answered", NULL},
    {"one-phase-asked", NULL},
    {"one-phase-sent", NULL},
    {"one-phase-answered", NULL},
    {"commit-asked", NULL},
    {"commit-sent", NULL},
    {"commit-answered", NULL},
    {"rollback-asked", NULL},
    {"rollback-sent", NULL},
    {"rollback-answered", NULL},
    {"gate-asked", NULL},
    {"gate-sent", NULL},
    {"gate-answered", NULL},
    {"takeover-commit-asked", NULL},
    {"takeover-commit-sent", NULL},
    {"takeover-commit-answered", NULL},
    {"takeover-rollback-asked", NULL},
    {"takeover-rollback-sent", NULL},
    {"takeover-rollback-answered", NULL},
    {"fence-asked", NULL}, /* a keeper asks after a lost answer */
    {"fence-sent", NULL},
    {"fence-answered", NULL},
    {"marks-asked", NULL}, /* markers are deleted */
    {"marks-sent", NULL},
    {"marks-answered", NULL},
    /* A manager: whoever waits is told next. */
    {"told", NULL},
    /* Services (bank: none): registered, before the try; after it; confirmed or cancelled, before that is known
     * here. */
    {"tcc-registered", "tcc"},
    {"tcc-tried", "tcc"},
    {"tcc-confirmed", "tcc"},
    {"tcc-cancelled", "tcc"},
    /* ... and at the service: it was asked; its row in the fence is there; the work is done, neither durable yet;
     * durable; answered. */
    {"service-asked", "tcc"},
    {"service-fenced", "tcc"},
    {"service-worked", "tcc"},
    {"service-committed", "tcc"},
    {"service-answered", "tcc"},
    /* rota-txn serve: the journal has a plan, a tcc's branch, steps before their actions leave; a call leaves; its
     * answer is there; decided, and finished, before anybody is told; it has claimed what another left. */
    {"dtm-planned", "serve"},
    {"dtm-branch", "serve"},
    {"dtm-registered", "serve"},
    {"dtm-calls", "serve"},
    {"dtm-answered", "serve"},
    {"dtm-decided", "serve"},
    {"dtm-finished", "serve"},
    {"dtm-claimed", "serve"},
    /* Recovery: it knows what is there; it has adopted something; that is finished. */
    {"recover-listed", NULL},
    {"recover-aborting", NULL},
    {"recover-settled", NULL},
    /* Journals: asked for; under way, and not durable; durable; before whoever asked is told. */
    {"decide-asked", NULL}, /* COMMIT */
    {"decide-begun", NULL},
    {"decide-written", NULL},
    {"decide-answered", NULL},
    {"abort-asked", NULL},
    {"abort-begun", NULL},
    {"abort-written", NULL},
    {"abort-answered", NULL},
    {"register-asked", NULL},
    {"register-begun", NULL},
    {"register-written", NULL},
    {"register-answered", NULL},
    {"done-asked", NULL},
    {"done-begun", NULL},
    {"done-written", NULL},
    {"done-answered", NULL},
    {"forget-asked", NULL},
    {"forget-begun", NULL},
    {"forget-floor", "etcd"}, /* elsewhere floor and rows are one transaction */
    {"forget-written", NULL},
    {"forget-answered", NULL},
};

#define PLANS_MOST 4

static struct plan { /* of one name */
    const char *name;
    atomic_long left; /* passes to go, counting the one that hits */
    bool stops;
} plans[PLANS_MOST];
static size_t plan_count;
static int seen = -1; /* a descriptor; -1: nobody wants to know */
static pthread_once_t once = PTHREAD_ONCE_INIT;

const struct rt_point_name *rt_point_name(unsigned i)
{
    return i < sizeof(points) / sizeof(points[0]) ? &points[i] : NULL;
}

static bool is_known(const char *name)
{
    for (size_t i = 0; i < sizeof(points) / sizeof(points[0]); i++)
        if (strcmp(points[i].name, name) == 0)
            return true;
    return false;
}

static void refuse(const char *what)
{
    fprintf(stderr, "crash points: %s\n", what);
    abort();
}

/* NAME[:K][:HOW] */
static void read_plan(char *text)
{
    char *rest = NULL, *part;
    long times = 1;

    if (plan_count == PLANS_MOST)
        refuse("ROTA_POINT names too many");
    struct plan *p = &plans[plan_count++];
    p->name = strtok_r(text, ":", &rest);
    while ((part = strtok_r(NULL, ":", &rest)) != NULL) {
        p->stops = p->stops || strcmp(part, "stop") == 0;
        if (part[0] >= '1' && part[0] <= '9')
            times = strtol(part, NULL, 10);
        else if (strcmp(part, "stop") != 0 && strcmp(part, "kill") != 0)
            refuse("ROTA_POINT=NAME[:K][:kill|stop],...");
    }
    if (p->name == NULL || !is_known(p->name))
        refuse("ROTA_POINT names none of them");
    atomic_store(&p->left, times);
}

static void read_plans(void)
{
    static char text[256];
    const char *said = getenv("ROTA_POINT"), *file = getenv("ROTA_POINTS_SEEN");
    char *rest = NULL;

    if (file != NULL && (seen = open(file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600)) < 0)
        refuse("the file of ROTA_POINTS_SEEN cannot be written");
    snprintf(text, sizeof(text), "%s", said != NULL ? said : "");
    for (char *one = strtok_r(text, ",", &rest); one != NULL; one = strtok_r(NULL, ",", &rest))
        read_plan(one);
}

void rt_point_hit(const char *name)
{
    char line[64];

    (void)pthread_once(&once, read_plans);
    if (!is_known(name))
        refuse(name);
    if (seen >= 0) {
        int size = snprintf(line, sizeof(line), "%s\n", name);
        if (write(seen, line, (size_t)size) != size)
            refuse("the file of ROTA_POINTS_SEEN cannot be written");
    }
    for (struct plan *p = plans; p < plans + plan_count; p++)
        if (strcmp(p->name, name) == 0 && atomic_fetch_sub(&p->left, 1) == 1)
            (void)raise(p->stops ? SIGSTOP : SIGKILL); /* in this thread: it goes no further */
}
#else
typedef int rt_points_are_not_built_in;
#endif
