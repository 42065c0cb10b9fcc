/* SPDX-License-Identifier: Apache-2.0 */
/* One mariadbd: its folder, its life, SQL to it. */
#include "mysql_server.h"

#include "proc.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define ANSWER_WITHIN_MS 60000
#define DONE "rota-said-all"

static void die(const struct rt_mariadb *m, const char *what, const char *why)
{
    fprintf(stderr, "mariadb at port %u: %s: %s\n", m != NULL ? (unsigned)m->server.port : 0, what,
            why);
    exit(1);
}

/* ---- Clients ---------------------------------------------------------------------------------------------------- */

static void become_client(const struct rt_mariadb *m, int in, int out)
{
    char socket[320];
    snprintf(socket, sizeof(socket), "--socket=%s", m->socket);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    unsetenv("MYSQL_PWD"); /* of the test's user */
    if (dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0)
        _exit(126);
    execlp("mariadb", "mariadb", "--no-defaults", socket, "--user=root", "--batch",
           "--skip-column-names", "--unbuffered", "--force", "--connect-timeout=20", NULL);
    _exit(127);
}

void rt_mariadb_client(struct rt_mariadb *m, struct rt_mariadb_client *c)
{
    int in[2], out[2];
    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0)
        die(m, "pipe", strerror(errno));
    *c = (struct rt_mariadb_client){.in = in[1], .out = out[0]};
    c->pid = fork();
    if (c->pid < 0)
        die(m, "fork", strerror(errno));
    if (c->pid == 0)
        become_client(m, in[0], out[1]);
    close(in[0]);
    close(out[1]);
}

/* Everything before a line DONE; NULL: the client has ended. */
static const char *hear_all(struct rt_mariadb_client *c)
{
    size_t used = 0;
    for (;;) {
        if (c->size - used < 2) {
            c->size = c->size != 0 ? 2 * c->size : 4096;
            c->said = realloc(c->said, c->size);
            if (c->said == NULL)
                die(NULL, "realloc", "no memory");
        }
        ssize_t n = read(c->out, c->said + used, c->size - used - 1);
        if (n <= 0)
            return NULL;
        used += (size_t)n;
        c->said[used] = '\0';
        if (used >= sizeof(DONE) && strcmp(c->said + used - sizeof(DONE), DONE "\n") == 0)
            break;
    }
    used -= sizeof(DONE);
    if (used > 0 && c->said[used - 1] == '\n')
        used--;
    c->said[used] = '\0';
    return c->said;
}

const char *rt_mariadb_client_ask(struct rt_mariadb_client *c, const char *sql)
{
    if (dprintf(c->in, "%s;\nSELECT '" DONE "';\n", sql) < 0)
        return NULL;
    return hear_all(c);
}

void rt_mariadb_client_close(struct rt_mariadb_client *c)
{
    if (c->pid == 0)
        return;
    close(c->in);
    kill(c->pid, SIGKILL);
    waitpid(c->pid, NULL, 0);
    close(c->out);
    free(c->said);
    *c = (struct rt_mariadb_client){0};
}

__attribute__((format(printf, 2, 0))) static const char *ask(struct rt_mariadb *m, const char *sql,
                                                             va_list args)
{
    char *text;
    if (vasprintf(&text, sql, args) < 0)
        die(m, "vasprintf", "no memory");
    if (m->admin.pid == 0)
        rt_mariadb_client(m, &m->admin);
    const char *said = rt_mariadb_client_ask(&m->admin, text);
    free(text);
    return said != NULL ? said : "ERROR: the client has ended";
}

const char *rt_mariadb_ask(struct rt_mariadb *m, const char *sql, ...)
{
    va_list args;
    va_start(args, sql);
    const char *said = ask(m, sql, args);
    va_end(args);
    return said;
}

void rt_mariadb_do(struct rt_mariadb *m, const char *sql, ...)
{
    va_list args;
    va_start(args, sql);
    const char *said = ask(m, sql, args);
    va_end(args);
    if (strstr(said, "ERROR") != NULL)
        die(m, sql, said);
}

/* ---- The server --------------------------------------------------------------------------------------------------- */

