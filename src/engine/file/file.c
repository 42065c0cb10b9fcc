/* SPDX-License-Identifier: Apache-2.0 */
/* The embedded engine: its table of functions, and ops that wait for the database. */
#include "engine/file/file.h"

#include "base/alloc.h"
#include "engine/url.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TIMERS 5
#define BUSY_FIRST_NS (50 * RT_MS) /* a call may wait this long for another's transaction */
#define BUSY_LATER_NS (1 * RT_MS)  /* from the loop: others want their turn */
#define RETRY_MS 10
#define STUCK_MS 300 /* a crowd needs less: from here on it is worth a line in the log */
#define CALL_MS_DEFAULT 5000

bool rt_file_say_files(struct rt_file_conn *c, int err)
{
    if (err != EMFILE && err != ENFILE)
        return false;
    rt_file_say(c, "too many open files: raise ulimit -n");
    return true;
}

/* ---- Ops ------------------------------------------------------------------------ */

static void explain_lost(struct rt_file_conn *c, const struct rt_op *op)
{
    if (op->kind == RT_OP_CHANGE)
        (void)rt_words_no_ticket(&c->base, op->change.name);
    else if (op->kind == RT_OP_LEAVE)
        (void)rt_words_no_ticket(&c->base, op->leave.name);
    else if (op->kind == RT_OP_BREAK)
        (void)rt_words_no_such(&c->base, op->brk.name);
    else
        (void)rt_words_no_session(&c->base, op->kind == RT_OP_BEAT ? op->beat.session
                                                                   : op->join.joins[0].session);
}

/* What errmsg says where nothing more exact was said. */
static void explain(struct rt_file_conn *c, const struct rt_op *op, int rv)
{
    if (rv == 0 || c->base.errmsg[0] != '\0')
        return;
    if (rv == ROTA_LOST)
        explain_lost(c, op);
    else
        rt_file_say(c, "%s",
                    rv == ROTA_BUSY    ? "held by somebody else"
                    : rv == ROTA_NOMEM ? "out of memory"
                                       : "the operation is not valid");
}

/* Does OP; false: the database is taken. */
static bool attempt(struct rt_file_conn *c, struct rt_op *op, int64_t busy_ns)
{
    c->busy_limit_ns = busy_ns;
    c->base.errmsg[0] = '\0';
    int rv = rt_file_op_run(c, op);
    c->busy_limit_ns = BUSY_LATER_NS;
    if (rv == RT_FILE_AGAIN) {
        c->counted.again++;
        return false;
    }
    explain(c, op, rv);
    bool swept = c->session_gone;
    bool opened = op->kind == RT_OP_BEAT && op->beat.open && rv == 0;
    c->session_gone = false;
    rt_file_rings_send(c);
    rt_conn_done(&c->base, op, rv);
    rt_file_wait_adopt(c); /* after done: its GRANTED must not come before its number */
    if (swept)
        rt_file_session_lost(c);
    if (opened)
        rt_file_sweep_some(c);
    return true;
}

/* After a pause, or at BY, which is a deadline: whoever waits for that is told why in time. */
static void retry_by(struct rt_file_conn *c, int64_t by)
{
    int64_t at = rt_loop_now(c->base.loop) + RETRY_MS * RT_MS;
    if (by < at)
        at = by;
    if (c->retry.timer.slot == 0 || c->retry.timer.at > at)
        rt_timers_start(&c->base.loop->timers, &c->retry.timer, at);
}

static void enqueue(struct rt_file_conn *c, struct rt_op *op)
{
    op->next = NULL;
    *c->queue_tail = op;
    c->queue_tail = &op->next;
    retry_by(c, op->deadline);
}

static struct rt_op *dequeue(struct rt_file_conn *c, struct rt_op **at)
{
    struct rt_op *op = *at;
    *at = op->next;
    if (*at == NULL)
        c->queue_tail = at;
    op->next = NULL;
    return op;
}

/* First again: it found the database taken. */
static void requeue(struct rt_file_conn *c, struct rt_op *op)
{
    op->next = c->queue;
    if (c->queue == NULL)
        c->queue_tail = &op->next;
    c->queue = op;
}

