/* SPDX-License-Identifier: Apache-2.0 */
/* The servers that a trap needs, started in a scratch folder on a unix socket or loopback; they
 * die with us. */
#include "cli/traps/house.h"

#include "cli/cli.h"
#include "cli/out.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <glob.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define START_TRIES 3000 /* looks at the socket, LOOK_NS apart: half a minute */
#define LOOK_NS 10000000

static const char *const folders[] = {"/usr/sbin", "/usr/local/sbin"};

/* Where PROGRAM is: in PATH, or in the server folders that users' PATHs leave out. False: nowhere. */
static bool find(const char *program, char *out, size_t size)
{
    const char *path = getenv("PATH");

    for (const char *p = path != NULL ? path : ""; *p != '\0';) {
        size_t n = strcspn(p, ":");
        snprintf(out, size, "%.*s/%s", (int)n, p, program);
        if (n > 0 && access(out, X_OK) == 0)
            return true;
        p += n + (p[n] == ':');
    }
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
        snprintf(out, size, "%s/%s", folders[i], program);
        if (access(out, X_OK) == 0)
            return true;
    }
    return false;
}

bool rt_house_has(const char *program)
{
    char path[4096];

    return find(program, path, sizeof(path));
}

/* ---- Starting ----------------------------------------------------------- */

static bool listens(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return false;
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    bool up = connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0;
    close(fd);
    return up;
}

static bool ended(const struct rt_seat *seat)
{
    siginfo_t info = {0};

    return waitid(P_PID, (id_t)seat->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == seat->pid;
}

/* Waits until SERVER answers at its socket. */
static bool is_up(const struct rt_house_server *server)
{
    for (int i = 0; i < START_TRIES; i++) {
        if (listens(server->socket))
            return true;
        if (ended(&server->seat))
            return false;
        if (nanosleep(&(struct timespec){0, LOOK_NS}, NULL) != 0)
            return false; /* a signal */
    }
    return false;
}

/* Reserves a port of loopback for SERVER until the house is closed. Our socket stays bound and does not listen, so with
 * SO_REUSEADDR on both sides the server can listen there, and the kernel gives the port to nobody else. */
static bool reserve_port(struct rt_house_server *server)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    int one = 1;

    if (server->port != 0)
        return true;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) != 0 ||
        bind(fd, (struct sockaddr *)&address, size) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &size) != 0) {
        rt_out_error("no free port on 127.0.0.1: %s", strerror(errno));
        if (fd >= 0)
            close(fd);
        return false;
    }
    server->port = ntohs(address.sin_port);
    server->reserved = fd;
    return true;
}

static int start(struct rt_house_server *server, const char *program, char **argv)
{
    char path[4096];

    if (!find(program, path, sizeof(path))) {
        rt_out_error("%s is not installed", program);
        return RT_EXIT_UNREACHABLE;
    }
    argv[0] = path;
    int err = rt_seat_open(&server->seat, argv, NULL, NULL);
    if (err == 0 && is_up(server))
        return RT_EXIT_OK;
    if (err == 0)
        rt_out_error("%s does not start", program);
    else
        rt_out_error("%s cannot be run: %s", program, strerror(err));
    rt_seat_close(&server->seat);
    return RT_EXIT_UNREACHABLE;
}

/* The socket's path in SERVER. */
static int name_socket(const struct rt_house *house, struct rt_house_server *server,
                       const char *name)
{
    int n = snprintf(server->socket, sizeof(server->socket), "%s/%s", house->folder, name);

    if (n < (int)sizeof(server->socket))
        return RT_EXIT_OK;
    rt_out_error("TMPDIR is too long for a unix socket in it");
    return RT_EXIT_USAGE;
}

int rt_house_redis(struct rt_house *house, unsigned i, bool port)
{
    struct rt_house_server *server = &house->redis[i];
    char name[16], number[8];

    assert(i < RT_HOUSE_REDIS);
    if (server->seat.pid != 0)
        return RT_EXIT_OK;
    snprintf(name, sizeof(name), "redis%u", i);
    int code = name_socket(house, server, name);
    if (code != RT_EXIT_OK)
        return code;
    unlink(server->socket);
    if (port && !reserve_port(server))
        return RT_EXIT_UNREACHABLE;
    snprintf(number, sizeof(number), "%u", port ? (unsigned)server->port : 0U);
    char *argv[] = {NULL,
                    "--port",
                    number,
                    "--bind",
                    "127.0.0.1",
                    "--unixsocket",
                    server->socket,
                    "--save",
                    "",
                    "--appendonly",
                    "no",
                    "--dir",
                    house->folder,
                    "--logfile",
                    "/dev/null",
                    "--repl-diskless-sync-delay",
                    "0",
                    NULL};
    return start(server, "redis-server", argv);
}