static void install(struct rt_mariadb *m)
{
    char data[300], log[300], tmp[300];
    int status;
    snprintf(data, sizeof(data), "--datadir=%s/data", m->server.dir);
    snprintf(log, sizeof(log), "%s/install.log", m->server.dir);
    snprintf(tmp, sizeof(tmp), "--tmpdir=%s",
             m->server.dir); /* a starting server empties it of its own kind of files */
    pid_t pid = fork();
    if (pid == 0) {
        int fd = open(log, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (fd >= 0 && dup2(fd, 1) >= 0 && dup2(fd, 2) >= 0)
            execlp("mariadb-install-db", "mariadb-install-db", "--no-defaults", data, tmp,
                   "--skip-test-db", "--auth-root-authentication-method=normal",
                   "--innodb-log-file-size=4M",
                   getuid() == 0 ? "--user=root" : "--skip-name-resolve", NULL);
        _exit(127);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
        die(m, "mariadb-install-db", log);
}

static void write_password(struct rt_mariadb *m, const char *password)
{
    snprintf(m->password_file, sizeof(m->password_file), "%s/password", m->server.dir);
    int fd = open(m->password_file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || dprintf(fd, "%s\n", password) < 0)
        die(m, m->password_file, strerror(errno));
    close(fd);
}

static void tls_args(struct rt_mariadb *m, const struct rt_mariadb_options *o)
{
    rt_certs_make(&m->certs, m->server.dir);
    rt_server_arg(&m->server, "--ssl-cert=%s", o->cert != NULL ? o->cert : m->certs.server_cert);
    rt_server_arg(&m->server, "--ssl-key=%s", o->key != NULL ? o->key : m->certs.server_key);
    rt_server_arg(&m->server, "--ssl-ca=%s", m->certs.ca);
    rt_server_arg(&m->server, "--require-secure-transport");
}

static void server_args(struct rt_mariadb *m, const struct rt_mariadb_options *o)
{
    struct rt_server *s = &m->server;
    rt_server_arg(s, "--no-defaults");
    if (getuid() == 0)
        rt_server_arg(s, "--user=root");
    rt_server_arg(s, "--datadir=%s/data", s->dir);
    rt_server_arg(s, "--tmpdir=%s", s->dir);
    rt_server_arg(s, "--socket=%s", m->socket);
    rt_server_arg(s, "--pid-file=%s/pid", s->dir);
    rt_server_arg(s, "--bind-address=127.0.0.1");
    rt_server_arg(s, "--port=%u", (unsigned)s->port);
    rt_server_arg(s, "--skip-name-resolve");
    rt_server_arg(s, "--max-connections=1000");
    rt_server_arg(s, "--innodb-log-file-size=4M");
    rt_server_arg(s, "--innodb-buffer-pool-size=16M");
    rt_server_arg(s, "--aria-pagecache-buffer-size=1M");
    rt_server_arg(s, "--key-buffer-size=64K");
    rt_server_arg(s, "--innodb-deadlock-report=basic");
    rt_server_arg(s, "--server-id=%u", (unsigned)s->port);
    if (o->log)
        rt_server_arg(s, "--log-bin=log");
    if (o->primary != NULL)
        rt_server_arg(s, "--read-only");
    if (o->tls)
        tls_args(m, o);
    for (size_t i = 0; i < sizeof(o->extra) / sizeof(o->extra[0]) && o->extra[i] != NULL; i++)
        rt_server_arg(s, "%s", o->extra[i]);
}

static bool answers(struct rt_server *s, void *arg)
{
    struct rt_mariadb *m = arg;
    (void)s;
    if (access(m->socket, F_OK) != 0)
        return false;
    bool ready = strcmp(rt_mariadb_ask(m, "SELECT 1"), "1") == 0;
    if (!ready)
        rt_mariadb_client_close(&m->admin);
    return ready;
}

void rt_mariadb_run(struct rt_mariadb *m)
{
    unlink(m->socket);
    rt_server_start(&m->server);
    rt_server_await(&m->server, answers, m, ANSWER_WITHIN_MS);
}

static void make_user(struct rt_mariadb *m, const struct rt_mariadb_options *o,
                      const char *password)
{
    rt_mariadb_do(m, "CREATE DATABASE %s", RT_MARIADB_DATABASE);
    rt_mariadb_do(m, "CREATE USER rota@'%%' IDENTIFIED BY '%s' %s", password,
                  o->tls_clients ? "REQUIRE X509" : "");
    rt_mariadb_do(m, "GRANT %s ON %s.* TO rota@'%%'",
                  o->ddl != NULL ? "SELECT,INSERT,UPDATE,DELETE" : "ALL", RT_MARIADB_DATABASE);
    rt_mariadb_do(m, "USE %s", RT_MARIADB_DATABASE);
    if (o->ddl != NULL)
        rt_mariadb_do(m, "%s", o->ddl);
}

static bool follows(void *arg)
{
    struct rt_mariadb *m = arg;
    return strcmp(rt_mariadb_ask(
                      m, "SELECT COUNT(*) FROM information_schema.SCHEMATA WHERE SCHEMA_NAME='%s'",
                      RT_MARIADB_DATABASE),
                  "1") == 0;
}

/* From the beginning of the primary's log: the database and the user, too. */
static void follow(struct rt_mariadb *m, struct rt_mariadb *primary)
{
    rt_mariadb_do(
        primary, "CREATE USER IF NOT EXISTS follower@'%%' IDENTIFIED BY '" RT_MARIADB_PASSWORD "'");
    rt_mariadb_do(primary, "GRANT REPLICATION SLAVE ON *.* TO follower@'%%'");
    rt_mariadb_do(m,
                  "CHANGE MASTER TO MASTER_HOST='127.0.0.1',MASTER_PORT=%u,MASTER_USER='follower',"
                  "MASTER_PASSWORD='" RT_MARIADB_PASSWORD
                  "',MASTER_CONNECT_RETRY=1,MASTER_USE_GTID=slave_pos",
                  (unsigned)primary->server.port);
    rt_mariadb_do(m, "START SLAVE");
    if (!rt_await(follows, m, ANSWER_WITHIN_MS))
        die(m, "replica", rt_mariadb_ask(m, "SHOW SLAVE STATUS"));
    rt_mariadb_do(m, "USE %s", RT_MARIADB_DATABASE);
}

void rt_mariadb_start(struct rt_mariadb *m, const struct rt_mariadb_options *opts)
{
    static const struct rt_mariadb_options none;
    const struct rt_mariadb_options *o = opts != NULL ? opts : &none;
    const char *password = o->password != NULL ? o->password : RT_MARIADB_PASSWORD;
    memset(m, 0, sizeof(*m));
    rt_server_init_in(&m->server, o->on_disk ? rt_tmpdir() : rt_memdir(), "mariadb", "mariadbd");
    m->tls = o->tls;
    m->tls_clients = o->tls_clients;
    if (snprintf(m->socket, sizeof(m->socket), "%s/sock", m->server.dir) >= 108)
        die(m, m->socket, "path too long for a unix socket");
    write_password(m, password);
    install(m);
    server_args(m, o);
    rt_mariadb_run(m);
    if (o->primary != NULL)
        follow(m, o->primary);
    else
        make_user(m, o, password);
}

void rt_mariadb_kill(struct rt_mariadb *m)
{
    rt_server_kill(&m->server);
    rt_mariadb_client_close(&m->admin);
}

void rt_mariadb_fini(struct rt_mariadb *m)
{
    if (m->server.argc == 0)
        return;
    rt_mariadb_client_close(&m->admin);
    rt_server_fini(&m->server);
}

/* ---- URLs ------------------------------------------------------------------------------------------------------------ */

char *rt_mariadb_url(const struct rt_mariadb *m, uint16_t port)
{
    char *url = NULL;
    int rv = asprintf(&url, "%s://rota@%s:%u/%s?password_file=%s%s%s%s%s%s%s",
                      m->tls ? "mysqls" : "mysql", m->tls ? "localhost" : "127.0.0.1",
                      (unsigned)(port != 0 ? port : m->server.port), RT_MARIADB_DATABASE,
                      m->password_file, m->tls ? "&ca=" : "", m->tls ? m->certs.ca : "",
                      m->tls_clients ? "&cert=" : "", m->tls_clients ? m->certs.client_cert : "",
                      m->tls_clients ? "&key=" : "", m->tls_clients ? m->certs.client_key : "");
    if (rv < 0)
        die(m, "asprintf", "no memory");
    return url;
}

char *rt_mariadb_unix_url(const struct rt_mariadb *m, const char *path)
{
    char *url = NULL;
    if (asprintf(&url, "mysql+unix:%s?user=rota&database=%s&password_file=%s",
                 path != NULL ? path : m->socket, RT_MARIADB_DATABASE, m->password_file) < 0)
        die(m, "asprintf", "no memory");
    return url;
}
