/* SPDX-License-Identifier: Apache-2.0 */
/* Real ZooKeeper for tests: configured, started, asked by four letter words. */
#include "zookeeper_server.h"

#include "proc.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define READY_MS 60000
#define LIB "/usr/share/java/"
#define JARS \
    LIB "zookeeper.jar:" LIB "netty-codec.jar:" LIB "netty-resolver.jar" /* the last two for TLS */
#define PASSWORD "only-for-tests"

static void die(const char *what)
{
    fprintf(stderr, "zookeeper_server: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* ---- Configuration ---------------------------------------------------------------------------- */

static FILE *create(const char *dir, const char *name, char path[320])
{
    (void)snprintf(path, 320, "%s/%s", dir, name);
    FILE *f = fopen(path, "we");
    if (f == NULL)
        die(path);
    return f;
}

static void append(FILE *to, const char *path)
{
    char buffer[4096];
    size_t n;
    FILE *from = fopen(path, "re");
    if (from == NULL)
        die(path);
    while ((n = fread(buffer, 1, sizeof(buffer), from)) > 0)
        fwrite(buffer, 1, n, to);
    fclose(from);
}

/* Certificate and key in one file, as ZooKeeper wants them. */
static void write_tls(struct rt_zks *z, const struct rt_server *s, FILE *cfg)
{
    char path[320];
    FILE *both = create(s->dir, "both.pem", path);
    append(both, z->certs.server_key);
    append(both, z->certs.server_cert);
    fclose(both);
    fprintf(cfg,
            "secureClientPort=%u\nsecureClientPortAddress=127.0.0.1\n"
            "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n"
            "ssl.keyStore.location=%s\nssl.keyStore.type=PEM\nssl.trustStore.location=%s\n"
            "ssl.trustStore.type=PEM\nssl.clientAuth=%s\n",
            (unsigned)s->port, path, z->certs.ca, z->tls_clients ? "need" : "none");
}

static void configure(struct rt_zks *z, size_t i, const struct rt_zks_options *opts)
{
    struct rt_server *s = &z->node[i].server;
    char path[320], data[300];
    (void)snprintf(data, sizeof(data), "%s/data", s->dir);
    if (mkdir(data, 0700) != 0)
        die(data);
    FILE *cfg = create(s->dir, "zoo.cfg", path);
    fprintf(cfg,
            "tickTime=%d\ndataDir=%s\nadmin.enableServer=false\n4lw.commands.whitelist=*\n"
            "forceSync=no\npreAllocSize=256\nmaxClientCnxns=0\nminSessionTimeout=%d\n"
            "maxSessionTimeout=3600000\ninitLimit=50\nsyncLimit=10\n",
            RT_ZKS_TICK_MS, data, 2 * RT_ZKS_TICK_MS);
    if (z->tls)
        write_tls(z, s, cfg);
    fprintf(cfg, "clientPort=%u\nclientPortAddress=127.0.0.1\n",
            (unsigned)(z->tls ? z->node[i].ports[2] : s->port));
    for (size_t k = 0; z->n > 1 && k < z->n; k++)
        fprintf(cfg, "server.%zu=127.0.0.1:%u:%u\n", k + 1, (unsigned)z->node[k].ports[0],
                (unsigned)z->node[k].ports[1]);
    for (size_t k = 0; k < sizeof(opts->extra) / sizeof(opts->extra[0]); k++)
        if (opts->extra[k] != NULL)
            fprintf(cfg, "%s\n", opts->extra[k]);
    fclose(cfg);
    FILE *id = create(data, "myid", (char[320]){0});
    fprintf(id, "%zu\n", i + 1);
    fclose(id);
    rt_server_arg(s, "-Xmx96m");
    rt_server_arg(s, "-Xms48m");
    rt_server_arg(s, "-XX:+UseSerialGC");
    rt_server_arg(s, "-XX:TieredStopAtLevel=1");
    rt_server_arg(s, "-XX:-UsePerfData");
    rt_server_arg(s, "-Dzookeeper.extendedTypesEnabled=true");
    for (size_t k = 0; k < sizeof(opts->java) / sizeof(opts->java[0]); k++)
        if (opts->java[k] != NULL)
            rt_server_arg(s, "%s", opts->java[k]);
    rt_server_arg(s, "-cp");
    rt_server_arg(s, "%s", JARS);
    rt_server_arg(s, "org.apache.zookeeper.server.quorum.QuorumPeerMain");
    rt_server_arg(s, "%s", path);
}

/* ---- Words ------------------------------------------------------------------------------------ */

void rt_zks_say(const struct rt_zks *z, size_t i, const char *word, char *out, size_t size)
{
    struct sockaddr_in in = {
        .sin_family = AF_INET,
        .sin_port = htons(z->tls ? z->node[i].ports[2] : z->node[i].server.port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval patience = {.tv_sec = 2};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    size_t used = 0;
    ssize_t n;
    if (fd < 0)
        die("socket");
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    if (connect(fd, (struct sockaddr *)&in, sizeof(in)) == 0 &&
        send(fd, word, strlen(word), MSG_NOSIGNAL) == (ssize_t)strlen(word))
        while (used + 1 < size && (n = read(fd, out + used, size - used - 1)) > 0)
            used += (size_t)n;
    out[used] = '\0';
    close(fd);
}

long rt_zks_count(const struct rt_zks *z, size_t i, const char *name)
{
    char said[16384], line[80];
    rt_zks_say(z, i, "mntr", said, sizeof(said));
    (void)snprintf(line, sizeof(line), "\n%s\t", name);
    const char *at = strstr(said, line);
    return at != NULL ? strtol(at + strlen(line), NULL, 10) : 0;
}

struct which {
    struct rt_zks *z;
    size_t i;
    int but, leader;
};

static bool serves(struct rt_server *s, void *arg)
{
    (void)s;
    struct which *w = arg;
    char said[2048];
    rt_zks_say(w->z, w->i, "srvr", said, sizeof(said));
    return strstr(said, "Mode:") != NULL;
}

void rt_zks_run(struct rt_zks *z, size_t i)
{
    struct which w = {z, i, -1, -1};
    if (z->node[i].server.pid == 0)
        rt_server_start(&z->node[i].server);
    rt_server_await(&z->node[i].server, serves, &w, READY_MS);
}

static bool find_leader(void *arg)
{
    struct which *w = arg;
    char said[2048];
    for (size_t i = 0; i < w->z->n; i++) {
        if (w->z->node[i].server.pid == 0 || (int)i == w->but)
            continue;
        rt_zks_say(w->z, i, "srvr", said, sizeof(said));
        if (strstr(said, "Mode: leader") != NULL || strstr(said, "Mode: standalone") != NULL) {
            w->leader = (int)i;
            return true;
        }
    }
    return false;
}

int rt_zks_leader_but(struct rt_zks *z, int but, unsigned limit_ms)
{
    struct which w = {z, 0, but, -1};
    return rt_await(find_leader, &w, limit_ms) ? w.leader : -1;
}

int rt_zks_leader(struct rt_zks *z, unsigned limit_ms)
{
    return rt_zks_leader_but(z, -1, limit_ms);
}

/* ---- Life ------------------------------------------------------------------------------------- */

void rt_zks_start(struct rt_zks *z, size_t n, const struct rt_zks_options *opts)
{
    static const struct rt_zks_options none;
    assert(n >= 1 && n <= RT_ZKS_MAX);
    opts = opts != NULL ? opts : &none;
    memset(z, 0, sizeof(*z));
    z->n = n;
    z->tls = opts->tls;
    z->tls_clients = opts->tls_clients;
    z->user = opts->user;
    for (size_t i = 0; i < n; i++) {
        rt_server_init_in(&z->node[i].server, rt_memdir(), "zookeeper", "java");
        for (size_t k = 0; k < 3; k++)
            z->node[i].ports[k] = rt_port_reserve(&z->node[i].anchors[k]);
    }
    if (z->tls)
        rt_certs_make(&z->certs, z->node[0].server.dir);
    for (size_t i = 0; i < n; i++)
        configure(z, i, opts);
    for (size_t i = 0; i < n; i++)
        rt_server_start(&z->node[i].server);
    for (size_t i = 0; i < n; i++)
        rt_zks_run(z, i);
    if (z->user) {
        FILE *f = create(z->node[0].server.dir, "password", z->password_file);
        fprintf(f, "%s\n", PASSWORD);
        (void)fchmod(fileno(f), 0600);
        fclose(f);
    }
}

void rt_zks_fini(struct rt_zks *z)
{
    for (size_t i = 0; i < z->n; i++) {
        rt_server_fini(&z->node[i].server);
        close(z->node[i].anchors[0]);
        close(z->node[i].anchors[1]);
        close(z->node[i].anchors[2]);
    }
    memset(z, 0, sizeof(*z));
}

char *rt_zks_url(const struct rt_zks *z, const uint16_t *ports)
{
    char *url = NULL;
    size_t size;
    FILE *f = open_memstream(&url, &size);
    if (f == NULL)
        die("open_memstream");
    fprintf(f, "%s://%s", z->tls ? "zks" : "zk", z->user ? "rota@" : "");
    for (size_t i = 0; i < z->n; i++)
        fprintf(f, "%s%s:%u", i > 0 ? "," : "", z->tls ? "localhost" : "127.0.0.1",
                (unsigned)(ports != NULL ? ports[i] : z->node[i].server.port));
    fprintf(f, RT_ZKS_ROOT "?tick_ms=%d", RT_ZKS_TICK_MS);
    if (z->tls)
        fprintf(f, "&ca=%s", z->certs.ca);
    if (z->tls_clients)
        fprintf(f, "&cert=%s&key=%s", z->certs.client_cert, z->certs.client_key);
    if (z->user)
        fprintf(f, "&password_file=%s", z->password_file);
    fclose(f);
    return url;
}