static int make_tables(struct rt_house *house)
{
    char data[4096], program[4096];
    struct rt_seat seat = {0};

    if (house->made)
        return RT_EXIT_OK;
    snprintf(data, sizeof(data), "--datadir=%s/mariadb", house->folder);
    if (!find("mariadb-install-db", program, sizeof(program))) {
        rt_out_error("mariadb-install-db is not installed");
        return RT_EXIT_UNREACHABLE;
    }
    char *argv[] = {program,
                    "--no-defaults",
                    data,
                    "--auth-root-authentication-method=normal",
                    "--skip-test-db",
                    geteuid() == 0 ? "--user=root" : "--skip-name-resolve",
                    NULL};
    int err = rt_seat_open(&seat, argv, NULL, NULL);
    if (err == 0 && rt_seat_wait(&seat) == 0) {
        house->made = true;
        return RT_EXIT_OK;
    }
    rt_out_error("mariadb-install-db failed in %s", house->folder);
    return RT_EXIT_UNREACHABLE;
}

int rt_house_mariadb(struct rt_house *house)
{
    struct rt_house_server *server = &house->mariadb;
    char data[4096], socket_option[RT_HOUSE_PATH + 16], pid[4096], log[4096];

    if (server->seat.pid != 0)
        return RT_EXIT_OK;
    int code = name_socket(house, server, "mariadb.sock");
    if (code == RT_EXIT_OK)
        code = make_tables(house);
    if (code != RT_EXIT_OK)
        return code;
    snprintf(data, sizeof(data), "--datadir=%s/mariadb", house->folder);
    snprintf(socket_option, sizeof(socket_option), "--socket=%s", server->socket);
    snprintf(pid, sizeof(pid), "--pid-file=%s/mariadb.pid", house->folder);
    snprintf(log, sizeof(log), "--log-error=%s/mariadb.log", house->folder);
    char *argv[] = {NULL,
                    "--no-defaults",
                    data,
                    socket_option,
                    pid,
                    log,
                    "--skip-networking",
                    "--innodb-buffer-pool-size=8M",
                    geteuid() == 0 ? "--user=root" : "--skip-name-resolve",
                    NULL};
    return start(server, "mariadbd", argv);
}

/* ---- PostgreSQL --------------------------------------------------------- */

/* Debian keeps its programs in a folder per version: takes the newest. */
static bool find_postgres(const char *program, char *out, size_t size)
{
    char pattern[128];
    glob_t found;

    if (find(program, out, size))
        return true;
    snprintf(pattern, sizeof(pattern), "/usr/lib/postgresql/*/bin/%s", program);
    bool there = glob(pattern, 0, NULL, &found) == 0 && found.gl_pathc > 0;
    if (there)
        snprintf(out, size, "%s", found.gl_pathv[found.gl_pathc - 1]);
    else
        rt_out_error("PostgreSQL's %s is not installed", program);
    globfree(&found);
    return there;
}

/* Makes the folder pg, owned by the user who will run PostgreSQL: another one if we are root. */
static int make_pg_folder(const struct rt_house *house, bool *other)
{
    char path[4096];
    const struct passwd *user = NULL;

    snprintf(path, sizeof(path), "%s/pg", house->folder);
    *other = geteuid() == 0;
    if (*other && (user = getpwnam("postgres")) == NULL) {
        rt_out_error("PostgreSQL does not run as root, and there is no user postgres");
        return RT_EXIT_UNREACHABLE;
    }
    if (mkdir(path, 0700) != 0 || (user != NULL && (chown(path, user->pw_uid, user->pw_gid) != 0 ||
                                                    chmod(house->folder, 0711) != 0))) {
        rt_out_error("%s: %s", path, strerror(errno));
        return RT_EXIT_UNREACHABLE;
    }
    return RT_EXIT_OK;
}

#define AS_POSTGRES \
    "setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", "--pdeathsig", "KILL"
#define AS_WORDS 6

