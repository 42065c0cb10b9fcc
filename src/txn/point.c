/* SPDX-License-Identifier: Apache-2.0 */
/* The crash points there are, and what happens at one. */
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
    {"prepare-asked", RT_POINT_CALLER, NULL},
    {"prepare-sent", RT_POINT_CALLER, NULL},
    {"prepare-answered", RT_POINT_CALLER, NULL},
    {"one-phase-asked", RT_POINT_CALLER, NULL},
    {"one-phase-sent", RT_POINT_CALLER, NULL},
    {"one-phase-answered", RT_POINT_CALLER, NULL},
    {"commit-asked", RT_POINT_CALLER, NULL},
    {"commit-sent", RT_POINT_CALLER, NULL},
    {"commit-answered", RT_POINT_CALLER, NULL},
    {"rollback-asked", RT_POINT_CALLER, NULL},
    {"rollback-sent", RT_POINT_CALLER, NULL},
    {"rollback-answered", RT_POINT_CALLER, NULL},
    {"gate-asked", RT_POINT_FINISHER, NULL},
    {"gate-sent", RT_POINT_FINISHER, NULL},
    {"gate-answered", RT_POINT_FINISHER, NULL},
    {"takeover-commit-asked", RT_POINT_FINISHER, NULL},
    {"takeover-commit-sent", RT_POINT_FINISHER, NULL},
    {"takeover-commit-answered", RT_POINT_FINISHER, NULL},
    {"takeover-rollback-asked", RT_POINT_FINISHER, NULL},
    {"takeover-rollback-sent", RT_POINT_FINISHER, NULL},
    {"takeover-rollback-answered", RT_POINT_FINISHER, NULL},
    {"fence-asked", RT_POINT_CALLER, NULL}, /* its keeper asks, when an answer was lost */
    {"fence-sent", RT_POINT_CALLER, NULL},
    {"fence-answered", RT_POINT_CALLER, NULL},
    {"marks-asked", RT_POINT_SWEEPER, NULL}, /* markers are taken away */
    {"marks-sent", RT_POINT_SWEEPER, NULL},
    {"marks-answered", RT_POINT_SWEEPER, NULL},
    /* Recovery: it knows what is there; it has taken on what nobody has decided. */
    {"recover-listed", RT_POINT_FINISHER, NULL},
    {"recover-aborting", RT_POINT_FINISHER, NULL},
    /* Journals: asked for; under way, and not durable; durable; before whoever asked is told. */
    {"decide-asked", RT_POINT_CALLER, NULL}, /* COMMIT */
    {"decide-begun", RT_POINT_CALLER, NULL},
    {"decide-written", RT_POINT_CALLER, NULL},
    {"decide-answered", RT_POINT_CALLER, NULL},
    {"abort-asked", RT_POINT_FINISHER, NULL},
    {"abort-begun", RT_POINT_FINISHER, NULL},
    {"abort-written", RT_POINT_FINISHER, NULL},
    {"abort-answered", RT_POINT_FINISHER, NULL},
    {"register-asked", RT_POINT_JOINER, NULL},
    {"register-begun", RT_POINT_JOINER, NULL},
    {"register-written", RT_POINT_JOINER, NULL},
    {"register-answered", RT_POINT_JOINER, NULL},
    {"done-asked", RT_POINT_CALLER, NULL},
    {"done-begun", RT_POINT_CALLER, NULL},
    {"done-written", RT_POINT_CALLER, NULL},
    {"done-answered", RT_POINT_CALLER, NULL},
    {"forget-asked", RT_POINT_SWEEPER, NULL},
    {"forget-begun", RT_POINT_SWEEPER, NULL},
    {"forget-floor", RT_POINT_SWEEPER, "etcd"}, /* elsewhere floor and rows are one transaction */
    {"forget-written", RT_POINT_SWEEPER, NULL},
    {"forget-answered", RT_POINT_SWEEPER, NULL},
};

static struct {
    const char *name; /* NULL: none */
    atomic_long left; /* times that are no hit yet, and the one that is */
    bool stops;
    int seen; /* a descriptor; -1: nobody wants to know */
} plan = {.seen = -1};
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
static void read_plan(void)
{
    static char text[128];
    const char *said = getenv("ROTA_POINT"), *seen = getenv("ROTA_POINTS_SEEN");
    char *rest = NULL, *part;
    long times = 1;

    if (seen != NULL &&
        (plan.seen = open(seen, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600)) < 0)
        refuse("the file of ROTA_POINTS_SEEN cannot be written");
    if (said == NULL || said[0] == '\0')
        return;
    snprintf(text, sizeof(text), "%s", said);
    plan.name = strtok_r(text, ":", &rest);
    while ((part = strtok_r(NULL, ":", &rest)) != NULL) {
        plan.stops = plan.stops || strcmp(part, "stop") == 0;
        if (part[0] >= '1' && part[0] <= '9')
            times = strtol(part, NULL, 10);
        else if (strcmp(part, "stop") != 0 && strcmp(part, "kill") != 0)
            refuse("ROTA_POINT=NAME[:K][:kill|stop]");
    }
    if (plan.name == NULL || !is_known(plan.name))
        refuse("ROTA_POINT names none of them");
    atomic_store(&plan.left, times);
}

void rt_point_hit(const char *name)
{
    char line[64];

    (void)pthread_once(&once, read_plan);
    if (!is_known(name))
        refuse(name);
    if (plan.seen >= 0) {
        int size = snprintf(line, sizeof(line), "%s\n", name);
        if (write(plan.seen, line, (size_t)size) != size)
            refuse("the file of ROTA_POINTS_SEEN cannot be written");
    }
    if (plan.name == NULL || strcmp(plan.name, name) != 0 || atomic_fetch_sub(&plan.left, 1) != 1)
        return;
    (void)raise(plan.stops ? SIGSTOP : SIGKILL); /* of this thread: it goes no step further */
}
#else
typedef int rt_points_are_not_built_in;
#endif
