/* SPDX-License-Identifier: Apache-2.0 */
/* The servers, the journals on them, and everybody the driver starts. */
#include <setjmp.h> // IWYU pragma: keep
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bank.h"

#include "../journal/clerk.h"
#include "lib/etcd_server.h"
#include "lib/mysql_server.h"
#include "lib/postgres_server.h"
#include "lib/proc.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define HOUSES_MOST 200
#define HANDS_MOST 400

static struct {
    char journal[16];
    struct rt_mariadb mariadb, journal_mariadb;
    struct rt_pg postgres, journal_postgres;
    struct rt_etcds etcd;
    struct {
        char url[400];
        uint32_t number;
    } house[HOUSES_MOST];
    int houses, used; /* the first USED ones are, by this scene */
    int others;       /* from the end: by house_new_at */
    uint16_t through[2];
    uint32_t timeout_ms, call_ms, keep_ms;
    pid_t alive[HANDS_MOST]; /* 0: none */
} w;

/* ---- Waiting ------------------------------------------------------------------------ */

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void must_become(bool (*until)(void *arg), void *arg, const char *what)
{
    int64_t limit = now_ms() + LIMIT_MS;

    while (!until(arg)) {
        if (now_ms() > limit)
            fail_msg("it does not become so: %s", what);
        poll(NULL, 0, 10);
    }
}

/* ---- Servers -------------------------------------------------------------------------- */

static void set(const char *name, const char *value)
{
    if (setenv(name, value, 1) != 0)
        abort();
}

static void set_number(const char *name, long value)
{
    char text[32];

    snprintf(text, sizeof(text), "%ld", value);
    set(name, text);
}

static void my_url(char *out, size_t size, const struct rt_mariadb *m, const char *database)
{
    snprintf(out, size, "mysql://rota@127.0.0.1:%u/%s?password_file=%s", (unsigned)m->server.port,
             database, m->password_file);
}

static void make_accounts(void)
{
    static const char *const databases[] = {RT_MARIADB_DATABASE, "safe"};

    rt_mariadb_do(&w.mariadb, "GRANT PROCESS ON *.* TO rota@'%%'");
    rt_mariadb_do(&w.mariadb, "CREATE DATABASE safe");
    rt_mariadb_do(&w.mariadb, "GRANT ALL ON safe.* TO rota@'%%'");
    for (size_t i = 0; i < 2; i++) {
        rt_mariadb_do(&w.mariadb,
                      "CREATE TABLE %s.account (id INT PRIMARY KEY, balance BIGINT NOT NULL) "
                      "ENGINE = InnoDB",
                      databases[i]);
        rt_mariadb_do(&w.mariadb, "CREATE TABLE %s.moved (tid INT PRIMARY KEY) ENGINE = InnoDB",
                      databases[i]);
        rt_mariadb_do(&w.mariadb, "INSERT INTO %s.account SELECT seq, %d FROM seq_0_to_%d",
                      databases[i], BALANCE, ACCOUNTS - 1);
    }
    rt_pg_do(&w.postgres,
             "CREATE TABLE account (id int PRIMARY KEY, balance bigint NOT NULL);"
             "CREATE TABLE moved (tid int PRIMARY KEY);"
             "CREATE TABLE late (n int UNIQUE DEFERRABLE INITIALLY DEFERRED);"
             "INSERT INTO account SELECT n, %d FROM generate_series(0, %d) n",
             BALANCE, ACCOUNTS - 1);
}

static void start_journal(void)
{
    const struct rt_pg_options opts = {.durable = true};

    if (strcmp(w.journal, "postgres") == 0)
        rt_pg_start(&w.journal_postgres, &opts);
    else if (strcmp(w.journal, "mysql") == 0)
        rt_mariadb_start(&w.journal_mariadb, NULL);
    else if (strcmp(w.journal, "etcd") == 0)
        rt_etcds_start(&w.etcd, 1, NULL);
    else
        assert_string_equal(w.journal, "file");
}

