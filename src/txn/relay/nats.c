/* SPDX-License-Identifier: Apache-2.0 */
/* NATS with JetStream, through libnats: nats://[user@]host[:port], natss: over TLS. ?token=1: the password is a token.
 *
 * publish: every message goes to its subject with the header Nats-Msg-Id and a reply subject of our own,
 * INBOX.BATCH.NUMBER; the stream that has the subject answers there. If no stream has it, the server says so at once
 * (no responders): REFUSED. So each answer can be matched to its message, however late it is, and libnats's own
 * publisher, which answers on threads of its own, is not needed. "No responders" is the exception: libnats does not
 * tell which message it is about. So after a batch that was not answered in full a new inbox is used.
 *
 * Subjects and headers are lines of the protocol, and libnats sends what it is given: a subject with a blank ends the
 * connection, and one with a line break would let its author send commands. Both are REFUSED here.
 *
 * Losses: without an answer a message is LOST and sent again; within the stream's window (2 minutes by default) the
 * server recognises its id. An answer does not mean that it is on disk: NATS 2.9 never waits for that (the relay keeps
 * the row until it is processed). Connections are not mended here: the lane opens another. */
#include "engine/url.h"
#include "txn/relay/broker.h"
#include "txn/relay/libnats.h"

#include <assert.h>
#include <inttypes.h>
#include <jansson.h>
#include <rota.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS INT64_C(1000000)
#define WRITE_LIMIT_MS 10000
#define BACK_MS 1000 /* what was given back comes again after this */
#define LINES 8      /* different reasons that one batch can have */

struct rt_broker {
    natsConnection *nc;
    jsCtx *js;
    natsSubscription *answers, *letters;
    natsInbox *inbox;
    uint64_t batch;
    natsMsgList fetched; /* those not yet given out start at `given` */
    int given;
    uint32_t ahead, ack_ms;
    natsMsg **open; /* given out and not answered; the token is the place, from 1 on */
    char why[LINES][RT_BROKER_LINE];
    size_t whys;
    char line[RT_BROKER_LINE];
};

/* ---- What went wrong ------------------------------------------------------------------- */

static void put_line(char *out, const char *what, const char *text)
{
    snprintf(out, RT_BROKER_LINE, "NATS: %s%s%s", what,
             what[0] != '\0' && text[0] != '\0' ? ": " : "", text);
    for (char *p = out; *p != '\0'; p++)
        if ((unsigned char)*p < ' ')
            *p = ' ';
}

static int failed(struct rt_broker *b, const char *doing, natsStatus s)
{
    natsStatus same = NATS_OK;
    const char *more = rt_nats.nats_GetLastError(&same);
    const char *text = more != NULL && more[0] != '\0' && same == s ? more
                                                                    : rt_nats.natsStatus_GetText(s);
    const char *behind = text[0] == '(' ? strstr(text, "): ") : NULL; /* a place in its sources */

    put_line(b->line, doing, behind != NULL ? behind + 3 : text);
    switch (s) {
    case NATS_CONNECTION_AUTH_FAILED:
    case NATS_NOT_PERMITTED:
        return ROTA_AUTH;
    case NATS_NO_MEMORY:
        return ROTA_NOMEM;
    case NATS_INVALID_ARG:
    case NATS_INVALID_SUBJECT:
    case NATS_NOT_FOUND:
        return ROTA_INVALID;
    default:
        return ROTA_UNREACHABLE;
    }
}

/* ---- Opening ------------------------------------------------------------------------------ */

static natsStatus secure(natsOptions *o, const struct rt_url *url)
{
    const char *ca = rt_url_param(url, "ca", NULL), *cert = rt_url_param(url, "cert", NULL);
    natsStatus s = rt_nats.natsOptions_SetSecure(o, true);

    if (s == NATS_OK && ca != NULL)
        s = rt_nats.natsOptions_LoadCATrustedCertificates(o, ca);
    if (s == NATS_OK && cert != NULL)
        s = rt_nats.natsOptions_LoadCertificatesChain(o, cert, rt_url_param(url, "key", cert));
    return s == NATS_OK ? rt_nats.natsOptions_SetExpectedHostname(o, url->hosts[0].host) : s;
}

static natsStatus identify(natsOptions *o, const struct rt_url *url, const char *password)
{
    if (strcmp(rt_url_param(url, "token", "0"), "1") == 0)
        return rt_nats.natsOptions_SetToken(o, password);
    return url->user[0] == '\0' ? NATS_OK : rt_nats.natsOptions_SetUserInfo(o, url->user, password);
}

