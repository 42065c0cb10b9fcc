/* SPDX-License-Identifier: Apache-2.0 */
/* Real etcd for tests: started, given users, commanded by etcdctl. */
#include "etcd_server.h"

#include "proc.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define READY_MS 60000
#define CTL_ARGS_MAX 32

static void die(const char *what)
{
    fprintf(stderr, "etcd_server: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* ---- etcdctl ----------------------------------------------------------------------------- */

static void endpoints_of(const struct rt_etcds *e, int i, char *out, size_t size)
{
    size_t used = (size_t)snprintf(out, size, "--endpoints=");
    for (size_t k = 0; k < e->n && used < size; k++)
        if (i < 0 || (size_t)i == k)
            used += (size_t)snprintf(out + used, size - used, "%s%s://localhost:%u",
                                     out[used - 1] == '=' ? "" : ",", e->tls ? "https" : "http",
                                     (unsigned)e->node[k].server.port);
}

struct ctl {
    const char *argv[CTL_ARGS_MAX];
    char endpoints[512], ca[320], cert[320], key[320], user[80];
    size_t argc;
    char **env; /* ours first: the first of a name counts */
};

static void ctl_add(struct ctl *ctl, const char *arg)
{
    assert(ctl->argc + 1 < CTL_ARGS_MAX);
    ctl->argv[ctl->argc++] = arg;
}

static void ctl_env(struct ctl *ctl)
{
    static char api[] = "ETCDCTL_API=3";
    size_t n = 0, used = 0;
    while (environ[n] != NULL)
        n++;
    ctl->env = calloc(n + 3, sizeof(*ctl->env));
    if (ctl->env == NULL)
        die("calloc");
    ctl->env[used++] = api;
    if (ctl->user[0] != '\0')
        ctl->env[used++] = ctl->user;
    memcpy(ctl->env + used, environ, n * sizeof(*environ));
}

static void ctl_fill(struct ctl *ctl, const struct rt_etcds *e, int i, const char *const *args)
{
    memset(ctl, 0, sizeof(*ctl));
    endpoints_of(e, i, ctl->endpoints, sizeof(ctl->endpoints));
    ctl_add(ctl, "etcdctl");
    ctl_add(ctl, ctl->endpoints);
    ctl_add(ctl, "--command-timeout=5s");
    if (e->tls) {
        snprintf(ctl->ca, sizeof(ctl->ca), "--cacert=%s", e->certs.ca);
        snprintf(ctl->cert, sizeof(ctl->cert), "--cert=%s", e->certs.client_cert);
        snprintf(ctl->key, sizeof(ctl->key), "--key=%s", e->certs.client_key);
        ctl_add(ctl, ctl->ca);
        ctl_add(ctl, ctl->cert);
        ctl_add(ctl, ctl->key);
    }
    if (e->root_password[0] != '\0')
        snprintf(ctl->user, sizeof(ctl->user), "ETCDCTL_USER=root:%s", e->root_password);
    for (; *args != NULL; args++)
        ctl_add(ctl, *args);
    ctl_env(ctl);
}

/* Run in a child, where only what is safe in signal handlers is allowed (the test may have threads): the
 * password is passed in the environment, other users' on the input. */
__attribute__((noreturn)) static void become_ctl(struct ctl *ctl, int in, int out, pid_t parent)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    char *const *argv;
    memcpy(&argv, &(const char *const *){ctl->argv}, sizeof(argv));
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent &&
        dup2(in >= 0 ? in : null, STDIN_FILENO) >= 0 &&
        dup2(out >= 0 ? out : null, STDOUT_FILENO) >= 0 &&
        (getenv("ROTA_TEST_ETCDCTL") != NULL || dup2(null, STDERR_FILENO) >= 0))
        execvpe(argv[0], argv, ctl->env);
    _exit(127);
}

static void read_all(int fd, char *out, size_t size)
{
    char rest[512];
    size_t used = 0;
    ssize_t n;
    while ((n = used + 1 < size ? read(fd, out + used, size - used - 1)
                                : read(fd, rest, sizeof(rest))) > 0)
        if (used + 1 < size)
            used += (size_t)n;
    if (size > 0)
        out[used] = '\0';
}