static void too_late(struct rt_file_conn *c, struct rt_op *op)
{
    rt_file_say_busy(c);
    rt_conn_done(&c->base, op, ROTA_UNREACHABLE);
}

/* Ops still wait: whoever gives up before their deadline should know why. */
static void tell_stuck(struct rt_file_conn *c, int64_t now)
{
    if (c->stuck_since == 0)
        c->stuck_since = now;
    if (c->stuck_told || now - c->stuck_since < STUCK_MS * RT_MS)
        return;
    c->stuck_told = true;
    rt_file_say_busy(c);
    rt_file_log(c, ROTA_LOG_WARN, "%s", c->base.errmsg);
}

static void on_retry(struct rt_timer_call *t, int64_t now)
{
    struct rt_file_conn *c = RT_FILE_CONTAINER(t, struct rt_file_conn, retry);
    rt_file_enter(c);
    while (c->queue != NULL) {
        /* Out of the queue while it runs: done may lead to its reuse. */
        struct rt_op *op = dequeue(c, &c->queue);
        if (op->deadline <= now) {
            too_late(c, op);
        } else if (!attempt(c, op, BUSY_LATER_NS)) {
            requeue(c, op);
            tell_stuck(c, now);
            break;
        } else {
            c->stuck_since = 0;
            c->stuck_told = false;
        }
    }
    for (struct rt_op **at = &c->queue; *at != NULL;) {
        if ((*at)->deadline <= now)
            too_late(c, dequeue(c, at));
        else
            at = &(*at)->next;
    }
    for (const struct rt_op *op = c->queue; op != NULL; op = op->next)
        retry_by(c, op->deadline);
    rt_file_exit(c);
}

static void file_submit(struct rt_conn *conn, struct rt_op *op)
{
    struct rt_file_conn *c = rt_file_conn(conn);
    rt_file_enter(c);
    if (c->queue != NULL || !attempt(c, op, BUSY_FIRST_NS))
        enqueue(c, op);
    rt_file_exit(c);
}

static void file_cancel(struct rt_conn *conn, struct rt_op *op)
{
    struct rt_file_conn *c = rt_file_conn(conn);
    for (struct rt_op **at = &c->queue; *at != NULL; at = &(*at)->next) {
        if (*at != op)
            continue;
        (void)dequeue(c, at);
        rt_conn_done(&c->base, op, ROTA_CANCELED);
        return;
    }
}

/* ---- Connections ----------------------------------------------------------------- */

static int file_open(struct rt_conn *conn, const struct rt_url *url)
{
    struct rt_file_conn *c = rt_file_conn(conn);
    c->dir = c->sdir = c->session_fd = c->send_fd = c->shm_fd = -1;
    c->queue_tail = &c->queue;
    c->retry.fire = on_retry;
    c->late_timer.fire = rt_file_rings_late;
    c->busy_limit_ns = BUSY_FIRST_NS;
    if (c->base.call_ms == 0)
        c->base.call_ms = CALL_MS_DEFAULT;
    rt_file_wait_init(c);
    if (url->host_count > 0) {
        rt_file_say(c, "file: has no host: write file:/folder, or file:folder");
        return ROTA_INVALID;
    }
    int rv = rt_loop_reserve(c->base.loop, TIMERS);
    if (rv != 0)
        return rv;
    rt_file_fork_clean();
    rt_file_fork_add(c);
    rt_file_enter(c);
    rv = rt_file_path_open(c, url->path, rt_url_param(url, "mode", NULL));
    if (rv == 0)
        rv = rt_file_db_open(c, true);
    rt_file_exit(c);
    if (rv != 0) {
        rt_file_fork_remove(c);
        rt_file_path_close(c);
        rt_loop_unreserve(c->base.loop, TIMERS);
        return rv;
    }
    c->base.ttl_ms = 0;
    return 0;
}