void world_start(const char *journal)
{
    const struct rt_pg_options opts = {.extra = {"max_prepared_transactions=200"}};
    const struct rt_mariadb_options my_opts = {.extra = {"--max-connections=400"}};
    char url[400], path[400], *made;

    snprintf(w.journal, sizeof(w.journal), "%s", journal);
    rt_mariadb_start(&w.mariadb, &my_opts);
    rt_pg_start(&w.postgres, &opts);
    start_journal();
    make_accounts();
    snprintf(path, sizeof(path), "%s/book", rt_tmpdir());
    set("BANK_BOOK", path);
    snprintf(path, sizeof(path), "%s/log", rt_tmpdir());
    set("BANK_LOG", path);
    snprintf(path, sizeof(path), "%s/seen", rt_tmpdir());
    set("ROTA_POINTS_SEEN", path);
    my_url(url, sizeof(url), &w.mariadb, RT_MARIADB_DATABASE);
    set("BANK_TILL", url);
    my_url(url, sizeof(url), &w.mariadb, "safe");
    set("BANK_SAFE", url);
    made = rt_pg_url(&w.postgres, 0);
    set("BANK_VAULT", made);
    free(made);
    set("BANK_MY_PASSWORD", RT_MARIADB_PASSWORD);
    unsetenv("ROTA_POINT");
}

void world_end(void)
{
    rt_mariadb_fini(&w.mariadb);
    rt_mariadb_fini(&w.journal_mariadb);
    rt_pg_fini(&w.postgres);
    rt_pg_fini(&w.journal_postgres);
    rt_etcds_fini(&w.etcd);
}

const char *world_journal(void)
{
    return w.journal;
}

bool world_has(enum victim v)
{
    return v != JOURNAL || strcmp(w.journal, "file") != 0;
}

void world_kill(enum victim v)
{
    assert_true(world_has(v));
    if (v == MARIADB)
        rt_mariadb_kill(&w.mariadb);
    else if (v == POSTGRES)
        rt_pg_kill(&w.postgres);
    else if (strcmp(w.journal, "postgres") == 0)
        rt_pg_kill(&w.journal_postgres);
    else if (strcmp(w.journal, "mysql") == 0)
        rt_mariadb_kill(&w.journal_mariadb);
    else
        rt_server_kill(&w.etcd.node[0].server);
}

void world_run(enum victim v)
{
    if (v == MARIADB)
        rt_mariadb_run(&w.mariadb);
    else if (v == POSTGRES)
        rt_pg_run(&w.postgres);
    else if (strcmp(w.journal, "postgres") == 0)
        rt_pg_run(&w.journal_postgres);
    else if (strcmp(w.journal, "mysql") == 0)
        rt_mariadb_run(&w.journal_mariadb);
    else
        rt_etcds_run(&w.etcd, 0);
}

uint16_t world_port(enum victim v)
{
    return v == MARIADB ? w.mariadb.server.port : w.postgres.server.port;
}

void world_through(enum victim v, uint16_t port)
{
    w.through[v] = port;
}

void world_call(uint32_t ms)
{
    w.call_ms = ms;
}

void world_keep(uint32_t ms)
{
    w.keep_ms = ms;
}

void world_timeout(uint32_t ms)
{
    w.timeout_ms = ms;
}

/* ---- Houses ------------------------------------------------------------------------------ */

static void make_url(char *out, size_t size, int house)
{
    if (strcmp(w.journal, "postgres") == 0) {
        rt_pg_do(&w.journal_postgres, "CREATE DATABASE house%d", house);
        snprintf(out, size, "postgres://postgres@127.0.0.1:%u/house%d",
                 (unsigned)w.journal_postgres.server.port, house);
    } else if (strcmp(w.journal, "mysql") == 0) {
        char database[32];
        snprintf(database, sizeof(database), "house%d", house);
        rt_mariadb_do(&w.journal_mariadb, "CREATE DATABASE %s", database);
        rt_mariadb_do(&w.journal_mariadb, "GRANT ALL ON %s.* TO rota@'%%'", database);
        my_url(out, size, &w.journal_mariadb, database);
    } else if (strcmp(w.journal, "etcd") == 0) {
        snprintf(out, size, "etcd://127.0.0.1:%u?prefix=house%d-",
                 (unsigned)w.etcd.node[0].server.port, house);
    } else {
        snprintf(out, size, "file:%s/house%d", rt_memdir(), house);
    }
}