static int ctl_run(struct rt_etcds *e, int i, const char *input, char *out, size_t size,
                   const char *const *args)
{
    struct ctl ctl;
    int in[2], from[2], status;
    pid_t parent = getpid();
    ctl_fill(&ctl, e, i, args);
    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0)
        die("pipe");
    pid_t pid = fork();
    if (pid == 0)
        become_ctl(&ctl, in[0], from[1], parent);
    if (pid < 0)
        die("fork");
    free(ctl.env);
    close(in[0]);
    close(from[1]);
    if (input != NULL && write(in[1], input, strlen(input)) != (ssize_t)strlen(input))
        die("etcdctl");
    close(in[1]);
    read_all(from[0], out, out != NULL ? size : 0);
    close(from[0]);
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            die("waitpid");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 126;
}

int rt_etcds_ctl(struct rt_etcds *e, int i, char *out, size_t size, const char *const *args)
{
    return ctl_run(e, i, NULL, out, size, args);
}

static void must(struct rt_etcds *e, const char *input, const char *const *args)
{
    char out[512] = "";
    int code = ctl_run(e, -1, input, out, sizeof(out), args);
    if (code == 0)
        return;
    fprintf(stderr, "etcd_server: etcdctl %s %s ended with %d: %s\n", args[0],
            args[1] != NULL ? args[1] : "", code, out);
    exit(1);
}

void rt_etcds_must_do(struct rt_etcds *e, const char *const *args)
{
    must(e, NULL, args);
}

/* ---- Users --------------------------------------------------------------------------------- */

static void draw_password(char *out, size_t size)
{
    uint8_t bytes[16];
    if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
        die("getrandom");
    for (size_t i = 0; i < sizeof(bytes) && 2 * i + 2 < size; i++)
        snprintf(out + 2 * i, 3, "%02x", bytes[i]);
}

static void write_password(struct rt_etcds *e)
{
    snprintf(e->password_file, sizeof(e->password_file), "%s/password", e->node[0].server.dir);
    int fd = open(e->password_file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || dprintf(fd, "%s\n", e->password) < 0)
        die(e->password_file);
    close(fd);
}

#define DO(e, input, ...) must(e, input, (const char *const[]){__VA_ARGS__, NULL})

static void make_users(struct rt_etcds *e)
{
    char root[sizeof(e->root_password)] = "";
    draw_password(e->password, sizeof(e->password));
    draw_password(root, sizeof(root));
    write_password(e);
    DO(e, root, "user", "add", "root", "--interactive=false");
    DO(e, NULL, "user", "grant-role", "root", "root");
    DO(e, e->password, "user", "add", "rota", "--interactive=false");
    DO(e, NULL, "role", "add", "locks");
    DO(e, NULL, "role", "grant-permission", "locks", "--prefix=true", "readwrite", RT_ETCDS_PREFIX);
    DO(e, NULL, "user", "grant-role", "rota", "locks");
    DO(e, NULL, "auth", "enable");
    memcpy(e->root_password, root, sizeof(root));
}

/* ---- Nodes --------------------------------------------------------------------------------- */

static void tls_args(struct rt_etcds *e, struct rt_server *s, const struct rt_etcds_options *opts)
{
    rt_server_arg(s, "--cert-file=%s", opts->cert != NULL ? opts->cert : e->certs.server_cert);
    rt_server_arg(s, "--key-file=%s", opts->key != NULL ? opts->key : e->certs.server_key);
    if (!opts->tls_clients)
        return;
    rt_server_arg(s, "--client-cert-auth");
    rt_server_arg(s, "--trusted-ca-file=%s", e->certs.ca);
}

