/* SPDX-License-Identifier: Apache-2.0 */
/* One request of a connection to a model Redis: what concerns connections, then the machine. */
#include "sim/redis/server.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Listening ---------------------------------------------------------- */

static void confirm(struct rs_buffer *reply, const char *word, struct rs_text channel, size_t count)
{
    rs_reply_array(reply, 3);
    rs_reply_string(reply, word);
    rs_reply_bulk(reply, channel);
    rs_reply_integer(reply, (int64_t)count);
}

static struct rs_text *find_channel(struct rs_conn *c, struct rs_text channel)
{
    for (size_t i = 0; i < c->channel_count; i++)
        if (rs_text_equals(c->channels[i], channel))
            return &c->channels[i];
    return NULL;
}

static void subscribe(struct rs_conn *c, struct rs_text channel)
{
    if (find_channel(c, channel) != NULL)
        return;
    assert(c->channel_count < RS_CHANNELS_MAX);
    char *copy = malloc(channel.n + 1);
    assert(copy != NULL);
    memcpy(copy, channel.at, channel.n);
    c->channels[c->channel_count++] = (struct rs_text){copy, channel.n};
}

static void unsubscribe(struct rs_conn *c, struct rs_text channel)
{
    struct rs_text *at = find_channel(c, channel);
    if (at == NULL)
        return;
    free((void *)(size_t)at->at);
    *at = c->channels[--c->channel_count];
}

static bool do_listening(struct rs_conn *c, size_t argc, const struct rs_text *argv,
                         struct rs_buffer *reply)
{
    bool sharded = c->server->cluster;
    bool on = rs_word_is(argv[0], sharded ? "SSUBSCRIBE" : "SUBSCRIBE");
    bool off = rs_word_is(argv[0], sharded ? "SUNSUBSCRIBE" : "UNSUBSCRIBE");
    for (size_t i = 1; (on || off) && i < argc; i++) {
        const char *word = on ? "ssubscribe" : "sunsubscribe";
        if (on)
            subscribe(c, argv[i]);
        else
            unsubscribe(c, argv[i]);
        confirm(reply, sharded ? word : word + 1, argv[i], c->channel_count);
    }
    return on || off;
}

static bool is_mute(const struct rs_conn *c)
{
    return c->node->mute_until > c->server->net->now;
}

static void push(struct rs_conn *c, struct rs_text channel, struct rs_text message)
{
    struct rs_server *s = c->server;
    struct rs_buffer bytes = {0};
    rs_reply_array(&bytes, 3);
    rs_reply_string(&bytes, s->cluster ? "smessage" : "message");
    rs_reply_bulk(&bytes, channel);
    rs_reply_bulk(&bytes, message);
    if (!is_mute(c) && !sim_net_strikes(s->net, s->net->faults.push_lost))
        sim_conn_send(&c->base, bytes.at, bytes.n);
    if (sim_net_strikes(s->net, s->net->faults.push_doubled))
        sim_conn_send(&c->base, bytes.at, bytes.n);
    rs_buffer_free(&bytes);
}

int64_t rs_publish(struct rs_machine *m, struct rs_text channel, struct rs_text message)
{
    struct rs_server *s = (struct rs_server *)(void *)m; /* its first member */
    int64_t heard = 0;
    s->pushed += memmem(channel.at, channel.n, ":p:", 3) != NULL;
    for (struct sim_conn *c = s->net->conns; c != NULL; c = c->next)
        if (c->served && find_channel(rs_conn_of(c), channel) != NULL) {
            push(rs_conn_of(c), channel, message);
            heard++;
        }
    return heard;
}

/* ---- What a server says of itself --------------------------------------- */

static void reply_info(const struct rs_server *s, struct rs_buffer *reply)
{
    char text[1024];
    snprintf(text, sizeof(text),
             "# Server\r\nredis_version:7.0.15\r\nredis_mode:%s\r\nrun_id:%040u\r\n"
             "uptime_in_seconds:%lld\r\n"
             "# Persistence\r\nloading:%d\r\naof_enabled:1\r\n"
             "# Memory\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n"
             "# Replication\r\nrole:master\r\nconnected_slaves:0\r\n"
             "# Cluster\r\ncluster_enabled:%d\r\n",
             s->cluster ? "cluster" : "standalone", s->runs,
             (long long)(rs_server_clock(s) / 1000000 - s->started_us / 1000000),
             s->busy_until > s->net->now && strncmp(s->refusal, "LOADING", 7) == 0, s->cluster);
    rs_reply_string(reply, text);
}