static unsigned port_of(const struct rt_url *url)
{
    return url->hosts[0].port != 0 ? url->hosts[0].port : 4222;
}

static natsStatus describe(natsOptions *o, const struct rt_url *url, const char *password,
                           const char *app, int64_t ms)
{
    char where[300];
    natsStatus s;

    snprintf(where, sizeof(where),
             strchr(url->hosts[0].host, ':') ? "nats://[%s]:%u" : "nats://%s:%u",
             url->hosts[0].host, port_of(url));
    s = rt_nats.natsOptions_SetURL(o, where);
    if (s == NATS_OK)
        s = rt_nats.natsOptions_SetName(o, app);
    if (s == NATS_OK)
        s = rt_nats.natsOptions_SetAllowReconnect(o, false);
    if (s == NATS_OK)
        s = rt_nats.natsOptions_SetTimeout(o, ms);
    if (s == NATS_OK)
        s = rt_nats.natsOptions_SetWriteDeadline(o, WRITE_LIMIT_MS);
    if (s == NATS_OK && strcmp(url->scheme, "natss") == 0)
        s = secure(o, url);
    return s == NATS_OK ? identify(o, url, password) : s;
}

static int64_t ms_left(int64_t deadline)
{
    int64_t ms = (deadline - rt_relay_now()) / MS;

    return ms > 0 ? ms : 1;
}

/* Where answers come from now on; anything that comes to the last inbox is ignored. */
static natsStatus listen_anew(struct rt_broker *b)
{
    char subject[300];

    rt_nats.natsSubscription_Destroy(b->answers);
    rt_nats.natsInbox_Destroy(b->inbox);
    b->answers = NULL;
    b->inbox = NULL;
    natsStatus s = rt_nats.natsInbox_Create(&b->inbox);
    if (s != NATS_OK)
        return s;
    snprintf(subject, sizeof(subject), "%s.*.*", (const char *)b->inbox);
    s = rt_nats.natsConnection_SubscribeSync(&b->answers, b->nc, subject);
    return s == NATS_OK ? rt_nats.natsSubscription_SetPendingLimits(b->answers, -1, -1) : s;
}

static int set_up(struct rt_broker *b, const struct rt_url *url, const char *password,
                  const char *app, int64_t deadline)
{
    natsOptions *o = NULL;
    natsStatus s = rt_nats.natsOptions_Create(&o);

    if (s == NATS_OK)
        s = describe(o, url, password, app, ms_left(deadline));
    if (s == NATS_OK)
        s = rt_nats.natsConnection_Connect(&b->nc, o);
    rt_nats.natsOptions_Destroy(o);
    if (s != NATS_OK) {
        char doing[200];
        snprintf(doing, sizeof(doing), "connecting to %.150s:%u", url->hosts[0].host, port_of(url));
        return failed(b, doing, s);
    }
    s = rt_nats.natsConnection_JetStream(&b->js, b->nc, NULL);
    if (s == NATS_OK)
        s = listen_anew(b);
    if (s == NATS_OK)
        s = rt_nats.natsConnection_FlushTimeout(b->nc, ms_left(deadline));
    return s == NATS_OK ? 0 : failed(b, "connecting", s);
}

static void close_broker(struct rt_broker *b)
{
    for (uint32_t i = 0; i < b->ahead; i++)
        rt_nats.natsMsg_Destroy(b->open[i]);
    free(b->open);
    rt_nats.natsMsgList_Destroy(&b->fetched);
    rt_nats.natsSubscription_Destroy(b->letters);
    rt_nats.natsSubscription_Destroy(b->answers);
    rt_nats.natsInbox_Destroy(b->inbox);
    rt_nats.jsCtx_Destroy(b->js);
    rt_nats.natsConnection_Destroy(b->nc);
    free(b);
}

static int open_broker(struct rt_broker **out, const struct rt_url *url,
                       const struct rt_broker_options *opts, int64_t deadline, char *errmsg,
                       size_t size)
{
    char password[512];
    int err = rt_libnats_load(errmsg, size);

    if (err == 0)
        err = rt_url_password(url, password, sizeof(password), errmsg, size);
    if (err != 0)
        return err;
    struct rt_broker *b = calloc(1, sizeof(*b));
    if (b == NULL) {
        snprintf(errmsg, size, "no memory");
        explicit_bzero(password, sizeof(password));
        return ROTA_NOMEM;
    }
    b->ack_ms = opts->ack_ms != 0 ? opts->ack_ms : RT_BROKER_ACK_MS;
    err = set_up(b, url, url->password[0] != '\0' ? url->password : password,
                 opts->app != NULL ? opts->app : "rota-relay", deadline);
    explicit_bzero(password, sizeof(password));
    if (err != 0) {
        snprintf(errmsg, size, "%s", b->line);
        close_broker(b);
        return err;
    }
    *out = b;
    return 0;
}