static int house_open(int house, const char *url)
{
    struct clerk c;

    snprintf(w.house[house].url, sizeof(w.house[house].url), "%s", url);
    clerk_start(&c, url);
    w.house[house].number = c.number;
    clerk_close(&c);
    return house;
}

int house_new_at(const char *url)
{
    assert_true(w.houses + w.others < HOUSES_MOST);
    return house_open(HOUSES_MOST - ++w.others, url);
}

int house_new(void)
{
    char url[400];

    if (w.used == w.houses) {
        assert_true(w.houses + w.others < HOUSES_MOST);
        make_url(url, sizeof(url), w.houses);
        (void)house_open(w.houses++, url);
    }
    return w.used++;
}

void houses_reuse(void)
{
    w.used = 0;
}

int houses(void)
{
    return w.used;
}

const char *house_url(int house)
{
    return w.house[house].url;
}

unsigned house_prepared(int house, enum place place)
{
    char begins[16];
    unsigned n = 0;

    if (place == VAULT)
        return (unsigned)rt_pg_number(
            &w.postgres, "SELECT COUNT(*) FROM pg_prepared_xacts WHERE gid LIKE 'rota1-%08x%%'",
            (unsigned)w.house[house].number);
    snprintf(begins, sizeof(begins), "\t'%08x", (unsigned)w.house[house].number);
    for (const char *said = rt_mariadb_ask(&w.mariadb, "XA RECOVER FORMAT = 'SQL'");
         (said = strstr(said, begins)) != NULL; said++)
        n++;
    return n;
}

long house_marks(int house)
{
    unsigned number = (unsigned)w.house[house].number;
    long n = (long)rt_pg_number(
        &w.postgres, "SELECT COUNT(*) FROM rota_mark WHERE encode(id, 'hex') LIKE '%08x%%'",
        number);

    n += atol(rt_mariadb_ask(&w.mariadb,
                             "SELECT COUNT(*) FROM " RT_MARIADB_DATABASE
                             ".rota_mark WHERE HEX(id) LIKE '%08x%%'",
                             number));
    return n + atol(rt_mariadb_ask(
                   &w.mariadb, "SELECT COUNT(*) FROM safe.rota_mark WHERE HEX(id) LIKE '%08x%%'",
                   number));
}

static size_t house_undone(int house)
{
    static struct page page;
    struct clerk c;

    clerk_start(&c, w.house[house].url);
    page.count = 0;
    clerk_scan(&c, 0, RT_TXN_BIRTH_MAX, RT_JOURNAL_PAGE_MAX, &page);
    clerk_close(&c);
    return page.count;
}

void house_ages(int house)
{
    struct clerk c;

    clerk_start(&c, w.house[house].url);
    struct rt_txn_id id = clerk_id(&c);
    assert_int_equal(clerk_decide(&c, id, RT_JOURNAL_ABORT), RT_JOURNAL_ABORT);
    clerk_finish(&c, id);
    clerk_close(&c);
}

bool house_is_free(int house)
{
    struct rt_journal_op who = {.kind = RT_JOURNAL_IDENTIFY}, op = {.kind = RT_JOURNAL_DECIDE};
    struct clerk c;

    if (clerk_open(&c, w.house[house].url) != 0)
        return false;
    bool is = clerk_do(&c, &who) == 0;
    c.number = w.house[house].number;
    c.now_ms = who.identify.now_ms;
    op.decide.id = clerk_id(&c);
    op.decide.decision = RT_JOURNAL_ABORT;
    is = is && clerk_do(&c, &op) == 0;
    if (is)
        clerk_finish(&c, op.decide.id);
    clerk_close(&c);
    return is;
}

bool house_clean(int house, char *why, size_t size)
{
    unsigned my = house_prepared(house, TILL), pg = house_prepared(house, VAULT);
    size_t undone = house_undone(house);

    if (why != NULL)
        snprintf(why, size, "house %d: %u prepared at MariaDB, %u at PostgreSQL, %zu undone", house,
                 my, pg, undone);
    return my == 0 && pg == 0 && undone == 0;
}

int house_stands(int house, const char *id)
{
    struct clerk c;
    struct rt_txn_id parsed;
    char digits[RT_TXN_ID_TEXT];

    snprintf(digits, sizeof(digits), "%s", id); /* what rota_txn_id says has more after it */
    assert_true(rt_txn_id_read(digits, &parsed));
    clerk_start(&c, w.house[house].url);
    struct seen seen = clerk_read(&c, parsed);
    clerk_close(&c);
    return (int)seen.stands;
}

