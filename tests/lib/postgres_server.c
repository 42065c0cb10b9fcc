/* SPDX-License-Identifier: Apache-2.0 */
/* Real PostgreSQL for tests. */
#include "postgres_server.h"

#include "proc.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define READY_MS 60000
#define USER "postgres" /* of the system, if we are root */

static void die(const char *what)
{
    fprintf(stderr, "postgres_server: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* ---- Folders and commands ----------------------------------------------------------------- */

static const struct passwd *runner(void)
{
    if (getuid() != 0)
        return NULL;
    const struct passwd *pw = getpwnam(USER);
    if (pw == NULL)
        die("no user " USER);
    return pw;
}

/* Runs it to its end, as the server's user if AS_USER; ends the test unless it succeeds. */
static void run(bool as_user, const char *const *args)
{
    const struct passwd *pw = as_user ? runner() : NULL;
    char *const *argv;
    int status;
    memcpy(&argv, &args, sizeof(argv));
    pid_t pid = fork();
    if (pid == 0) {
        if (pw == NULL || (initgroups(pw->pw_name, pw->pw_gid) == 0 && setgid(pw->pw_gid) == 0 &&
                           setuid(pw->pw_uid) == 0))
            execvp(argv[0], argv);
        _exit(127);
    }
    if (pid < 0)
        die("fork");
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            die("waitpid");
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return;
    errno = 0;
    die(args[0]);
}
#define RUN(as_user, ...) run(as_user, (const char *const[]){__VA_ARGS__, NULL})

static void own(const char *path, mode_t mode)
{
    const struct passwd *pw = runner();
    if ((pw != NULL && chown(path, pw->pw_uid, pw->pw_gid) != 0) || chmod(path, mode) != 0)
        die(path);
}

static void write_file(const struct rt_pg *p, const char *name, mode_t mode, const char *text)
{
    char path[400];
    snprintf(path, sizeof(path), "%s/%s", p->server.dir, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
        die(path);
    close(fd);
    own(path, mode);
}

/* The keys of tests/lib/certs are root's; the server wants its own, and nobody else to read it. */
static void own_key(const struct rt_pg *p, const char *key)
{
    char copy[400];
    snprintf(copy, sizeof(copy), "%s/own.key", p->server.dir);
    RUN(false, "cp", key, copy);
    own(copy, 0600);
}

/* ---- Starting -------------------------------------------------------------------------------- */

static void put_args(struct rt_pg *p, const struct rt_pg_options *opts)
{
    struct rt_server *s = &p->server;
    rt_server_arg(s, "%s/postgres", ROTA_TEST_PG_BIN);
    rt_server_arg(s, "-D%s/data", s->dir);
    rt_server_arg(s, "-p%u", (unsigned)s->port);
    rt_server_arg(s, "--unix_socket_directories=%s", s->dir);
    rt_server_arg(s, "--listen_addresses=127.0.0.1");
    rt_server_arg(s, "--hba_file=%s/hba", s->dir);
    rt_server_arg(s, "--max_connections=600");
    rt_server_arg(s, "--shared_buffers=16MB");
    rt_server_arg(s, "--max_wal_size=64MB");
    rt_server_arg(s, "--log_min_messages=warning");
    if (!opts->durable) {
        rt_server_arg(s, "--fsync=off");
        rt_server_arg(s, "--full_page_writes=off");
    }
    if (opts->tls) {
        rt_server_arg(s, "--ssl=on");
        rt_server_arg(s, "--ssl_cert_file=%s",
                      opts->cert != NULL ? opts->cert : p->certs.server_cert);
        rt_server_arg(s, "--ssl_key_file=%s/own.key", s->dir);
        rt_server_arg(s, "--ssl_ca_file=%s", p->certs.ca);
    }
    for (size_t i = 0; i < sizeof(opts->extra) / sizeof(opts->extra[0]); i++)
        if (opts->extra[i] != NULL)
            rt_server_arg(s, "--%s", opts->extra[i]);
}

/* Its folder, its sockets' folder, and who may connect. */
static void init(struct rt_pg *p, const struct rt_pg_options *opts)
{
    const char *base = opts->durable ? rt_tmpdir() : rt_memdir();
    const char *type = opts->tls ? "hostssl" : "host";
    char hba[1024], data[400];

    memset(p, 0, sizeof(*p));
    p->tls = opts->tls;
    p->tls_clients = opts->tls_clients;
    p->user = opts->user;
    if (getuid() ==
        0) { /* changing its user, it is no longer told of our death, unless it asks anew */
        rt_server_init_in(&p->server, base, "postgres", "setpriv");
        rt_server_arg(&p->server, "--reuid=" USER);
        rt_server_arg(&p->server, "--regid=" USER);
        rt_server_arg(&p->server, "--init-groups");
        rt_server_arg(&p->server, "--pdeathsig=KILL");
    } else {
        rt_server_init_in(&p->server, base, "postgres", "env");
    }
    if (chmod(base, 0711) != 0)
        die(base);
    own(p->server.dir, 0755);
    if (opts->tls) {
        rt_certs_make(&p->certs, p->server.dir);
        own_key(p, opts->key != NULL ? opts->key : p->certs.server_key);
        own(opts->cert != NULL ? opts->cert : p->certs.server_cert, 0644);
        own(p->certs.ca, 0644);
    }
    snprintf(hba, sizeof(hba),
             "local all all trust\n"
             "local replication all trust\n"
             "host replication all 127.0.0.1/32 trust\n"
             "%s all rota 127.0.0.1/32 scram-sha-256%s\n"
             "%s all all 127.0.0.1/32 %s\n",
             type, opts->tls_clients ? " clientcert=verify-ca" : "", type,
             opts->tls_clients ? "trust clientcert=verify-ca" : "trust");
    write_file(p, "hba", 0644, hba);
    snprintf(data, sizeof(data), "%s/data", p->server.dir);
    if (mkdir(data, 0700) != 0)
        die(data);
    own(data, 0700);
    put_args(p, opts);
}

static PGconn *come(const struct rt_pg *p)
{
    char port[8];
    snprintf(port, sizeof(port), "%u", (unsigned)p->server.port);
    const char *keys[] = {"host", "port", "user", "dbname", "options", "connect_timeout", NULL};
    const char *values[] = {
        p->server.dir, port, "postgres", "postgres", "-c client_min_messages=error", "10", NULL};
    PGconn *pg = PQconnectdbParams(keys, values, 0);
    if (pg == NULL)
        die("libpq");
    if (PQstatus(pg) == CONNECTION_OK)
        return pg;
    PQfinish(pg);
    return NULL;
}

/* On both: if it cannot listen on its port, it goes on with its unix socket alone. */
static bool serves(struct rt_server *s, void *arg)
{
    struct rt_pg *p = arg;
    if (!rt_server_accepts(s, NULL))
        return false;
    p->admin = come(p);
    return p->admin != NULL;
}

/* Whether no process of an earlier server still has the memory they shared: its postmaster.pid says which. */
static bool is_alone(void *arg)
{
    const struct rt_pg *p = arg;
    struct shmid_ds shared;
    char path[400];
    int id = -1;
    snprintf(path, sizeof(path), "%s/data/postmaster.pid", p->server.dir);
    FILE *f = fopen(path, "re");
    if (f == NULL)
        return true;
    if (fscanf(f, "%*[^\n]\n%*[^\n]\n%*[^\n]\n%*[^\n]\n%*[^\n]\n%*[^\n]\n%*d %d", &id) != 1)
        id = -1;
    fclose(f);
    return id < 0 || shmctl(id, IPC_STAT, &shared) != 0 || shared.shm_nattch == 0;
}

void rt_pg_run(struct rt_pg *p)
{
    if (p->server.pid == 0) {
        if (!rt_await(is_alone, p, READY_MS)) /* it would not start */
            die("processes of an earlier server are left");
        rt_server_start(&p->server);
    }
    PQfinish(p->admin);
    p->admin = NULL;
    rt_server_await(&p->server, serves, p, READY_MS);
}

static void make_user(struct rt_pg *p)
{
    uint8_t bytes[16];
    char line[sizeof(p->password) + 2];
    if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
        die("getrandom");
    for (size_t i = 0; i < sizeof(bytes); i++)
        snprintf(p->password + 2 * i, 3, "%02x", bytes[i]);
    snprintf(p->password_file, sizeof(p->password_file), "%s/password", p->server.dir);
    snprintf(line, sizeof(line), "%s\n", p->password);
    write_file(p, "password", 0644, line);
    (void)rt_pg_do(p, "create user rota password '%s'; revoke create on schema public from public",
                   p->password);
}

void rt_pg_start(struct rt_pg *p, const struct rt_pg_options *opts)
{
    static const struct rt_pg_options none;
    char data[400];

    opts = opts != NULL ? opts : &none;
    init(p, opts);
    snprintf(data, sizeof(data), "%s/data", p->server.dir);
    RUN(false, "tar", "-C", data, "-xf", ROTA_TEST_PG_DATA);
    rt_pg_run(p);
    if (opts->user)
        make_user(p);
}

void rt_pg_start_standby(struct rt_pg *p, struct rt_pg *primary, const char *name)
{
    static const struct rt_pg_options none;
    char data[400], from[600], mark[420];

    init(p, &none);
    snprintf(data, sizeof(data), "%s/data", p->server.dir);
    snprintf(from, sizeof(from), "host=%s port=%u user=postgres application_name=%s",
             primary->server.dir, (unsigned)primary->server.port, name);
    RUN(true, ROTA_TEST_PG_BIN "/pg_basebackup", "-D", data, "-d", from, "-R", "-c", "fast", "-X",
        "stream");
    snprintf(mark, sizeof(mark), "%s/standby.signal", data);
    if (access(mark, F_OK) != 0)
        die(mark);
    rt_pg_run(p);
}

/* ---- Ending ---------------------------------------------------------------------------------- */

/* Also waits for its end: the next server refuses to start while one of them still has the memory they share. */
static void kill_child(pid_t pid)
{
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    struct pollfd end = {.fd = fd, .events = POLLIN};
    kill(pid, SIGKILL);
    while (fd >= 0 && poll(&end, 1, -1) < 0 && errno == EINTR)
        ;
    if (fd >= 0)
        close(fd);
}

/* Each backend is in a session of its own; all are children of the first process. */
static void kill_children(pid_t pid)
{
    char path[64], text[8192] = "";
    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    ssize_t n = read(fd, text, sizeof(text) - 1);
    close(fd);
    for (char *at = text; n > 0 && *at != '\0';) {
        long child = strtol(at, &at, 10);
        if (child > 1)
            kill_child((pid_t)child);
        at += strspn(at, " \n");
    }
}

/* Also if it has ended. */
static bool stands_still(void *arg)
{
    char path[64], text[256] = "";
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)*(pid_t *)arg);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return true;
    ssize_t n = read(fd, text, sizeof(text) - 1);
    close(fd);
    const char *state = n > 0 ? strrchr(text, ')') : NULL;
    return state == NULL || strchr("TtZX", state[2]) != NULL;
}

void rt_pg_kill(struct rt_pg *p)
{
    pid_t pid = p->server.pid;
    if (pid == 0)
        return;
    kill(pid, SIGSTOP); /* it must not start new ones for those we kill */
    if (!rt_await(stands_still, &pid, READY_MS))
        die("SIGSTOP");
    kill_children(pid);
    rt_server_kill(&p->server);
}

void rt_pg_fini(struct rt_pg *p)
{
    PQfinish(p->admin);
    rt_pg_kill(p);
    rt_server_fini(&p->server);
    memset(p, 0, sizeof(*p));
}

static bool is_primary(void *arg)
{
    return strcmp(rt_pg_do(arg, "select pg_is_in_recovery()"), "f") == 0;
}

void rt_pg_promote(struct rt_pg *p)
{
    (void)rt_pg_do(p, "select pg_promote(false)");
    if (!rt_await(is_primary, p, READY_MS))
        die("promote");
}

/* ---- Commands -------------------------------------------------------------------------------- */

/* The answer is complete, however long: whoever counts by it must not count too little. Valid until the next one. */
static const char *ask(struct rt_pg *p, const char *sql)
{
    static char *value;
    PGresult *r = PQexec(p->admin, sql);
    ExecStatusType status = PQresultStatus(r);

    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) {
        fprintf(stderr, "postgres_server: %s: %s\n", sql, PQerrorMessage(p->admin));
        exit(1);
    }
    free(value);
    value = strdup(PQntuples(r) > 0 ? PQgetvalue(r, 0, 0) : "");
    if (value == NULL)
        die("strdup");
    PQclear(r);
    return value;
}

