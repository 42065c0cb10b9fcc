/* SPDX-License-Identifier: Apache-2.0 */
/* Worlds over the engine file on a simulated machine (machine.h): what befalls it, and what is checked. */
#include "base/alloc.h"
#include "engine/url.h"
#include "sim/file/machine.h"
#include "sim/invariants.h"

#include <assert.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define WALL_MS INT64_C(1790000000000) /* some day */
#define FIRST_PID 5000000              /* beyond any that can exist */
#define VISITS 4                       /* some dead sessions each */
#define DEAD_MS (2 * RT_FILE_LOOK_MS)  /* the last to notice that one is dead */
#define TOLD_MS 20                     /* what a ring, or trying again, wakes */

/* ---- The folder ---------------------------------------------------------- */

static char folder[64];

static void remove_in(const char *path)
{
    DIR *d = opendir(path);
    char name[320];
    for (struct dirent *e = NULL; d != NULL && (e = readdir(d)) != NULL;) {
        (void)snprintf(name, sizeof(name), "%s/%s", path, e->d_name);
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            (void)unlink(name);
    }
    if (d != NULL)
        (void)closedir(d);
}

void sf_world_clear(void)
{
    char sessions[80];
    if (folder[0] == '\0')
        return;
    (void)snprintf(sessions, sizeof(sessions), "%s/s", folder);
    remove_in(sessions);
    (void)rmdir(sessions);
    remove_in(folder);
    (void)rmdir(folder);
}

/* In memory: none of it needs to survive. */
static void make_folder(void)
{
    const char *in = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    (void)snprintf(folder, sizeof(folder), "%s/rota-sim-%d", in, (int)getpid());
    sf_world_clear(); /* a run that failed is done again by the same process */
    if (mkdir(folder, 0700) != 0) {
        perror(folder);
        exit(1);
    }
}

struct rt_file_conn *sf_conn(const struct sim_client *c)
{
    return c->top != NULL ? rt_file_conn(c->top->wrap.inner) : NULL;
}

/* ---- In the middle of something ------------------------------------------ */

/* Whether OTHER may run: only if no client of its process is in the middle of something, for it may die with all that
 * it has. */
static bool may_run(const struct sf_world *w, const struct sim_client *other, uint32_t process)
{
    bool acts = other->process == process;
    for (uint32_t i = 0; i < w->sim->plan.clients; i++)
        acts = acts || (w->sim->clients[i].process == other->process && w->players[i].acts);
    return !acts && sim_client_runs(other) && !other->dying;
}

void sf_preempt(struct sf_world *w, struct sim_client *c)
{
    struct sim *sim = w->sim;
    uint32_t before = sim_starving;
    struct sf_player *p = &w->players[c->index];
    struct sim_client *other = &sim->clients[sim_below(&w->random, sim->plan.clients)];
    if (p->acts || c->dead || w->visited || !sim_chance(&w->random, sim->plan.preempted) ||
        !may_run(w, other, c->process) || (w->acts == 0 && !sim_client_due(other)))
        return;
    w->acts -= !sim_client_due(other);
    p->acts = true;
    sim_starving = 0;
    SIM_TRACE(sim, c, "is held up by %s", other->label);
    sim_client_step(sim, other);
    sim->current = c;
    sim_starving = before;
    p->acts = false;
}

bool sf_dies(struct sf_world *w, struct sim_client *c)
{
    if (!c->dying && !c->dead && !w->sim->healing && sim_chance(&w->random, w->sim->plan.dies)) {
        SIM_TRACE(w->sim, c, "is killed here");
        c->dying = c->dead = true;
    }
    return c->dying;
}

/* Before a commit. */
static int on_commit(void *arg)
{
    struct sim_client *c = arg;
    return c->dead || (c->open && sf_dies(c->sim->file, c));
}