/* ---- Publishing ------------------------------------------------------------------------------- */

static natsStatus send_one(struct rt_broker *b, const struct rt_message *m, size_t i)
{
    char reply[300];
    natsMsg *msg = NULL;

    snprintf(reply, sizeof(reply), "%s.%" PRIu64 ".%zu", (const char *)b->inbox, b->batch, i);
    natsStatus s = rt_nats.natsMsg_Create(&msg, m->topic, reply, m->body, (int)m->size);
    if (s == NATS_OK)
        s = rt_nats.natsMsgHeader_Set(msg, "Nats-Msg-Id", m->id);
    if (s == NATS_OK && m->key != NULL)
        s = rt_nats.natsMsgHeader_Set(msg, "Rota-Key", m->key);
    if (s == NATS_OK && m->type != NULL)
        s = rt_nats.natsMsgHeader_Set(msg, "Rota-Type", m->type);
    if (s == NATS_OK)
        s = rt_nats.natsConnection_PublishMsg(b->nc, msg);
    rt_nats.natsMsg_Destroy(msg);
    return s;
}

/* Words separated by dots, none of them empty or with a wildcard in it. */
static bool is_subject(const char *text)
{
    bool fresh = true; /* a word begins */

    for (; *text != '\0'; text++) {
        if ((unsigned char)*text <= ' ' || *text == '*' || *text == '>' || *text == 127)
            return false;
        if (*text == '.' && fresh)
            return false;
        fresh = *text == '.';
    }
    return !fresh;
}

/* Whether TEXT is a line that arrives as it was sent: readers drop blanks at its ends. */
static bool is_header(const char *text)
{
    size_t n = text != NULL ? strlen(text) : 0;

    for (size_t i = 0; i < n; i++)
        if ((unsigned char)text[i] < ' ' || text[i] == 127)
            return false;
    return n == 0 || (text[0] != ' ' && text[n - 1] != ' ');
}

/* Why M cannot be sent at all; NULL: it can. */
static const char *unfit(const struct rt_message *m)
{
    if (!is_subject(m->topic))
        return "its topic is not a subject: use words with dots between them, without blanks, '*' or '>'";
    if (!is_header(m->id) || !is_header(m->key) || !is_header(m->type))
        return "its id, key or type cannot be a header: it has a control character, or begins or ends with a "
               "blank";
    return NULL;
}

/* A reason in this batch; the last one kept has to do for all that come after it. */
static const char *reason(struct rt_broker *b, const char *what, const char *text)
{
    char line[RT_BROKER_LINE];

    put_line(line, what, text);
    for (size_t i = 0; i < b->whys; i++)
        if (strcmp(b->why[i], line) == 0)
            return b->why[i];
    if (b->whys == LINES)
        return b->why[LINES - 1];
    memcpy(b->why[b->whys], line, sizeof(line));
    return b->why[b->whys++];
}

#define ACCOUNT_FULL 10002 /* JetStream: "resource limits exceeded for account"; its code is 400 */

/* {"stream": S, "seq": N} or {"error": {"code": N, "err_code": N, "description": TEXT}}. Codes 5xx are about the state of
 * the server or the stream ("maximum messages exceeded", "insufficient resources"): FULL. */
static enum rt_sent judge(struct rt_broker *b, natsMsg *answer, const char **why)
{
    enum rt_sent sent = RT_SENT_LOST;
    json_error_t where;

    *why = reason(b, "the server could not store it", "");
    json_t *said = json_loadb(rt_nats.natsMsg_GetData(answer),
                              (size_t)rt_nats.natsMsg_GetDataLength(answer), 0, &where);
    const json_t *error = json_object_get(said, "error");
    if (error == NULL && json_string_value(json_object_get(said, "stream")) != NULL) {
        sent = RT_SENT_CONFIRMED;
    } else if (error != NULL) {
        const char *text = json_string_value(json_object_get(error, "description"));
        bool full = json_integer_value(json_object_get(error, "code")) >= 500 ||
                    json_integer_value(json_object_get(error, "err_code")) == ACCOUNT_FULL;
        sent = full ? RT_SENT_FULL : RT_SENT_REFUSED;
        *why = reason(b, "", text != NULL ? text : "refused");
    }
    json_decref(said);
    return sent;
}