static void node_args(struct rt_etcds *e, size_t i, const struct rt_etcds_options *opts)
{
    struct rt_server *s = &e->node[i].server;
    const char *scheme = opts->tls ? "https" : "http";
    char cluster[RT_ETCDS_MAX * 64] = "";
    for (size_t k = 0, used = 0; k < e->n; k++)
        used += (size_t)snprintf(cluster + used, sizeof(cluster) - used,
                                 "%sn%zu=http://127.0.0.1:%u", k > 0 ? "," : "", k + 1,
                                 (unsigned)e->node[k].peer_port);
    rt_server_arg(s, "--name=n%zu", i + 1);
    rt_server_arg(s, "--data-dir=%s/data", s->dir);
    rt_server_arg(s, "--listen-client-urls=%s://127.0.0.1:%u", scheme, (unsigned)s->port);
    rt_server_arg(s, "--advertise-client-urls=%s://localhost:%u", scheme, (unsigned)s->port);
    rt_server_arg(s, "--listen-peer-urls=http://127.0.0.1:%u", (unsigned)e->node[i].peer_port);
    rt_server_arg(s, "--initial-advertise-peer-urls=http://127.0.0.1:%u",
                  (unsigned)e->node[i].peer_port);
    rt_server_arg(s, "--initial-cluster=%s", cluster);
    rt_server_arg(s, "--initial-cluster-token=%u", (unsigned)e->node[0].peer_port);
    rt_server_arg(s, "--logger=zap");
    rt_server_arg(s, "--log-level=error");
    rt_server_arg(
        s, "--bcrypt-cost=4"); /* every client that opens pays for it: 10 is 70 ms and more */
    if (opts->tls)
        tls_args(e, s, opts);
    for (size_t k = 0; k < sizeof(opts->extra) / sizeof(opts->extra[0]); k++)
        if (opts->extra[k] != NULL)
            rt_server_arg(s, "%s", opts->extra[k]);
}

struct which {
    struct rt_etcds *e;
    size_t i;
};

static bool serves(struct rt_server *s, void *arg)
{
    static const char *const health[] = {"endpoint", "health", NULL};
    struct which *w = arg;
    return rt_server_accepts(s, NULL) && rt_etcds_ctl(w->e, (int)w->i, NULL, 0, health) == 0;
}

static void await_node(struct rt_etcds *e, size_t i)
{
    struct which w = {e, i};
    rt_server_await(&e->node[i].server, serves, &w, READY_MS);
}

void rt_etcds_run(struct rt_etcds *e, size_t i)
{
    if (e->node[i].server.pid == 0)
        rt_server_start(&e->node[i].server);
    await_node(e, i);
}

void rt_etcds_start(struct rt_etcds *e, size_t n, const struct rt_etcds_options *opts)
{
    static const struct rt_etcds_options none;
    const char *program = getenv("ROTA_TEST_ETCD"); /* another version */
    assert(n >= 1 && n <= RT_ETCDS_MAX);
    opts = opts != NULL ? opts : &none;
    memset(e, 0, sizeof(*e));
    e->n = n;
    e->tls = opts->tls;
    e->tls_clients = opts->tls_clients;
    e->user = opts->user;
    for (size_t i = 0; i < n; i++) {
        rt_server_init_in(&e->node[i].server, rt_memdir(), "etcd",
                          program != NULL ? program : "etcd");
        e->node[i].peer_port = rt_port_reserve(&e->node[i].peer_anchor);
    }
    if (e->tls)
        rt_certs_make(&e->certs, e->node[0].server.dir);
    for (size_t i = 0; i < n; i++) {
        node_args(e, i, opts);
        rt_server_start(&e->node[i].server);
    }
    for (size_t i = 0; opts->cert == NULL && i < n; i++)
        await_node(e, i);
    if (e->user)
        make_users(e);
}

void rt_etcds_fini(struct rt_etcds *e)
{
    for (size_t i = 0; i < e->n; i++) {
        rt_server_fini(&e->node[i].server);
        close(e->node[i].peer_anchor);
    }
    memset(e, 0, sizeof(*e));
}

/* ---- Looking ------------------------------------------------------------------------------- */

/* The number after "NAME": in JSON; 0 if there is none. Ids need all 64 bits. */
static unsigned long long number(const char *json, const char *name)
{
    char quoted[40];
    snprintf(quoted, sizeof(quoted), "\"%s\":", name);
    const char *at = strstr(json, quoted);
    return at != NULL ? strtoull(at + strlen(quoted), NULL, 10) : 0;
}

struct leads {
    struct rt_etcds *e;
    int but, leader;
};

static bool find_leader(void *arg)
{
    static const char *const status[] = {"endpoint", "status", "-w", "json", NULL};
    struct leads *l = arg;
    char out[4096];
    for (size_t i = 0; i < l->e->n; i++) {
        if (l->e->node[i].server.pid == 0 || (int)i == l->but ||
            rt_etcds_ctl(l->e, (int)i, out, sizeof(out), status) != 0)
            continue;
        unsigned long long leader = number(out, "leader");
        if (leader != 0 && leader == number(out, "member_id")) {
            l->leader = (int)i;
            return true;
        }
    }
    return false;
}

