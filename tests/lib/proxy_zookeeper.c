/* SPDX-License-Identifier: Apache-2.0 */
/* How the fault proxy finds messages in ZooKeeper's protocol (without TLS). */
#include "proxy_framing.h"

#include <stdio.h>
#include <string.h>

#define HEAD_UP 8    /* xid, call */
#define HEAD_DOWN 16 /* xid, zxid, error */
#define MESSAGE_MAX (64u << 20)

struct zookeeper_state {
    bool greeted[2]; /* by direction: the first message is the session's, and has no xid */
};

static uint32_t get(const char *at)
{
    const uint8_t *u = (const uint8_t *)at;
    return (uint32_t)u[0] << 24 | (uint32_t)u[1] << 16 | (uint32_t)u[2] << 8 | u[3];
}

static const char *call_name(int32_t call)
{
    static const struct {
        int32_t call;
        const char *name;
    } calls[] = {{1, "create"},     {2, "delete"},          {3, "exists"},        {4, "getData"},
                 {5, "setData"},    {6, "getACL"},          {8, "getChildren"},   {9, "sync"},
                 {11, "ping"},      {13, "check"},          {14, "multi"},        {15, "create2"},
                 {19, "container"}, {103, "getEphemerals"}, {-11, "closeSession"}};
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        if (calls[i].call == call)
            return calls[i].name;
    return "call";
}

/* Adds the text at AT, preceded by its size, as far as there is one. */
static void add_text(char *out, size_t room, const char *at, size_t left)
{
    size_t n = left >= 4 ? get(at) : 0;
    n = left >= 4 && n <= left - 4 ? n : 0;
    snprintf(out + strlen(out), room - strlen(out), " %.*s", (int)n, at + 4);
}

static void say_multi(char *out, size_t room, const char *at, size_t left)
{
    /* What is in it: the first parts, as far as they can be told without reading all. */
    if (left >= 9)
        snprintf(out + strlen(out), room - strlen(out), " %s", call_name((int32_t)get(at)));
    if (left >= 13)
        add_text(out, room, at + 9, left - 9);
}

static void read_up(struct rt_proxy_message *msg, const char *body, size_t size)
{
    int32_t xid = (int32_t)get(body), call = (int32_t)get(body + 4);
    if (xid < 0)
        return; /* authentication, watches set anew */
    msg->kind = RT_MESSAGE_REQUEST;
    snprintf(msg->words, sizeof(msg->words), "%s", call_name(call));
    if (call == 14)
        say_multi(msg->words, sizeof(msg->words), body + HEAD_UP, size - HEAD_UP);
    else if (call != -11)
        add_text(msg->words, sizeof(msg->words), body + HEAD_UP, size - HEAD_UP);
}

static void read_down(struct rt_proxy_message *msg, const char *body, size_t size)
{
    int32_t xid = (int32_t)get(body);
    if (xid == -1 && size >= HEAD_DOWN + 8) {
        static const char *const events[] = {"event", "created", "deleted", "changed", "children"};
        uint32_t event = get(body + HEAD_DOWN);
        msg->kind = RT_MESSAGE_PUSH;
        snprintf(msg->words, sizeof(msg->words), "%s", events[event < 5 ? event : 0]);
        add_text(msg->words, sizeof(msg->words), body + HEAD_DOWN + 8, size - HEAD_DOWN - 8);
    } else if (xid >= 0) {
        msg->kind = RT_MESSAGE_REPLY;
        snprintf(msg->words, sizeof(msg->words), "said %d", (int)get(body + 12));
    }
}

static ptrdiff_t zookeeper_next(void *state, enum rt_proxy_dir dir, const char *data, size_t len,
                                struct rt_proxy_message *msg)
{
    struct zookeeper_state *st = state;
    size_t size = len >= 4 ? get(data) : 0;
    msg->kind = RT_MESSAGE_BYTES;
    msg->words[0] = '\0';
    if (len < 4 || (size <= MESSAGE_MAX && len - 4 < size))
        return 0;
    if (size == 0 || size > MESSAGE_MAX)
        return -1;
    bool first = !st->greeted[dir];
    st->greeted[dir] = true;
    if (!first && dir == RT_PROXY_UP && size >= HEAD_UP)
        read_up(msg, data + 4, size);
    else if (!first && dir == RT_PROXY_DOWN && size >= HEAD_DOWN)
        read_down(msg, data + 4, size);
    return (ptrdiff_t)(size + 4);
}

const struct rt_proxy_framing rt_proxy_zookeeper = {
    .name = "zookeeper", .state_size = sizeof(struct zookeeper_state), .next = zookeeper_next};