/* CLUSTER SLOTS: each node has a third. */
static void reply_slots(struct rs_buffer *reply)
{
    const int64_t third = 16384 / RS_NODES;
    rs_reply_array(reply, RS_NODES);
    for (int64_t i = 0; i < RS_NODES; i++) {
        char host[32];
        snprintf(host, sizeof(host), RS_NODE_HOST "%d", (int)i + 1);
        rs_reply_array(reply, 3);
        rs_reply_integer(reply, i * third);
        rs_reply_integer(reply, i + 1 < RS_NODES ? (i + 1) * third - 1 : 16383);
        rs_reply_array(reply, 2);
        rs_reply_string(reply, host);
        rs_reply_integer(reply, RS_PORT);
    }
}

static void reply_config(size_t argc, const struct rs_text *argv, struct rs_buffer *reply)
{
    bool known = argc == 3 && rs_word_is(argv[1], "GET") && rs_word_is(argv[2], "*appendfsync*");
    rs_reply_array(reply, known ? 4 : 0);
    if (known) {
        rs_reply_string(reply, "no-appendfsync-on-rewrite");
        rs_reply_string(reply, "no");
        rs_reply_string(reply, "appendfsync");
        rs_reply_string(reply, "always");
    }
}

static void reply_pong(const struct rs_conn *c, struct rs_buffer *reply)
{
    if (c->channel_count == 0) {
        rs_reply_status(reply, "PONG");
        return;
    }
    rs_reply_array(reply, 2);
    rs_reply_string(reply, "pong");
    rs_reply_string(reply, "");
}

/* There is one replica, which has everything or what was kept at some moment. */
static void reply_wait(struct rs_conn *c, const struct rs_text *argv, struct rs_buffer *reply)
{
    bool behind = c->server->has_earlier;
    if (behind || strtol(argv[1].at, NULL, 10) > 1)
        sim_conn_hold(&c->base, strtoll(argv[2].at, NULL, 10) * 1000000);
    rs_reply_integer(reply, !behind);
}

static bool do_connection(struct rs_conn *c, size_t argc, const struct rs_text *argv,
                          struct rs_buffer *reply)
{
    if (rs_word_is(argv[0], "PING"))
        reply_pong(c, reply);
    else if (rs_word_is(argv[0], "ECHO") && argc == 2)
        rs_reply_bulk(reply, argv[1]);
    else if (rs_word_is(argv[0], "INFO"))
        reply_info(c->server, reply);
    else if (rs_word_is(argv[0], "WAIT") && argc == 3)
        reply_wait(c, argv, reply);
    else if (rs_word_is(argv[0], "CONFIG"))
        reply_config(argc, argv, reply);
    else if (rs_word_is(argv[0], "CLUSTER") && c->server->cluster)
        reply_slots(reply);
    else if (rs_word_is(argv[0], "SELECT") || rs_word_is(argv[0], "CLIENT"))
        rs_reply_status(reply, "OK");
    else
        return false;
    return true;
}

/* ---- Requests ----------------------------------------------------------- */

static bool is_script(struct rs_text word)
{
    return rs_word_is(word, "EVAL") || rs_word_is(word, "EVALSHA");
}

static void execute(struct rs_conn *c, size_t argc, const struct rs_text *argv,
                    struct rs_buffer *reply)
{
    struct rs_server *s = c->server;
    if (do_listening(c, argc, argv, reply) || do_connection(c, argc, argv, reply))
        return;
    if (is_script(argv[0]) && s->busy_until > s->net->now) {
        rs_reply_error(reply, s->refusal);
        return;
    }
    if (s->before != NULL)
        s->before(s, argc, argv);
    s->pushed = 0;
    if (!rs_machine_run(&s->machine, argc, argv, reply))
        rs_reply_error(reply, "ERR unknown command");
    if (s->after != NULL)
        s->after(s, argc, argv, reply);
}

static void serve_once(struct rs_conn *c, size_t argc, const struct rs_text *argv)
{
    struct rs_server *s = c->server;
    struct rs_buffer reply = {0};
    execute(c, argc, argv, &reply);
    if (c->node->slow_until > s->net->now)
        sim_conn_hold(&c->base, c->node->slow_ns);
    if (!is_mute(c) && !sim_net_strikes(s->net, s->net->faults.reply_lost))
        sim_conn_send(&c->base, reply.at, reply.n);
    if (sim_net_strikes(s->net, s->net->faults.reply_doubled))
        sim_conn_send(&c->base, reply.at, reply.n);
    rs_buffer_free(&reply);
}

void rs_serve(struct rs_conn *c, size_t argc, const struct rs_text *argv)
{
    struct rs_server *s = c->server;
    if (sim_net_strikes(s->net, s->net->faults.reset)) {
        if (sim_chance(&s->net->random, 500))
            serve_once(c, argc, argv);
        sim_conn_break(&c->base);
        return;
    }
    if (sim_net_strikes(s->net, s->net->faults.request_lost))
        return;
    serve_once(c, argc, argv);
    if (sim_net_strikes(s->net, s->net->faults.request_doubled))
        serve_once(c, argc, argv);
}