/* Which message of this batch ANSWER is about; SIZE_MAX: none. */
static size_t about(const struct rt_broker *b, natsMsg *answer)
{
    const char *at = rt_nats.natsMsg_GetSubject(answer) + strlen((const char *)b->inbox);
    char *end = NULL;

    if (*at != '.' || strtoull(at + 1, &end, 10) != b->batch || *end != '.')
        return SIZE_MAX;
    return strtoull(end + 1, NULL, 10);
}

/* libnats does not tell which message had no responders. Once all others are answered, it is those that are left. */
static void refuse_rest(struct rt_broker *b, size_t n, enum rt_sent *sent, const char **why)
{
    for (size_t i = 0; i < n; i++)
        if (sent[i] == RT_SENT_LOST && why[i] == NULL) {
            sent[i] = RT_SENT_REFUSED;
            why[i] = reason(b, "no stream takes its subject", "");
        }
}

/* Reads answers until WAITING are there. */
static int collect(struct rt_broker *b, size_t n, size_t waiting, int64_t deadline,
                   enum rt_sent *sent, const char **why)
{
    size_t nobody = 0;

    while (waiting > nobody) {
        natsMsg *answer = NULL;
        natsStatus s = rt_nats.natsSubscription_NextMsg(&answer, b->answers, ms_left(deadline));
        if (s == NATS_TIMEOUT && rt_relay_now() >= deadline) {
            put_line(b->line, "answers did not come in time", "");
            return 0;
        }
        if (s == NATS_NO_RESPONDERS) {
            nobody++;
            continue;
        }
        if (s != NATS_OK && s != NATS_TIMEOUT) {
            failed(b, "waiting for answers", s);
            return ROTA_UNREACHABLE;
        }
        size_t i = s == NATS_OK ? about(b, answer) : SIZE_MAX;
        if (i < n && why[i] == NULL && sent[i] == RT_SENT_LOST) {
            sent[i] = judge(b, answer, &why[i]);
            waiting--;
        }
        rt_nats.natsMsg_Destroy(answer);
    }
    if (nobody > 0)
        refuse_rest(b, n, sent, why);
    return 0;
}

static int publish(struct rt_broker *b, const struct rt_message *messages, size_t n,
                   int64_t deadline, enum rt_sent *sent, const char **why)
{
    size_t waiting = 0, tried = 0, unanswered = 0;
    int err = 0;

    b->batch++;
    b->whys = 0;
    for (size_t i = 0; i < n; i++)
        sent[i] = RT_SENT_LOST, why[i] = NULL;
    for (size_t i = 0; err == 0 && i < n && rt_relay_now() < deadline; i++, tried++) {
        const char *bad = unfit(&messages[i]);
        if (bad != NULL) {
            sent[i] = RT_SENT_REFUSED;
            why[i] = reason(b, "", bad);
            continue;
        }
        natsStatus s = send_one(b, &messages[i], i);
        if (s == NATS_MAX_PAYLOAD || s == NATS_INVALID_SUBJECT || s == NATS_INVALID_ARG) {
            sent[i] = RT_SENT_REFUSED;
            why[i] = reason(b, "", rt_nats.natsStatus_GetText(s));
        } else if (s == NATS_OK) {
            waiting++;
        } else {
            failed(b, "publishing", s);
            err = ROTA_UNREACHABLE;
        }
    }
    int heard = collect(b, tried, waiting, err == 0 ? deadline : rt_relay_now(), sent, why);
    if (err != 0 || heard != 0)
        return err != 0 ? err : heard;
    for (size_t i = 0; i < tried; i++)
        unanswered += sent[i] == RT_SENT_LOST && why[i] == NULL;
    if (unanswered > 0) {
        natsStatus s = listen_anew(b);
        if (s != NATS_OK)
            return failed(b, "listening for answers", s), ROTA_UNREACHABLE;
    }
    if (tried == n)
        return 0;
    put_line(b->line, "it is slow: not all could be sent in time", "");
    return ROTA_BUSY;
}

/* ---- Taking ------------------------------------------------------------------------------------- */