int rt_file_reopen(struct rt_file_conn *c)
{
    char mode[16] = "";
    if (c->mode_asked != 0)
        (void)snprintf(mode, sizeof(mode), "%04o", (unsigned)c->mode_asked);
    rt_file_db_close(c); /* first: SQLite would lend us its files */
    struct rt_file_conn old = *c;
    c->folder = NULL;
    c->dir = c->sdir = -1;
    c->numbers_ok = false;
    int rv = rt_file_path_open(c, old.folder, mode);
    if (rv == 0)
        rv = rt_file_db_open(c, false);
    if (rv == 0) {
        rt_file_log(c, ROTA_LOG_WARN, "file: %s/rota.db was deleted or replaced: opened anew",
                    c->shown);
        rt_file_path_close(&old);
        return 0;
    }
    rt_file_path_close(c);
    c->folder = old.folder;
    c->dir = old.dir;
    c->sdir = old.sdir;
    return rv;
}

static void stop_timers(struct rt_file_conn *c)
{
    struct rt_timer_call *all[TIMERS] = {&c->retry, &c->poll, &c->look, &c->expire, &c->late_timer};
    for (size_t i = 0; i < TIMERS; i++)
        rt_timers_stop(&c->base.loop->timers, &all[i]->timer);
    rt_loop_unreserve(c->base.loop, TIMERS);
}

static void file_close(struct rt_conn *conn)
{
    struct rt_file_conn *c = rt_file_conn(conn);
    rt_file_enter(c);
    c->queue = NULL;
    rt_file_wait_forget(c, 0);
    rt_file_peer_close(c);
    rt_view_close(&c->observations);
    rt_file_session_end(c);
    rt_file_log(c, ROTA_LOG_TRACE,
                "file: rings sent %" PRIu64 ", late %" PRIu64 ", heard %" PRIu64 "; looks %" PRIu64
                ", sweeps %" PRIu64 ", database taken %" PRIu64,
                c->counted.rings, c->counted.rings_late, c->counted.rings_heard, c->counted.looks,
                c->counted.sweeps, c->counted.again);
    stop_timers(c);
    rt_file_rings_free(&c->rings);
    rt_file_rings_free(&c->late);
    rt_free(c->buckets);
    c->buckets = NULL;
    if (c->send_fd >= 0)
        (void)close(c->send_fd);
    rt_file_db_close(c);
    rt_file_exit(c);
    rt_file_fork_remove(c);
    rt_file_path_close(c);
}

static uint32_t file_caps(const struct rt_conn *conn)
{
    uint32_t caps = ROTA_CAP_FENCE | ROTA_CAP_ORDER | ROTA_CAP_SHARED | ROTA_CAP_PERMITS |
                    ROTA_CAP_WANTED | ROTA_CAP_DURABLE;
    const struct rt_file_conn *c = (const struct rt_file_conn *)(const void *)conn;
    return atomic_load_explicit(&c->strict, memory_order_relaxed) ? caps | ROTA_CAP_STRICT : caps;
}

static void file_forked(struct rt_conn *conn)
{
    /* The lock belongs to the open file: a child that kept it would keep the session. */
    struct rt_file_conn *c = rt_file_conn(conn);
    if (c->session_fd >= 0)
        (void)close(c->session_fd);
}

static const char *const schemes[] = {"file", NULL};

/* The OFD lock belongs to the open file: it lasts until the last copy is closed. */
static int file_keep(struct rt_conn *conn, int *fd)
{
    struct rt_file_conn *c = rt_file_conn(conn);
    if (c->session == 0) {
        rt_file_say(c, "there is no session yet: it begins with the first lock");
        return ROTA_LOST;
    }
    int copy = fcntl(c->session_fd, F_DUPFD_CLOEXEC, 3); /* not in the place of a standard stream */
    if (copy < 0) {
        rt_file_say(c, "too many open files: raise ulimit -n");
        return ROTA_UNREACHABLE;
    }
    *fd = copy;
    return 0;
}

static const char *const params[] = {"mode", NULL};

const struct rt_engine rt_engine_file = {
    .schemes = schemes,
    .params = params,
    .conn_size = sizeof(struct rt_file_conn),
    .open = file_open,
    .close = file_close,
    .submit = file_submit,
    .cancel = file_cancel,
    .caps = file_caps,
    .forked = file_forked,
    .keep = file_keep,
};