static int init_postgres(const struct rt_house *house, bool other)
{
    char program[4096], data[4096];
    struct rt_seat seat = {0};

    if (!find_postgres("initdb", program, sizeof(program)))
        return RT_EXIT_UNREACHABLE;
    snprintf(data, sizeof(data), "%s/pg/data", house->folder);
    char *argv[] = {AS_POSTGRES, program, "-D", data, "-U", "postgres", "-A", "trust", "-N", NULL};
    int err = rt_seat_open(&seat, other ? argv : argv + AS_WORDS, NULL, NULL);
    if (err == 0 && rt_seat_wait(&seat) == 0)
        return RT_EXIT_OK;
    rt_out_error("initdb failed in %s", house->folder);
    return RT_EXIT_UNREACHABLE;
}

/* It listens before it accepts anybody: its own file says when it does. */
static bool is_ready(const struct rt_house *house)
{
    char path[4096], text[512];

    snprintf(path, sizeof(path), "%s/pg/data/postmaster.pid", house->folder);
    for (int i = 0; i < START_TRIES && !ended(&house->postgres.seat); i++) {
        FILE *file = fopen(path, "re");
        size_t got = file != NULL ? fread(text, 1, sizeof(text) - 1, file) : 0;
        if (file != NULL)
            fclose(file);
        text[got] = '\0';
        if (strstr(text, "ready") != NULL)
            return true;
        if (nanosleep(&(struct timespec){0, LOOK_NS}, NULL) != 0)
            return false;
    }
    return false;
}

int rt_house_postgres(struct rt_house *house)
{
    struct rt_house_server *server = &house->postgres;
    char program[4096], data[4096], folder[4096];
    bool other;

    if (server->seat.pid != 0)
        return RT_EXIT_OK;
    int code = name_socket(house, server, "pg/.s.PGSQL.5432");
    if (code == RT_EXIT_OK)
        code = make_pg_folder(house, &other);
    if (code == RT_EXIT_OK)
        code = init_postgres(house, other);
    if (code != RT_EXIT_OK)
        return code;
    if (!find_postgres("postgres", program, sizeof(program)))
        return RT_EXIT_UNREACHABLE;
    snprintf(data, sizeof(data), "%s/pg/data", house->folder);
    snprintf(folder, sizeof(folder), "%s/pg", house->folder);
    char *argv[] = {AS_POSTGRES, program,
                    "-D",        data,
                    "-k",        folder,
                    "-h",        "",
                    "-p",        "5432",
                    "-c",        "max_prepared_transactions=64",
                    "-c",        "shared_buffers=16MB",
                    NULL};
    int err = rt_seat_open(&server->seat, other ? argv : argv + AS_WORDS, NULL, NULL);
    if (err == 0 && is_up(server) && is_ready(house))
        return RT_EXIT_OK;
    rt_out_error("PostgreSQL does not start in %s", house->folder);
    rt_seat_close(&server->seat);
    return RT_EXIT_UNREACHABLE;
}

void rt_house_kill_redis(struct rt_house *house, unsigned i)
{
    assert(i < RT_HOUSE_REDIS);
    rt_seat_close(&house->redis[i].seat);
}

/* ---- Seats -------------------------------------------------------------- */

int rt_house_at_redis(struct rt_house *house, unsigned i, struct rt_seat *seat)
{
    char *argv[] = {"redis-cli", "--no-raw", "-s", house->redis[i].socket, NULL};

    assert(house->redis[i].seat.pid != 0);
    return rt_seat_open(seat, argv, "ECHO ", "");
}

int rt_house_at_mariadb(const struct rt_house *house, struct rt_seat *seat)
{
    char option[RT_HOUSE_PATH + 16];
    char *argv[] = {
        "mariadb",      "--no-defaults", option,  "--user=root", "--batch", "--skip-column-names",
        "--unbuffered", "--force",       "mysql", NULL};

    assert(house->mariadb.seat.pid != 0);
    snprintf(option, sizeof(option), "--socket=%s", house->mariadb.socket);
    return rt_seat_open(seat, argv, "select '", "';");
}

void rt_house_close(struct rt_house *house)
{
    for (unsigned i = 0; i < RT_HOUSE_REDIS; i++) {
        rt_seat_close(&house->redis[i].seat);
        if (house->redis[i].port != 0)
            close(house->redis[i].reserved);
        house->redis[i].port = 0;
    }
    rt_seat_close(&house->mariadb.seat);
    rt_seat_close(&house->postgres.seat);
}
