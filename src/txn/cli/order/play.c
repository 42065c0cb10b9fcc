/* SPDX-License-Identifier: Apache-2.0 */
/* The play: which orders there are, who serves, who dies. */
#include "txn/cli/order/play.h"

#include "cli/cli.h"
#include "cli/out.h"
#include "txn/cli/order/buyer.h"
#include "txn/cli/order/draw.h"
#include "txn/cli/order/network.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ORDERS_MOST 3
#define SERVERS_MOST (RT_ORDER_SERVICES + 1)

const char *const rt_order_names[RT_ORDER_SERVICES] = {"order", "stock", "payment"};
const int rt_order_before[RT_ORDER_SERVICES] = {100, 50, 300};
const char *const rt_order_fails[RT_ORDER_FAILS] = {"", "stock", "payment", "coordinator",
                                                    "network"};

#define ITEMS(n)         \
    {                    \
        1, (n), 10 * (n) \
    }

/* Up to ORDERS_MOST each; the last has no title. */
static const struct rt_order plays[RT_ORDER_FAILS][ORDERS_MOST + 1] = {
    [RT_ORDER_NOTHING] = {{.title = "all is well", .amounts = ITEMS(2), .commits = true}},
    [RT_ORDER_NO_STOCK] = {{.title = "more than there is", .amounts = ITEMS(60)},
                           {.title = "what there is", .amounts = ITEMS(2), .commits = true}},
    [RT_ORDER_NO_PAYMENT] = {{.title = "more than can be paid", .amounts = ITEMS(40)},
                             {.title = "what can be paid", .amounts = ITEMS(2), .commits = true}},
    [RT_ORDER_COORDINATOR] = {{.title = "the coordinator dies before it decides",
                               .amounts = ITEMS(2),
                               .death = RT_ORDER_DIES_UNDECIDED},
                              {.title = "the coordinator dies after it has decided",
                               .amounts = ITEMS(3),
                               .death = RT_ORDER_DIES_DECIDED,
                               .commits = true}},
    [RT_ORDER_NETWORK] = {[RT_NETWORK_DOUBLES] = {.title = "every call comes twice",
                                                  .amounts = ITEMS(2),
                                                  .commits = true},
                          [RT_NETWORK_LOSES] = {.title = "a call is lost, and an answer",
                                                .amounts = ITEMS(3),
                                                .commits = true},
                          [RT_NETWORK_DELAYS] = {.title = "a try comes after its cancel",
                                                 .amounts = ITEMS(4)}},
};

struct play {
    struct rt_stage stage;
    struct rt_draw draw;
    struct rt_order orders[ORDERS_MOST];
    int count;
    enum rt_order_fail fail;
    pid_t servers[SERVERS_MOST];
    int server_count;
    uint16_t network; /* its port; 0: there is none */
    bool failed;      /* said already */
};

static int fail(struct play *p, const char *why)
{
    if (!p->failed)
        rt_out_error("%s", why);
    p->failed = true;
    return RT_EXIT_UNREACHABLE;
}

/* Takes what happens until the process of LIFE has ended; READY: or until somebody listens. Returns an exit code. */
static int watch(struct play *p, int life, struct rt_event *ready)
{
    struct rt_order *order = p->draw.order > 0 ? &p->orders[p->draw.order - 1] : NULL;
    struct rt_event e;
    int n;

    while ((n = rt_stage_next(&p->stage, life, &e)) > 0) {
        if (e.kind == RT_EVENT_ERROR)
            return fail(p, e.text);
        if (e.kind == RT_EVENT_READY && ready != NULL) {
            *ready = e;
            return RT_EXIT_OK;
        }
        if (e.kind == RT_EVENT_BEGUN && order != NULL)
            memcpy(order->id, e.txn, sizeof(order->id));
        rt_draw_event(&p->draw, &e);
    }
    if (n < 0)
        return fail(p, "nothing has happened for a minute");
    return ready == NULL ? RT_EXIT_OK : fail(p, "a service has ended before it listened");
}

/* ---- Servers ------------------------------------------------------------------------------- */

/* Puts its port in *PORT. */
static int start_server(struct play *p, int (*fn)(const struct rt_stage *s, void *arg), int which,
                        uint16_t *port)
{
    struct rt_event ready = {.kind = RT_EVENT_READY};
    int life;
    pid_t pid = rt_stage_start(&p->stage, fn, &which, &life);

    if (pid < 0)
        return fail(p, strerror(errno));
    p->servers[p->server_count++] = pid;
    int code = watch(p, life, &ready);
    close(life);
    *port = (uint16_t)ready.number;
    return code;
}