/* A statement begins, or has ended. */
static int on_statement(unsigned what, void *arg, void *statement, void *more)
{
    struct sim_client *c = arg;
    struct sf_world *w = c->sim->file;
    const char *sql = sqlite3_sql(statement);
    (void)more;
    if (what == SQLITE_TRACE_PROFILE && sql != NULL && strcmp(sql, "COMMIT") == 0)
        sf_truth_committed(w, c);
    sf_preempt(w, c);
    return 0;
}

void sf_opened(struct sim_client *c, sqlite3 *db)
{
    (void)sqlite3_commit_hook(db, on_commit, c);
    (void)sqlite3_trace_v2(db, SQLITE_TRACE_STMT | SQLITE_TRACE_PROFILE, on_statement, c);
}

static void opened(struct sim_client *c)
{
    memset(&c->sim->file->players[c->index], 0, sizeof(struct sf_player));
}

/* A client that opens a folder after a crash may have to write to the database first. */
static bool refuses(const struct sim *sim)
{
    const struct sf_world *w = sim->file;
    bool taken = w->taken_until != 0 || w->deleted;
    for (size_t i = 0; i < SIM_CLIENTS_MAX; i++)
        taken = taken || w->players[i].acts;
    return taken;
}

/* Its process has another pid when it comes back. */
static void dies(struct sim_client *c)
{
    struct sf_world *w = c->sim->file;
    c->dying = true;
    for (uint32_t i = 0; i < c->sim->plan.clients; i++)
        if (c->sim->clients[i].open && &c->sim->clients[i] != c &&
            c->sim->clients[i].process == c->process)
            return; /* the last one */
    w->pids[c->process] = ++w->last_pid;
}

/* ---- What comes ----------------------------------------------------------- */

/* The descriptor of a process that was watched and is gone; -1: there is none. */
static int ended_peer(const struct sim_client *c)
{
    for (const struct rt_file_peer *p = sf_conn(c)->peers; p != NULL; p = p->next)
        if (p->pidfd >= 0 && !p->ended && sf_machine_gone(c->sim->file, sf_machine_pid(p->pidfd)))
            return p->pidfd;
    return -1;
}

static int64_t coming(const struct sim_client *c)
{
    const struct sf_world *w = c->sim->file;
    const struct sf_player *p = &w->players[c->index];
    const struct rt_file_conn *f = sf_conn(c);
    int64_t at = RT_NEVER;
    if (f == NULL)
        return at;
    for (size_t i = 0; f->bell != NULL && i < p->ring_count; i++)
        if (p->rings[i].to == f->session && p->rings[i].at < at)
            at = p->rings[i].at;
    return ended_peer(c) >= 0 ? c->sim->now : at;
}

static void deliver(struct sim_client *c)
{
    const struct rt_file_conn *f = sf_conn(c);
    int fd = ended_peer(c);
    if (fd >= 0)
        (void)rt_loop_feed(&c->loop, fd);
    if (f->bell != NULL && coming(c) <= c->sim->now)
        (void)rt_loop_feed(&c->loop, f->bell->fd);
}

/* ---- Truth ---------------------------------------------------------------- */

static size_t look(const struct sim *sim, const char *name, struct sim_place *out, size_t most)
{
    struct sf_world *w = sim->file;
    size_t n = 0;
    sf_truth_read(w);
    for (size_t i = 0; i < w->row_count && n < most; i++)
        if (strcmp(w->rows[i].name, name) == 0)
            out[n++] = w->rows[i].place;
    return n;
}

static bool session(const struct sim *sim, uint64_t id, const char *name, int64_t *ends)
{
    struct sf_world *w = sim->file;
    (void)name;
    *ends = RT_NEVER; /* with its process */
    sf_truth_read(w);
    for (size_t i = 0; i < w->id_count; i++)
        if (w->ids[i] == id)
            return true;
    return false;
}

static void visit_done(struct rt_up *up, struct rt_op *op)
{
    (void)up;
    assert(op->err == 0);
    (void)op;
}

static void visit_event(struct rt_up *up, const struct rt_event *event)
{
    (void)up, (void)event;
}