static const char *ask_formatted(struct rt_pg *p, const char *format, va_list args)
{
    char *sql;
    if (vasprintf(&sql, format, args) < 0)
        die("vasprintf");
    const char *value = ask(p, sql);
    free(sql);
    return value;
}

const char *rt_pg_do(struct rt_pg *p, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const char *value = ask_formatted(p, format, args);
    va_end(args);
    return value;
}

long long rt_pg_number(struct rt_pg *p, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const char *value = ask_formatted(p, format, args);
    va_end(args);
    return strtoll(value, NULL, 10);
}

void rt_pg_make_tables(struct rt_pg *p, const char *ddl)
{
    (void)ask(p, ddl);
    if (p->user)
        (void)ask(
            p,
            "grant select, insert, update, delete on rota_meta, rota_session, rota_line, rota_ticket to rota");
}

/* ---- URLs ------------------------------------------------------------------------------------ */

static char *url_of(const struct rt_pg *p, const char *where, const char *more)
{
    char *url, certs[1000] = "";
    char mark = more[0] != '\0' ? '&' : '?';
    if (p->tls && p->tls_clients)
        snprintf(certs, sizeof(certs), "%cca=%s&cert=%s&key=%s", mark, p->certs.ca,
                 p->certs.client_cert, p->certs.client_key);
    else if (p->tls)
        snprintf(certs, sizeof(certs), "%cca=%s", mark, p->certs.ca);
    bool first = more[0] == '\0' && certs[0] == '\0';
    int n = asprintf(&url, "postgres://%s/postgres%s%s%s%s%s", where, more, certs,
                     p->user ? (first ? "?" : "&") : "", p->user ? "password_file=" : "",
                     p->user ? p->password_file : "");
    if (n < 0)
        die("asprintf");
    return url;
}

char *rt_pg_url(const struct rt_pg *p, uint16_t port)
{
    char where[100];
    snprintf(where, sizeof(where), "%s@%s:%u", p->user ? "rota" : "postgres",
             p->tls ? "localhost" : "127.0.0.1", (unsigned)(port != 0 ? port : p->server.port));
    return url_of(p, where, "");
}

char *rt_pg_unix_url(const struct rt_pg *p)
{
    char more[400];
    snprintf(more, sizeof(more), "?host=%s&port=%u", p->server.dir, (unsigned)p->server.port);
    return url_of(p, p->user ? "rota@" : "postgres@", more);
}
