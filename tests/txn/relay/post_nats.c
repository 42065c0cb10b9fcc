/* SPDX-License-Identifier: Apache-2.0 */
/* NATS for the suite: a topic is a subject with a stream of its own. */
#include "lib/nats_server.h"
#include "post.h"
#include "txn/relay/libnats.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define DUPLICATES_NS INT64_C(500000000) /* less than after what relays publish again */

static struct rt_nats_server server;

static struct rt_server *start(void)
{
    static const struct rt_nats_options opts = {.user = "guest", .password = "guest"};

    rt_nats_start(&server, &opts);
    return &server.server;
}

static void run(void)
{
    rt_nats_run(&server);
}

static void fini(void)
{
    rt_nats_fini(&server);
}

static void url(char *out, size_t size, const char *user_at, const char *params)
{
    snprintf(out, size, "nats://%s127.0.0.1:%u%s", user_at[0] != '\0' ? user_at : "guest:guest@",
             server.server.port, params);
}

static void stream_name(char *out, size_t size, const char *topic)
{
    snprintf(out, size, "%s", topic);
    for (char *p = out; *p != '\0'; p++)
        if (*p == '.')
            *p = '_';
}

static void add_stream(const char *topic, int64_t most)
{
    char where[128], name[128];
    natsConnection *nc = NULL;
    jsCtx *js = NULL;
    jsStreamConfig cfg;

    snprintf(where, sizeof(where), "nats://guest:guest@127.0.0.1:%u", server.server.port);
    stream_name(name, sizeof(name), topic);
    assert(natsConnection_ConnectTo(&nc, where) == NATS_OK);
    assert(natsConnection_JetStream(&js, nc, NULL) == NATS_OK);
    jsStreamConfig_Init(&cfg);
    cfg.Name = name;
    cfg.Subjects = &topic;
    cfg.SubjectsLen = 1;
    cfg.Duplicates = DUPLICATES_NS;
    cfg.MaxMsgs = most;
    cfg.Discard = most > 0 ? js_DiscardNew : js_DiscardOld;
    assert(js_AddStream(NULL, js, &cfg, NULL, NULL) == NATS_OK);
    jsCtx_Destroy(js);
    natsConnection_Destroy(nc);
}

static void route(const char *topic)
{
    add_stream(topic, -1);
}

static void route_two(const char *topic)
{
    add_stream(topic, 2);
}

static void source(char *out, size_t size, const char *topic)
{
    stream_name(out, size, topic);
}

const struct post POST = {
    .kind = &rt_broker_nats,
    .refuses_without_route = true,
    .has_passwords = true,
    .bad_topics = (const char *const[]){"", "two words", "a 0\r\n\r\nPUB led 3\r\nbad", "a\tb",
                                        "a..b", ".a", "a.", "led.*", ">", NULL},
    .has_short_limit = true,
    .bad_key = "a\r\nNats-Msg-Id: r-1",
    .start = start,
    .run = run,
    .fini = fini,
    .url = url,
    .route = route,
    .route_two = route_two,
    .full = "maximum messages exceeded",
    .source = source,
};