/* SOURCE: STREAM, or STREAM/SUBJECT. */
static int subscribe(struct rt_broker *b, const char *source, const char *group, uint32_t ahead)
{
    char stream[256], doing[200];
    const char *slash = strchr(source, '/');
    jsSubOptions o;
    jsErrCode code = 0;

    assert(b->open == NULL && ahead > 0);
    b->open = calloc(ahead, sizeof(natsMsg *));
    if (b->open == NULL)
        return ROTA_NOMEM;
    b->ahead = ahead;
    snprintf(stream, sizeof(stream), "%.*s",
             slash != NULL ? (int)(slash - source) : (int)strlen(source), source);
    rt_nats.jsSubOptions_Init(&o);
    o.Stream = stream;
    o.Config.MaxAckPending = ahead;
    o.Config.AckWait = (int64_t)b->ack_ms * MS;
    natsStatus s = rt_nats.js_PullSubscribe(&b->letters, b->js, slash != NULL ? slash + 1 : ">",
                                            group, NULL, &o, &code);
    if (s == NATS_OK)
        return 0;
    snprintf(doing, sizeof(doing), "subscribing to %.100s as %.60s", source, group);
    int err = failed(b, doing, s);
    return s == NATS_ERR ? ROTA_INVALID : err; /* no such stream; a consumer that differs */
}

static int fetch(struct rt_broker *b, int64_t deadline)
{
    jsErrCode code = 0;

    rt_nats.natsMsgList_Destroy(&b->fetched);
    b->given = 0;
    natsStatus s = rt_nats.natsSubscription_Fetch(&b->fetched, b->letters, (int)b->ahead,
                                                  ms_left(deadline), &code);
    if (s == NATS_TIMEOUT)
        return ROTA_BUSY;
    return s == NATS_OK ? 0 : (failed(b, "taking", s), ROTA_UNREACHABLE);
}

static const char *header(natsMsg *msg, const char *name)
{
    const char *value = NULL;

    return rt_nats.natsMsgHeader_Get(msg, name, &value) == NATS_OK ? value : NULL;
}

static int next(struct rt_broker *b, int64_t deadline, struct rt_message *out, uint64_t *token)
{
    uint32_t place = 0;
    int err = b->given < b->fetched.Count ? 0 : fetch(b, deadline);

    if (err != 0)
        return err;
    while (b->open[place] != NULL)
        place++;
    assert(place < b->ahead);
    natsMsg *msg = b->fetched.Msgs[b->given];
    b->fetched.Msgs[b->given++] = NULL;
    b->open[place] = msg;
    *token = place + 1;
    const char *id = header(msg, "Nats-Msg-Id");
    *out = (struct rt_message){.id = id != NULL ? id : "",
                               .topic = rt_nats.natsMsg_GetSubject(msg),
                               .key = header(msg, "Rota-Key"),
                               .type = header(msg, "Rota-Type"),
                               .body = rt_nats.natsMsg_GetData(msg),
                               .size = (size_t)rt_nats.natsMsg_GetDataLength(msg)};
    return 0;
}

enum verdict { TAKEN, BACK, LEFT };

static int answer(struct rt_broker *b, uint64_t token, enum verdict verdict)
{
    natsMsg *msg = b->open[token - 1];
    jsErrCode code = 0;

    assert(msg != NULL);
    natsStatus s = verdict == TAKEN  ? rt_nats.natsMsg_AckSync(msg, NULL, &code)
                   : verdict == BACK ? rt_nats.natsMsg_NakWithDelay(msg, BACK_MS, NULL)
                                     : rt_nats.natsMsg_Term(msg, NULL);
    rt_nats.natsMsg_Destroy(msg);
    b->open[token - 1] = NULL;
    return s == NATS_OK ? 0 : (failed(b, "acknowledging", s), ROTA_UNREACHABLE);
}

static int ack(struct rt_broker *b, uint64_t token)
{
    return answer(b, token, TAKEN);
}

static int give_back(struct rt_broker *b, uint64_t token)
{
    return answer(b, token, BACK);
}

static int leave(struct rt_broker *b, uint64_t token)
{
    return answer(b, token, LEFT);
}

static int keep(struct rt_broker *b, uint64_t token)
{
    natsStatus s = rt_nats.natsMsg_InProgress(b->open[token - 1], NULL);

    return s == NATS_OK ? 0 : (failed(b, "keeping", s), ROTA_UNREACHABLE);
}

static const char *errmsg_of(const struct rt_broker *b)
{
    return b->line;
}

static size_t body_max(const struct rt_broker *b)
{
    int64_t most = rt_nats.natsConnection_GetMaxPayload(b->nc);

    return most > 1024 ? (size_t)most - 1024 : 0; /* it counts the headers too */
}

const struct rt_broker_kind rt_broker_nats = {
    .schemes = (const char *const[]){"nats", "natss", NULL},
    .params = (const char *const[]){"token", "password_file", NULL},
    .open = open_broker,
    .close = close_broker,
    .publish = publish,
    .subscribe = subscribe,
    .next = next,
    .ack = ack,
    .back = give_back,
    .leave = leave,
    .keep = keep,
    .errmsg = errmsg_of,
    .body_max = body_max,
};
