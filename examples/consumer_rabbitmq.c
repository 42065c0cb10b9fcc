/* SPDX-License-Identifier: Apache-2.0 */
/* consumer.c on a queue of RabbitMQ, which must be durable. */
#include "consumer.h"

#include <amqp.h>
#include <amqp_tcp_socket.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static amqp_connection_state_t conn;
static amqp_envelope_t taken;
static char id[256];

static int sound(const char *doing)
{
    amqp_rpc_reply_t reply = amqp_get_rpc_reply(conn);

    if (reply.reply_type == AMQP_RESPONSE_NORMAL)
        return 0;
    fprintf(stderr, "RabbitMQ: %s failed\n", doing);
    return -1;
}

int broker_open(const char *host, int port, const char *source)
{
    const char *user = getenv("BROKER_USER"), *password = getenv("BROKER_PASSWORD");

    conn = amqp_new_connection();
    amqp_socket_t *socket = amqp_tcp_socket_new(conn);
    if (socket == NULL || amqp_socket_open(socket, host, port) != AMQP_STATUS_OK)
        return -1;
    if (amqp_login(conn, "/", 0, AMQP_DEFAULT_FRAME_SIZE, 30, AMQP_SASL_METHOD_PLAIN,
                   user != NULL ? user : "guest", password != NULL ? password : "guest")
            .reply_type != AMQP_RESPONSE_NORMAL)
        return -1;
    amqp_channel_open(conn, 1);
    if (sound("opening a channel") != 0)
        return -1;
    amqp_basic_qos(conn, 1, 0, 1, 0); /* one at a time */
    if (sound("asking for one at a time") != 0)
        return -1;
    /* no_ack is 0: with 1 a message is gone as soon as it is sent to us. */
    amqp_basic_consume(conn, 1, amqp_cstring_bytes(source), amqp_empty_bytes, 0, 0, 0,
                       amqp_empty_table);
    return sound("consuming");
}

int broker_next(struct event *e)
{
    const amqp_basic_properties_t *p = &taken.message.properties;

    amqp_destroy_envelope(&taken);
    amqp_maybe_release_buffers(conn);
    if (amqp_consume_message(conn, &taken, NULL, 0).reply_type != AMQP_RESPONSE_NORMAL)
        return -1;
    id[0] = '\0';
    if ((p->_flags & AMQP_BASIC_MESSAGE_ID_FLAG) != 0)
        snprintf(id, sizeof(id), "%.*s", (int)p->message_id.len, (const char *)p->message_id.bytes);
    *e = (struct event){.id = id, .body = taken.message.body.bytes, .size = taken.message.body.len};
    return 0;
}

int broker_ack(void)
{
    return amqp_basic_ack(conn, 1, taken.delivery_tag, 0) == AMQP_STATUS_OK ? 0 : -1;
}

int broker_back(void)
{
    return amqp_basic_nack(conn, 1, taken.delivery_tag, 0, 1) == AMQP_STATUS_OK ? 0 : -1;
}

void broker_close(void)
{
    amqp_destroy_envelope(&taken);
    amqp_connection_close(conn, AMQP_REPLY_SUCCESS);
    amqp_destroy_connection(conn);
}
