/* SPDX-License-Identifier: Apache-2.0 */
/* RabbitMQ for the suite: a topic is a durable queue of that name. */
#include "lib/rabbitmq_server.h"
#include "post.h"
#include "txn/relay/librabbitmq.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define MESSAGE_MAX (1u << 20)
#define LONG_64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static struct rt_rabbitmq server;

static struct rt_server *start(void)
{
    rt_rabbitmq_start(&server, &(struct rt_rabbitmq_options){.message_max = MESSAGE_MAX});
    return &server.server;
}

static void run(void)
{
    rt_rabbitmq_run(&server);
}

static void fini(void)
{
    rt_rabbitmq_fini(&server);
}

static void url(char *out, size_t size, const char *user_at, const char *params)
{
    snprintf(out, size, "amqp://%s127.0.0.1:%u/%s", user_at, server.server.port, params);
}

static void declare(const char *topic, amqp_table_t arguments)
{
    amqp_connection_state_t conn = amqp_new_connection();
    amqp_socket_t *socket = amqp_tcp_socket_new(conn);

    assert(amqp_socket_open(socket, "127.0.0.1", server.server.port) == AMQP_STATUS_OK);
    assert(
        amqp_login(conn, "/", 0, 131072, 0, AMQP_SASL_METHOD_PLAIN, "guest", "guest").reply_type ==
        AMQP_RESPONSE_NORMAL);
    amqp_channel_open(conn, 1);
    amqp_queue_declare(conn, 1, amqp_cstring_bytes(topic), 0, 1, 0, 0, arguments);
    assert(amqp_get_rpc_reply(conn).reply_type == AMQP_RESPONSE_NORMAL);
    amqp_connection_close(conn, AMQP_REPLY_SUCCESS);
    amqp_destroy_connection(conn);
}

static void route(const char *topic)
{
    declare(topic, amqp_empty_table);
}

static void route_two(const char *topic)
{
    amqp_table_entry_t all[2] = {{.key = amqp_cstring_bytes("x-max-length"),
                                  .value = {.kind = AMQP_FIELD_KIND_I32, .value.i32 = 2}},
                                 {.key = amqp_cstring_bytes("x-overflow"),
                                  .value = {.kind = AMQP_FIELD_KIND_UTF8,
                                            .value.bytes = amqp_cstring_bytes("reject-publish")}}};

    declare(topic, (amqp_table_t){.num_entries = 2, .entries = all});
}

static void source(char *out, size_t size, const char *topic)
{
    snprintf(out, size, "%s", topic);
}

const struct post POST = {
    .kind = &rt_broker_rabbitmq,
    .refuses_without_route = true,
    .has_passwords = true,
    .bad_topics = (const char *const[]){LONG_64 LONG_64 LONG_64 LONG_64, NULL},
    .message_max = MESSAGE_MAX,
    .has_short_limit = true,
    .missing = "?exchange=nowhere",
    .start = start,
    .run = run,
    .fini = fini,
    .url = url,
    .route = route,
    .route_two = route_two,
    .full = "no room",
    .source = source,
};