static void end_servers(struct play *p)
{
    while (p->server_count > 0) {
        pid_t pid = p->servers[--p->server_count];
        kill(pid, SIGKILL);
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            continue;
    }
}

static int write_resources(struct play *p)
{
    FILE *file = fopen(p->stage.resources, "we");

    for (int i = 0; file != NULL && i < RT_ORDER_SERVICES; i++) {
        if (p->network != 0)
            fprintf(file, "%s = http://127.0.0.1:%u/%s/\n", rt_order_names[i], (unsigned)p->network,
                    rt_order_names[i]);
        else
            fprintf(file, "%s = http://127.0.0.1:%u/\n", rt_order_names[i],
                    (unsigned)p->stage.ports[i]);
    }
    return file != NULL && fclose(file) == 0 ? RT_EXIT_OK : fail(p, strerror(errno));
}

static int start_servers(struct play *p)
{
    int code = RT_EXIT_OK;

    for (int i = 0; code == RT_EXIT_OK && i < RT_ORDER_SERVICES; i++)
        code = start_server(p, rt_counter_serve, i, &p->stage.ports[i]);
    if (code == RT_EXIT_OK && p->fail == RT_ORDER_NETWORK)
        code = start_server(p, rt_network_run, 0, &p->network);
    return code == RT_EXIT_OK ? write_resources(p) : code;
}

/* ---- Orders ----------------------------------------------------------------------------------- */

/* Runs FN for ORDER. *STATUS: as from waitpid. */
static int run_process(struct play *p, int (*fn)(const struct rt_stage *s, void *arg),
                       struct rt_order *order, int *status)
{
    int life;
    pid_t pid = rt_stage_start(&p->stage, fn, order, &life);

    if (pid < 0)
        return fail(p, strerror(errno));
    int code = watch(p, life, NULL);
    close(life);
    if (code != RT_EXIT_OK)
        kill(pid, SIGKILL);
    while (waitpid(pid, status, 0) < 0 && errno == EINTR)
        continue;
    return code;
}

static int play_order(struct play *p, int i)
{
    struct rt_order *order = &p->orders[i];
    int status = 0;

    p->stage.shared->order = i;
    rt_draw_order(&p->draw, order);
    int code = run_process(p, rt_buyer_order, order, &status);
    if (code == RT_EXIT_OK && WIFSIGNALED(status) && order->death != RT_ORDER_LIVES) {
        order->recovered = true;
        code = run_process(p, rt_buyer_recover, order, &status);
    }
    if (code == RT_EXIT_OK && (!WIFEXITED(status) || WEXITSTATUS(status) != 0))
        code = fail(p, "a process of the demo ended too early");
    return code;
}

static int end_play(struct play *p)
{
    struct rt_audit audit;

    if (!rt_audit_make(&audit, &p->stage, p->orders, p->count))
        return fail(p, audit.why);
    rt_draw_end(&p->draw, &audit, p->orders, p->count);
    int code = p->draw.silent ? rt_draw_json(&p->draw, &audit, p->orders, p->count, p->fail)
                              : RT_EXIT_OK;
    if (rt_out_flush() != RT_EXIT_OK || code != RT_EXIT_OK)
        return RT_EXIT_FAILED;
    return audit.all ? RT_EXIT_OK : RT_EXIT_FAILED;
}

int rt_play_run(void *arg)
{
    static struct play p; /* static: its paths are large */
    const struct rt_play *what = arg;

    p.fail = what->fail;
    p.draw.silent = what->json;
    while (p.count < ORDERS_MOST && plays[p.fail][p.count].title != NULL) {
        p.orders[p.count] = plays[p.fail][p.count];
        p.count++;
    }
    if (!rt_stage_open(&p.stage, what->folder))
        return fail(&p, strerror(errno));
    rt_draw_head(&p.draw, p.fail);
    int code = start_servers(&p);
    for (int i = 0; code == RT_EXIT_OK && i < p.count; i++)
        code = play_order(&p, i);
    end_servers(&p);
    if (code == RT_EXIT_OK)
        code = end_play(&p);
    json_decref(p.draw.steps);
    return code;
}
