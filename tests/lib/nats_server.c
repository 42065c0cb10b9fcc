/* SPDX-License-Identifier: Apache-2.0 */
/* Real NATS for tests. */
#include "nats_server.h"

#include "proc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define READY_MS 60000

static void write_config(struct rt_nats_server *n, const struct rt_nats_options *opts)
{
    char path[sizeof(n->server.dir) + 32];

    snprintf(path, sizeof(path), "%s/nats.conf", n->server.dir);
    FILE *f = fopen(path, "w");
    if (f == NULL) {
        perror(path);
        exit(1);
    }
    fprintf(f, "host: 127.0.0.1\nport: %u\njetstream { store_dir: \"%s\" }\n", n->server.port,
            n->server.dir);
    if (opts->tls)
        fprintf(f, "tls { cert_file: \"%s\", key_file: \"%s\" }\n", n->certs.server_cert,
                n->certs.server_key);
    if (opts->user != NULL)
        fprintf(f, "authorization { user: \"%s\", password: \"%s\" }\n", opts->user,
                opts->password);
    fclose(f);
}

void rt_nats_start(struct rt_nats_server *n, const struct rt_nats_options *opts)
{
    static const struct rt_nats_options none;

    memset(n, 0, sizeof(*n));
    opts = opts != NULL ? opts : &none;
    rt_server_init_in(&n->server, rt_memdir(), "nats", "nats-server");
    if (opts->tls)
        rt_certs_make(&n->certs, n->server.dir);
    write_config(n, opts);
    rt_server_arg(&n->server, "-c");
    rt_server_arg(&n->server, "%s/nats.conf", n->server.dir);
    rt_nats_run(n);
}

void rt_nats_run(struct rt_nats_server *n)
{
    if (n->server.pid == 0)
        rt_server_start(&n->server);
    rt_server_await(&n->server, rt_server_accepts, NULL, READY_MS);
}

void rt_nats_fini(struct rt_nats_server *n)
{
    if (n->server.argc > 0)
        rt_server_fini(&n->server);
}