int rt_etcds_leader_but(struct rt_etcds *e, int but, unsigned limit_ms)
{
    struct leads l = {e, but, -1};
    return rt_await(find_leader, &l, limit_ms) ? l.leader : -1;
}

int rt_etcds_leader(struct rt_etcds *e, unsigned limit_ms)
{
    return rt_etcds_leader_but(e, -1, limit_ms);
}

static long counted(struct rt_etcds *e, const char *name, const char *const *args)
{
    char out[1 << 16];
    if (rt_etcds_ctl(e, -1, out, sizeof(out), args) != 0)
        die("etcdctl");
    return (long)number(out, name);
}

void rt_etcds_compact(struct rt_etcds *e)
{
    static const char *const get[] = {"get", "x", "-w", "json", NULL};
    long now = counted(e, "revision", get);
    char revision[32];
    if (now == e->compacted)
        return; /* it would be an error */
    e->compacted = now;
    snprintf(revision, sizeof(revision), "%ld", now);
    DO(e, NULL, "compact", revision, "--physical");
}

long rt_etcds_keys(struct rt_etcds *e, const char *prefix)
{
    const char *const get[] = {"get",  "--prefix", "--keys-only", "--limit=1", "--write-out=json",
                               prefix, NULL};
    return counted(e, "count", get);
}

long rt_etcds_leases(struct rt_etcds *e)
{
    static const char *const list[] = {"lease", "list", NULL};
    char out[1 << 16], *at = out;
    long n = 0;
    if (rt_etcds_ctl(e, -1, out, sizeof(out), list) != 0)
        die("etcdctl");
    while ((at = strchr(at, '\n')) != NULL && *++at != '\0')
        n++; /* "found N leases", then each */
    return n;
}

static int connect_to(uint16_t port)
{
    struct sockaddr_in in = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&in, sizeof(in)) != 0)
        die("connect");
    return fd;
}

double rt_etcds_metric(struct rt_etcds *e, size_t i, const char *name)
{
    enum { SIZE = 1 << 20 };
    char *all = malloc(SIZE), line[128];
    double sum = -1;
    int fd = connect_to(e->node[i].server.port);
    assert(!e->tls && all != NULL);
    if (dprintf(fd, "GET /metrics HTTP/1.0\r\n\r\n") < 0)
        die("metrics");
    read_all(fd, all, SIZE);
    close(fd);
    snprintf(line, sizeof(line), "\n%s", name);
    for (const char *at = all; (at = strstr(at, line)) != NULL;) {
        at += strlen(line);
        if (*at == '{')
            at = strchr(at, '}') + 1;
        if (*at == ' ')
            sum = (sum < 0 ? 0 : sum) + strtod(at, NULL);
    }
    free(all);
    return sum;
}

char *rt_etcds_url(const struct rt_etcds *e, const uint16_t *ports)
{
    char *url = NULL, hosts[RT_ETCDS_MAX * 24] = "";
    for (size_t i = 0, used = 0; i < e->n; i++)
        used += (size_t)snprintf(hosts + used, sizeof(hosts) - used, "%s%s:%u", i > 0 ? "," : "",
                                 e->tls ? "localhost" : "127.0.0.1",
                                 (unsigned)(ports != NULL ? ports[i] : e->node[i].server.port));
    int rv = asprintf(&url, "%s://%s%s/%s%s%s%s%s%s%s%s%s", e->tls ? "etcds" : "etcd",
                      e->user ? "rota@" : "", hosts, e->tls || e->user ? "?" : "",
                      e->tls ? "ca=" : "", e->tls ? e->certs.ca : "",
                      e->tls_clients ? "&cert=" : "", e->tls_clients ? e->certs.client_cert : "",
                      e->tls_clients ? "&key=" : "", e->tls_clients ? e->certs.client_key : "",
                      e->tls && e->user ? "&" : "", e->user ? "password_file=" : "");
    if (rv >= 0 && e->user) {
        char *whole = NULL;
        rv = asprintf(&whole, "%s%s&prefix=%s", url, e->password_file, RT_ETCDS_PREFIX);
        free(url);
        url = whole;
    }
    if (rv < 0)
        die("asprintf");
    return url;
}
