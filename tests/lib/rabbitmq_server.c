/* SPDX-License-Identifier: Apache-2.0 */
/* Real RabbitMQ for tests. */
#include "rabbitmq_server.h"

#include "proc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define READY_MS 120000
#define RABBITMQ_BIN \
    "/usr/lib/rabbitmq/bin" /* of Debian; the commands in the path change their user */

static FILE *file_in(const struct rt_server *s, const char *name)
{
    char path[sizeof(s->dir) + 32];

    snprintf(path, sizeof(path), "%s/%s", s->dir, name);
    FILE *f = fopen(path, "w");
    if (f == NULL) {
        perror(path);
        exit(1);
    }
    return f;
}

static void write_config(struct rt_rabbitmq *r)
{
    FILE *f = file_in(&r->server, "rabbitmq.conf");

    if (r->tls) {
        fprintf(f, "listeners.tcp = none\nlisteners.ssl.1 = 127.0.0.1:%u\n", r->server.port);
        fprintf(
            f, "ssl_options.cacertfile = %s\nssl_options.certfile = %s\nssl_options.keyfile = %s\n",
            r->certs.ca, r->certs.server_cert, r->certs.server_key);
    } else {
        fprintf(f, "listeners.tcp.1 = 127.0.0.1:%u\n", r->server.port);
    }
    fprintf(f, "log.console = true\nlog.console.level = warning\nlog.file = false\n"
               "vm_memory_high_watermark.absolute = 1GB\ndisk_free_limit.absolute = 1MB\n");
    if (r->message_max > 0)
        fprintf(f, "max_message_size = %u\n", r->message_max);
    fclose(f);
    f = file_in(&r->server, "plugins");
    fprintf(f, "[].\n");
    fclose(f);
}

/* What RabbitMQ and its commands are told through the environment; the program follows. */
static void environment(struct rt_rabbitmq *r, struct rt_server *s)
{
    const char *dir = r->server.dir;

    rt_server_arg(s, "--chdir=%s", dir); /* where Erlang leaves its dumps */
    rt_server_arg(s, "HOME=%s", dir);    /* Erlang's cookie */
    rt_server_arg(s, "ERL_EPMD_PORT=%u", r->epmd.port);
    rt_server_arg(s, "ERL_EPMD_ADDRESS=127.0.0.1");
    rt_server_arg(s, "RABBITMQ_NODENAME=rota%u@localhost", r->server.port);
    rt_server_arg(s, "RABBITMQ_DIST_PORT=%u", r->dist_port);
    rt_server_arg(s, "RABBITMQ_MNESIA_BASE=%s", dir);
    rt_server_arg(s, "RABBITMQ_LOG_BASE=%s", dir);
    rt_server_arg(s, "RABBITMQ_ENABLED_PLUGINS_FILE=%s/plugins", dir);
    rt_server_arg(s, "RABBITMQ_CONFIG_FILE=%s/rabbitmq.conf", dir);
    rt_server_arg(s, "RABBITMQ_PID_FILE=%s/pid", dir);
    rt_server_arg(
        s,
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-kernel inet_dist_use_interface {127,0,0,1} +sbwt none +S 2:2");
}

void rt_rabbitmq_start(struct rt_rabbitmq *r, const struct rt_rabbitmq_options *opts)
{
    memset(r, 0, sizeof(*r));
    r->tls = opts != NULL && opts->tls;
    r->message_max = opts != NULL ? opts->message_max : 0;
    rt_server_init_in(&r->epmd, rt_memdir(), "epmd", "epmd");
    rt_server_arg(&r->epmd, "-port");
    rt_server_arg(&r->epmd, "%u", r->epmd.port);
    rt_server_arg(&r->epmd, "-address");
    rt_server_arg(&r->epmd, "127.0.0.1");
    rt_server_init_in(&r->server, rt_memdir(), "rabbitmq", "env");
    r->dist_port = rt_port_reserve(&r->dist_anchor);
    if (r->tls)
        rt_certs_make(&r->certs, r->server.dir);
    write_config(r);
    environment(r, &r->server);
    rt_server_arg(&r->server, "%s", RABBITMQ_BIN "/rabbitmq-server");
    rt_server_start(&r->epmd);
    rt_server_await(&r->epmd, rt_server_accepts, NULL, READY_MS);
    rt_rabbitmq_run(r);
}

void rt_rabbitmq_run(struct rt_rabbitmq *r)
{
    if (r->server.pid == 0)
        rt_server_start(&r->server);
    rt_server_await(&r->server, rt_server_accepts, NULL, READY_MS);
}

void rt_rabbitmq_ctl(struct rt_rabbitmq *r, const char *const *args)
{
    struct rt_server ctl;
    int status = 0;

    rt_server_init_in(&ctl, rt_memdir(), "rabbitmqctl", "env");
    environment(r, &ctl);
    rt_server_arg(&ctl, "%s", RABBITMQ_BIN "/rabbitmqctl");
    for (; *args != NULL; args++)
        rt_server_arg(&ctl, "%s", *args);
    rt_server_start(&ctl);
    if (waitpid(ctl.pid, &status, 0) != ctl.pid || status != 0) {
        fprintf(stderr, "rabbitmqctl failed: see %s/log\n", ctl.dir);
        exit(1);
    }
    ctl.pid = 0;
    rt_server_fini(&ctl);
}

void rt_rabbitmq_fini(struct rt_rabbitmq *r)
{
    if (r->server.argc == 0)
        return;
    rt_server_fini(&r->server);
    rt_server_fini(&r->epmd);
    close(r->dist_anchor);
}
