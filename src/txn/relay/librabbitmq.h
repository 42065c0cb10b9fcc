/* SPDX-License-Identifier: Apache-2.0 */
/* librabbitmq, loaded when the first URL asks for it. Its headers are needed to build, the library only to run. */
#ifndef RT_LIBRABBITMQ_H
#define RT_LIBRABBITMQ_H

#include <amqp.h>
#include <amqp_framing.h>
#include <amqp_ssl_socket.h>
#include <amqp_tcp_socket.h>
#include <stddef.h>

#define RT_LIBRABBITMQ(X)             \
    X(basic_ack)                      \
    X(basic_consume)                  \
    X(basic_nack)                     \
    X(basic_publish)                  \
    X(basic_qos)                      \
    X(channel_open)                   \
    X(confirm_select)                 \
    X(connection_close)               \
    X(consume_message)                \
    X(destroy_connection)             \
    X(destroy_envelope)               \
    X(destroy_message)                \
    X(error_string2)                  \
    X(exchange_declare)               \
    X(get_rpc_reply)                  \
    X(get_sockfd)                     \
    X(login_with_properties)          \
    X(maybe_release_buffers)          \
    X(new_connection)                 \
    X(read_message)                   \
    X(send_frame)                     \
    X(set_handshake_timeout)          \
    X(set_rpc_timeout)                \
    X(simple_wait_frame_noblock)      \
    X(socket_open_noblock)            \
    X(ssl_socket_new)                 \
    X(ssl_socket_set_cacert)          \
    X(ssl_socket_set_key)             \
    X(ssl_socket_set_ssl_versions)    \
    X(ssl_socket_set_verify_hostname) \
    X(ssl_socket_set_verify_peer)     \
    X(tcp_socket_new)

struct rt_librabbitmq {
#define RT_LIBRABBITMQ_FIELD(name) __typeof__(&amqp_##name) name;
    RT_LIBRABBITMQ(RT_LIBRABBITMQ_FIELD)
#undef RT_LIBRABBITMQ_FIELD
};
extern struct rt_librabbitmq rt_amqp; /* written once, by rt_librabbitmq_load */

/* 0, or ROTA_UNSUPPORTED with one line in ERRMSG. From any thread. It is never unloaded. */
int rt_librabbitmq_load(char *errmsg, size_t size);

#endif