/* ---- What is at the databases (check.c) ----------------------------------------------------- */

long long world_sum(void);
void world_moved(unsigned char *at, size_t count);
bool world_prepared_nothing(void);

long long world_sum(void)
{
    long long sum = rt_pg_number(&w.postgres, "SELECT SUM(balance) FROM account");

    sum += atoll(
        rt_mariadb_ask(&w.mariadb, "SELECT SUM(balance) FROM " RT_MARIADB_DATABASE ".account"));
    return sum + atoll(rt_mariadb_ask(&w.mariadb, "SELECT SUM(balance) FROM safe.account"));
}

static void mark(unsigned char *at, size_t count, const char *said, enum place place)
{
    char *end;

    for (long tid; *said != '\0'; said = end + (*end == '\n' || *end == ',')) {
        tid = strtol(said, &end, 10);
        assert_true(end != said && tid >= 0 && (size_t)tid < count);
        at[tid] = (unsigned char)(at[tid] | 1u << place);
    }
}

void world_moved(unsigned char *at, size_t count)
{
    memset(at, 0, count);
    mark(at, count, rt_mariadb_ask(&w.mariadb, "SELECT tid FROM " RT_MARIADB_DATABASE ".moved"),
         TILL);
    mark(at, count, rt_mariadb_ask(&w.mariadb, "SELECT tid FROM safe.moved"), SAFE);
    mark(at, count, rt_pg_do(&w.postgres, "SELECT string_agg(tid::text, ',') FROM moved"), VAULT);
}

bool world_prepared_nothing(void)
{
    return rt_pg_number(&w.postgres, "SELECT COUNT(*) FROM pg_prepared_xacts") == 0 &&
           rt_mariadb_ask(&w.mariadb, "XA RECOVER")[0] == '\0';
}

/* ---- Hands ------------------------------------------------------------------------------------ */

struct start { /* of a role */
    int house;
    const char *words[6];
    const char *point;
    int in, out; /* -1: none */
};

static int become(int index, void *arg)
{
    const struct start *s = arg;
    char *words[7] = {NULL};

    (void)index;
    set("BANK_JOURNAL", w.house[s->house].url);
    set_number("BANK_HOUSE", s->house);
    set_number("BANK_MY_PORT", w.through[MARIADB] != 0 ? w.through[MARIADB] : world_port(MARIADB));
    set_number("BANK_PG_PORT",
               w.through[POSTGRES] != 0 ? w.through[POSTGRES] : world_port(POSTGRES));
    set_number("BANK_TIMEOUT_MS", (long)w.timeout_ms);
    set_number("BANK_CALL_MS", (long)w.call_ms);
    set_number("BANK_KEEP_MS", (long)w.keep_ms);
    set_number("BANK_IN", s->in);
    set_number("BANK_OUT", s->out);
    if (s->point != NULL)
        set("ROTA_POINT", s->point);
    words[0] = strdup("bank");
    for (size_t i = 0; i < 6 && s->words[i] != NULL; i++)
        words[i + 1] = strdup(s->words[i]);
    execv("/proc/self/exe", words);
    return 125;
}

static void note_alive(pid_t was, pid_t is)
{
    for (size_t i = 0; i < HANDS_MOST; i++)
        if (w.alive[i] == was) {
            w.alive[i] = is;
            return;
        }
    abort();
}

void hands_end(void)
{
    for (size_t i = 0; i < HANDS_MOST; i++)
        if (w.alive[i] != 0) {
            rt_proc_kill(w.alive[i]);
            w.alive[i] = 0;
        }
}

static struct hand hand_start(const struct start *s)
{
    struct start copy = *s;
    struct hand h = {.pid = rt_proc_start(become, 0, &copy)};

    note_alive(0, h.pid);

    snprintf(h.what, sizeof(h.what), "%s %s %s in house %d, point %s", s->words[0],
             s->words[1] != NULL ? s->words[1] : "", s->words[2] != NULL ? s->words[2] : "",
             s->house, s->point != NULL ? s->point : "none");
    return h;
}