/* Somebody opens a session, which sweeps what the dead left, and goes. */
static int visit(struct sf_world *w)
{
    struct rt_up up = {.done = visit_done, .event = visit_event};
    struct rt_loop loop;
    struct rt_op op = {.kind = RT_OP_BEAT, .deadline = INT64_MAX, .beat = {.open = true}};
    struct rt_conn *conn = rt_alloc(rt_engine_file.conn_size);
    struct rt_url url;
    char why[256];
    int rv = rt_url_parse(&url, w->url, why, sizeof(why));
    assert(conn != NULL && rv == 0);
    w->visited = true;
    rt_loop_init_virtual(&loop);
    rt_loop_advance(&loop, w->sim->now);
    *conn = (struct rt_conn){.engine = &rt_engine_file, .up = &up, .loop = &loop, .label = "visit"};
    rv = rt_engine_file.open(conn, &url);
    rt_url_fini(&url);
    if (rv == 0) {
        rt_engine_file.submit(conn, &op);
        rt_engine_file.close(conn);
    }
    rt_free(conn);
    rt_loop_fini(&loop);
    w->visited = false;
    return rv;
}

/* Those that still have the deleted database open are rung for it, and give up. */
static void visit_patiently(struct sf_world *w)
{
    struct sim *sim = w->sim;
    for (int i = 0; visit(w) != 0; i++) {
        if (!w->deleted || i == VISITS)
            sim_violated(sim, "liveness", "the folder cannot be opened");
        for (uint32_t k = 0; k < sim->plan.clients; k++)
            if (sim_client_runs(&sim->clients[k]) && sim_client_due(&sim->clients[k]))
                sim_client_run(&sim->clients[k]);
    }
}

static void sweep(struct sim *sim)
{
    for (int i = 0; i < VISITS; i++)
        visit_patiently(sim->file);
}

static void expire(struct sim *sim, int64_t ms)
{
    sim->file->wall_ms += ms + sim->back_ms;
    sweep(sim);
}

static size_t left(const struct sim *sim)
{
    sf_truth_read(sim->file);
    return sim->file->row_count + sim->file->id_count + sf_truth_files(sim->file);
}

static void dump(const struct sim *sim)
{
    struct sf_world *w = sim->file;
    sf_truth_read(w);
    for (size_t i = 0; i < w->id_count; i++)
        sim_trace(sim, NULL, "file session %llu", (unsigned long long)w->ids[i]);
    sim_trace(sim, NULL, "file: %zu files of sessions%s", sf_truth_files(w),
              w->taken_until != 0 ? ", the database is taken" : "");
}

/* ---- What befalls it ------------------------------------------------------ */

static int64_t a_while_ms(struct sim *sim)
{
    uint32_t ms = sim_chance(&sim->random, 500) ? 20 : sim->plan.ttl_ms;
    return 1 + sim_spread_ns(&sim->random, ms * 1000) / RT_MS;
}

static void jump(struct sim *sim, int64_t ms)
{
    SIM_TRACE(sim, NULL, "the clock is set by %lld ms", (long long)ms);
    sim->file->wall_ms += ms;
    sim_counts.jumps++;
    if (ms < 0)
        sim->back_ms += (uint32_t)-ms;
}

