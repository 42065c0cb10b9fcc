/* SPDX-License-Identifier: Apache-2.0 */
/* Reads just enough of etcd's messages to tell them apart: the first levels of their fields. */
#include "proxy_etcd.h"

#include <stdio.h>
#include <string.h>

#define WATCH "/etcdserverpb.Watch/Watch"
#define KEEP_ALIVE "/etcdserverpb.Lease/LeaseKeepAlive"
#define TXN "/etcdserverpb.KV/Txn"

enum { CREATE = 1, CANCEL = 2, PROGRESS = 3 }; /* fields of WatchRequest, and sorts */

struct field {
    uint32_t number;
    uint64_t value; /* of a varint */
    const uint8_t *at;
    size_t size; /* of what is in it */
};

static bool varint(const uint8_t **at, const uint8_t *end, uint64_t *out)
{
    *out = 0;
    for (unsigned shift = 0; *at < end && shift < 64; shift += 7) {
        uint8_t byte = *(*at)++;

        *out |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return true;
    }
    return false;
}

/* False: the end, or what is left is cut short or not protobuf. */
static bool next_field(const uint8_t **at, const uint8_t *end, struct field *f)
{
    uint64_t tag, size;

    *f = (struct field){0};
    if (!varint(at, end, &tag))
        return false;
    f->number = (uint32_t)(tag >> 3);
    if ((tag & 7) == 0)
        return varint(at, end, &f->value);
    if ((tag & 7) != 2 || !varint(at, end, &size))
        return false;
    f->at = *at;
    f->size = size < (uint64_t)(end - *at) ? (size_t)size : (size_t)(end - *at);
    *at += f->size;
    return true;
}

/* What a Txn does when its condition holds, in order. */
static void txn_gist(const uint8_t *at, const uint8_t *end, char *what, size_t room)
{
    static const char *const ops[] = {"?", "range", "put", "delete", "txn"};
    struct field f, op;
    size_t n = 0;

    while (next_field(&at, end, &f)) {
        const uint8_t *in = f.at;

        if (f.number != 2 || in == NULL || !next_field(&in, f.at + f.size, &op))
            continue;
        n += (size_t)snprintf(what + n, room - n, "%s%s", n > 0 ? "," : "",
                              ops[op.number < 5 ? op.number : 0]);
        if (n >= room)
            return;
    }
}

static void watch_request(const uint8_t *at, const uint8_t *end, struct rt_etcd_gist *out)
{
    static const char *const sorts[] = {"?", "create", "cancel", "progress"};
    struct field f;

    if (next_field(&at, end, &f) && f.number <= PROGRESS)
        out->sort = f.number;
    snprintf(out->what, sizeof(out->what), "%s", sorts[out->sort]);
}

/* A watch that cannot be created is both: created and canceled. */
static void watch_reply(const uint8_t *at, const uint8_t *end, struct rt_etcd_gist *out)
{
    bool created = false, canceled = false, events = false;
    struct field f;

    while (next_field(&at, end, &f)) {
        created = created || (f.number == 3 && f.value != 0);
        canceled = canceled || (f.number == 4 && f.value != 0);
        events = events || f.number == 11;
    }
    out->kind = events ? RT_MESSAGE_PUSH : RT_MESSAGE_REPLY;
    out->sort = created ? CREATE : canceled ? CANCEL : PROGRESS;
    snprintf(out->what, sizeof(out->what), "%s",
             events     ? "events"
             : created  ? "created"
             : canceled ? "canceled"
                        : "progress");
}

bool rt_etcd_lasts(const char *path)
{
    return strcmp(path, WATCH) == 0 || strcmp(path, KEEP_ALIVE) == 0;
}

void rt_etcd_gist(const char *path, enum rt_proxy_dir dir, const uint8_t *bytes, size_t size,
                  struct rt_etcd_gist *out)
{
    const uint8_t *end = bytes + size;

    *out = (struct rt_etcd_gist){.kind = dir == RT_PROXY_UP ? RT_MESSAGE_REQUEST
                                                            : RT_MESSAGE_REPLY};
    if (strcmp(path, WATCH) == 0 && dir == RT_PROXY_UP)
        watch_request(bytes, end, out);
    else if (strcmp(path, WATCH) == 0)
        watch_reply(bytes, end, out);
    else if (strcmp(path, TXN) == 0 && dir == RT_PROXY_UP)
        txn_gist(bytes, end, out->what, sizeof(out->what));
}