struct hand teller_start(int house, const char *shape, long tid, long count, const char *point)
{
    char number[24], times[24];

    snprintf(number, sizeof(number), "%ld", tid);
    snprintf(times, sizeof(times), "%ld", count);
    const struct start s = {.house = house,
                            .words = {"teller", shape, number, times},
                            .point = point,
                            .in = -1,
                            .out = -1};
    return hand_start(&s);
}

void joined_start(int house, long tid, const char *teller_point, const char *joiner_point,
                  struct hand *teller, struct hand *joiner)
{
    int there[2], back[2];
    char number[24];

    if (pipe(there) != 0 || pipe(back) != 0)
        abort();
    snprintf(number, sizeof(number), "%ld", tid);
    struct start s = {.house = house, .words = {"joiner", number}, .point = joiner_point};
    s.in = there[0];
    s.out = back[1];
    /* Each must notice when the other ends, so nobody else may hold the pipes' ends. */
    for (int i = 0; i < 2; i++) {
        (void)fcntl(there[i], F_SETFD, FD_CLOEXEC);
        (void)fcntl(back[i], F_SETFD, FD_CLOEXEC);
    }
    (void)fcntl(there[0], F_SETFD, 0);
    (void)fcntl(back[1], F_SETFD, 0);
    *joiner = hand_start(&s);
    close(there[0]);
    close(back[1]);
    const struct start t = {.house = house,
                            .words = {"teller", "join", number, "1"},
                            .point = teller_point,
                            .in = back[0],
                            .out = there[1]};
    (void)fcntl(there[1], F_SETFD, 0);
    (void)fcntl(back[0], F_SETFD, 0);
    *teller = hand_start(&t);
    close(there[1]);
    close(back[0]);
}

struct hand recoverer_start(int house, const char *point)
{
    const struct start s = {
        .house = house, .words = {"recover"}, .point = point, .in = -1, .out = -1};
    return hand_start(&s);
}

/* True: it has ended, or is stopped. */
static bool look(struct hand *h, bool *stopped)
{
    int status = 0;

    *stopped = false;
    if (h->pid == 0)
        return true;
    pid_t pid = waitpid(h->pid, &status, WNOHANG | WUNTRACED);
    assert_true(pid >= 0);
    if (pid == 0)
        return false;
    *stopped = WIFSTOPPED(status);
    if (!*stopped) {
        note_alive(h->pid, 0);
        h->pid = 0;
        h->code = WIFSIGNALED(status) ? RT_PROC_SIGNALED + WTERMSIG(status) : WEXITSTATUS(status);
    }
    return true;
}

bool hand_wait_stopped_or_ended(struct hand *h)
{
    int64_t limit = now_ms() + LIMIT_MS;
    bool stopped;

    while (!look(h, &stopped)) {
        if (now_ms() > limit)
            fail_msg("hangs: %s", h->what);
        poll(NULL, 0, 2);
    }
    return stopped;
}

bool hand_has_ended(struct hand *h)
{
    bool stopped;

    return look(h, &stopped) && !stopped;
}

int hand_wait(struct hand *h)
{
    if (hand_wait_stopped_or_ended(h))
        fail_msg("stopped, and was not to: %s", h->what);
    return h->code;
}

void hand_wait_killed(struct hand *h)
{
    if (hand_wait(h) != RT_PROC_SIGNALED + SIGKILL)
        fail_msg("did not come by its crash point (code %d): %s", h->code, h->what);
}

void hand_wait_stopped(struct hand *h)
{
    if (!hand_wait_stopped_or_ended(h))
        fail_msg("did not come by its crash point (code %d): %s", h->code, h->what);
}

void hand_cont(struct hand *h)
{
    assert_int_equal(kill(h->pid, SIGCONT), 0);
}

void hand_kill(struct hand *h)
{
    if (h->pid == 0)
        return;
    (void)kill(h->pid, SIGKILL);
    (void)hand_wait(h);
}

void hand_send_away(struct hand *h)
{
    assert_int_equal(kill(h->pid, SIGTERM), 0);
}

void hand_leave(struct hand *h)
{
    hand_send_away(h);
    if (hand_wait(h) != 0)
        fail_msg("did not end in order (code %d): %s", h->code, h->what);
}