/* As somebody who was stopped in the middle of a transaction. */
static void take(struct sim *sim)
{
    struct sf_world *w = sim->file;
    if (w->taken_until != 0 ||
        sqlite3_exec(w->taker, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK)
        return;
    w->taken_until = sim->now + a_while_ms(sim) * RT_MS;
    SIM_TRACE(sim, NULL, "the database is taken until %.6f", (double)w->taken_until / 1e9);
}

void sf_give(struct sf_world *w)
{
    if (w->taken_until != 0)
        (void)sqlite3_exec(w->taker, "ROLLBACK", NULL, NULL, NULL);
    w->taken_until = 0;
}

/* A client whose session file is gone gives up by itself; nobody may take it for dead before. */
static void tidy(struct sim *sim)
{
    const struct sim_client *c = &sim->clients[sim_below(&sim->random, sim->plan.clients)];
    char path[96];
    if (!c->open || sf_conn(c)->session == 0)
        return;
    SIM_TRACE(sim, c, "loses the file of its session");
    (void)snprintf(path, sizeof(path), "%s/s/%016llx", folder,
                   (unsigned long long)sf_conn(c)->session);
    (void)unlink(path);
}

/* All holders give up before anybody makes another database: there are never two holders. */
static void delete_database(struct sim *sim)
{
    static const char *const names[] = {"rota.db", "rota.db-wal", "rota.db-shm"};
    char path[96];
    SIM_TRACE(sim, NULL, "somebody deletes the database");
    sim->file->deleted = true;
    sim_counts.losses++;
    for (size_t i = 0; i < 3; i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
        (void)unlink(path);
    }
}

/* By how much, in us, the clock is ahead of the highest number that a deleted database has given. */
static int64_t lead(const struct sim *sim)
{
    return sim->file->wall_ms * 1000 + sim->now / 1000 - (int64_t)sim->highest_number;
}

static bool fences_grow(const struct sim *sim)
{
    return lead(sim) > 0;
}

/* A clock that is set back and a database that is deleted: nobody can know what both would have said. */
static void set_back(struct sim *sim, int64_t ms)
{
    int64_t most = sim->highest_number == 0 ? ms : (lead(sim) - 1) / 1000;
    if (most > 0)
        jump(sim, ms < most ? -ms : -most);
}

void sf_replaced(struct sf_world *w)
{
    struct sim *sim = w->sim;
    SIM_TRACE(sim, NULL, "there is another database");
    w->deleted = false;
    for (uint32_t i = 0; i < sim->plan.names; i++) {
        struct sim_line *line = &sim->lines[i];
        if (line->last_exclusive > sim->highest_number)
            sim->highest_number = line->last_exclusive;
        if (line->highest_told > sim->highest_number)
            sim->highest_number = line->highest_told;
    }
    for (uint32_t i = 0; i < sim->plan.names && !fences_grow(sim); i++)
        sim->lines[i].last_exclusive = sim->lines[i].highest_told = 0;
}

static void outage(struct sim *sim)
{
    switch (sim_pick_weighted(sim, sim->plan.outage, SIM_FILE_OUTAGE_KINDS)) {
    case SIM_FILE_FORWARD:
        jump(sim, a_while_ms(sim));
        break;
    case SIM_FILE_BACK:
        set_back(sim, a_while_ms(sim));
        break;
    case SIM_FILE_TAKEN:
        take(sim);
        break;
    case SIM_FILE_TIDIED:
        tidy(sim);
        break;
    case SIM_FILE_DELETED:
        delete_database(sim);
        break;
    default:
        break;
    }
}

/* Whose the ticket is, if that client lives. */
static const struct sim_client *client_with(const struct sim *sim, uint64_t session)
{
    for (uint32_t i = 0; i < sim->plan.clients; i++)
        if (sim->clients[i].open && sf_conn(&sim->clients[i])->session == session)
            return &sim->clients[i];
    return NULL;
}

/* Whether all holders are dead, and all living waiters run, at least one. */
static bool kept_by_the_dead(const struct sim *sim, const char *name)
{
    struct sim_place places[SIM_PLACES_MAX];
    size_t n = sim->kind->look(sim, name, places, SIM_PLACES_MAX), dead = 0, wait = 0;
    for (size_t i = 0; i < n; i++) {
        const struct sim_client *c = client_with(sim, places[i].session);
        if (places[i].granted && (c != NULL || places[i].session == 0))
            return false;
        if (c != NULL && (!sim_client_runs(c) || c->close_by != 0))
            return false;
        dead += places[i].granted;
        wait += c != NULL;
    }
    return dead > 0 && wait > 0;
}

/* I6: the dead keep a line no longer than it takes to see that they are dead: at once by a pidfd, soon by
 * probing; at the latest when a waiter looks by itself. One session is swept at a time. */
static void check_dead(struct sim *sim)
{
    struct sf_world *w = sim->file;
    for (uint32_t i = 0; i < sim->plan.names; i++) {
        bool kept = w->taken_until == 0 && kept_by_the_dead(sim, sim->lines[i].name);
        if (!kept)
            w->kept_since[i] = 0;
        else if (w->kept_since[i] == 0)
            w->kept_since[i] = sim->now;
        else if (sim->now - w->kept_since[i] > DEAD_MS * RT_MS && sim->plan.starve == 0)
            sim_violated(sim, "I6", "%s is kept by the dead for %lld ms", sim->lines[i].name,
                         (long long)(sim->now - w->kept_since[i]) / RT_MS);
    }
}

static void run(struct sim *sim)
{
    check_dead(sim);
    if (sim->file->taken_until != 0 && sim->file->taken_until <= sim->now)
        sf_give(sim->file);
}

static int64_t next(const struct sim *sim)
{
    return sim->file->taken_until != 0 ? sim->file->taken_until : RT_NEVER;
}

static void heal(struct sim *sim)
{
    sf_give(sim->file);
}

/* If no ring is lost, the ring tells; else the safety net does, whatever happens: looking needs nobody else. */
static int64_t wakes_within(const struct sim *sim)
{
    const struct sim_plan *plan = &sim->plan;
    int64_t late_us = plan->wire.late > 0 ? 2 * (int64_t)plan->wire.late_us : 0;
    bool lost = plan->wire.push_lost + plan->full + plan->trouble_ms + plan->outage_ms > 0;
    int64_t most = (TOLD_MS + (lost ? RT_FILE_LOOK_MS : 0)) * RT_MS + late_us * 1000;
    return plan->starve == 0 ? most : 0;
}

static int64_t wanted_lost_at(const struct sim *sim)
{
    return sim->file->wanted_lost_at;
}

/* ---- The kind --------------------------------------------------------------- */

void sf_world_open(struct sf_world *w, struct sim *sim, uint64_t seed)
{
    memset(w, 0, sizeof(*w));
    make_folder();
    w->sim = sim;
    w->random.state = seed;
    w->wall_ms = WALL_MS;
    w->acts = sim->plan.acts;
    memcpy(w->folder, folder, sizeof(folder));
    (void)snprintf(w->url, sizeof(w->url), "file:%s", folder);
    w->last_pid = FIRST_PID;
    for (size_t i = 0; i < SIM_PROCESSES_MAX; i++)
        w->pids[i] = ++w->last_pid;
    sf_machine_on(w);
}

void sf_world_close(struct sf_world *w)
{
    sf_truth_close(w);
    sf_machine_on(NULL);
    sf_world_clear();
}

static void on_open(struct sim *sim)
{
    static struct sf_world world;
    struct sim_random aside = sim->random;
    sim_plan_draw_file(&sim->plan, &aside);
    sf_world_open(&world, sim, sim_next(&aside));
    sim->file = &world;
    const struct sim_plan *p = &sim->plan;
    SIM_TRACE(sim, NULL,
              "rings late %u by %u us, lost %u, full %u; dies %u, preempted %u, starves %u",
              p->wire.late, p->wire.late_us, p->wire.push_lost, p->full, p->dies, p->preempted,
              p->starve);
}

static void on_close(struct sim *sim)
{
    sf_world_close(sim->file);
}

static const char *url(const struct sim_client *c)
{
    return c->sim->file->url;
}

const struct sim_kind sim_file = {
    .name = "file",
    .exact = true,
    .open = on_open,
    .close = on_close,
    .look = look,
    .session = session,
    .sweep = sweep,
    .expire = expire,
    .left = left,
    .dump = dump,
    .wakes_within = wakes_within,
    .wanted_lost_at = wanted_lost_at,
    .url = url,
    .opened = opened,
    .refuses = refuses,
    .dies = dies,
    .coming = coming,
    .deliver = deliver,
    .run = run,
    .next = next,
    .outage = outage,
    .heal = heal,
    .fences_grow = fences_grow,
};
