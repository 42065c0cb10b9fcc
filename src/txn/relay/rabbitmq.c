/* SPDX-License-Identifier: Apache-2.0 */
/* RabbitMQ, through librabbitmq: amqp://[user@]host[:port]/[vhost][?exchange=NAME], amqps: the same over TLS.
 *
 * publish: every message leaves persistent, mandatory, with its id; then basic.ack and .nack are read, `multiple` ones too,
 * until each has one. basic.return comes before the ack of the same message: no queue takes it, REFUSED. A nack: a
 * queue has no room, FULL.
 *
 * Losses: without its ack a message is LOST, and sent again with the same message_id. What closes the channel (the
 * exchange went away, too long a body) is said in `line` and costs the connection; the next open finds out. A message
 * that was found too long while it was alone is REFUSED: among others nobody knows which one it was. connection.blocked
 * (memory, disk): ROTA_BUSY. A broker that stops reading is given up after a while (TCP_USER_TIMEOUT), because
 * librabbitmq would wait for ever to send. */
#include "engine/url.h"
#include "txn/relay/broker.h"
#include "txn/relay/librabbitmq.h"

#include <assert.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <rota.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHANNEL 1
#define HEARTBEAT 30        /* seconds */
#define SEND_LIMIT_MS 10000 /* the broker reads nothing for this long: it is gone */
#define FRAME_MAX 131072
#define LOOK_EACH 64 /* messages, then acks and blocked are read */
#define PERSISTENT 2
#define SHORT_MOST 255 /* bytes of a routing key, an id, a type */
#define KEY_MOST 65536 /* bytes of our header: all of them are in one frame */

struct letter { /* a message delivered and not answered yet */
    amqp_envelope_t envelope;
    bool used;
    char *id, *topic, *key, *type; /* with an end */
};

struct rt_broker {
    amqp_connection_state_t conn;
    char exchange[256];
    uint64_t tag; /* of the last message that was sent */
    bool blocked;
    /* the batch under way */
    const struct rt_message *messages;
    enum rt_sent *sent;
    const char **why;
    bool *waits;   /* sent, and neither ack nor nack came */
    size_t *place; /* which message has the tag first + i: those that cannot be sent have none */
    size_t count, waiting, room, tags;
    size_t low;     /* all tags before it have been answered */
    uint64_t first; /* its first tag */
    char unroutable[RT_BROKER_LINE];
    struct letter *letters;
    uint32_t ahead;
    char line[RT_BROKER_LINE];
};

/* librabbitmq's own constants are symbols of the library. */
#define NO_BYTES ((amqp_bytes_t){.len = 0})
#define NO_TABLE ((amqp_table_t){.num_entries = 0})

/* librabbitmq does not write to what it is given. */
static amqp_bytes_t sized(const void *from, size_t size)
{
    amqp_bytes_t out = {.len = size};

    memcpy(&out.bytes, &from, sizeof(from));
    return out;
}

static amqp_bytes_t bytes(const char *text)
{
    return sized(text, strlen(text));
}

/* ---- What went wrong -------------------------------------------------------------- */

static void say_bytes(struct rt_broker *b, const char *doing, const char *text, size_t length)
{
    snprintf(b->line, sizeof(b->line), "RabbitMQ: %s: %.*s", doing, (int)length, text);
    for (char *p = b->line; *p != '\0'; p++)
        if ((unsigned char)*p < ' ')
            *p = ' ';
}

static void say(struct rt_broker *b, const char *doing, const char *text)
{
    say_bytes(b, doing, text, strlen(text));
}

static int failed(struct rt_broker *b, const char *doing, int status)
{
    const char *text = rt_amqp.error_string2(status);

    say(b, doing, text);
    return ROTA_UNREACHABLE;
}

/* The server's own words in a close. */
static int closed(struct rt_broker *b, const char *doing, const amqp_method_t *method)
{
    int code = 0;
    amqp_bytes_t text = {0};

    if (method->id == AMQP_CHANNEL_CLOSE_METHOD) {
        const amqp_channel_close_t *m = method->decoded;
        code = m->reply_code, text = m->reply_text;
    } else if (method->id == AMQP_CONNECTION_CLOSE_METHOD) {
        const amqp_connection_close_t *m = method->decoded;
        code = m->reply_code, text = m->reply_text;
    }
    say_bytes(b, doing, text.bytes, text.len);
    switch (code) {
    case AMQP_ACCESS_REFUSED:
        return ROTA_AUTH;
    case AMQP_NOT_FOUND:
    case AMQP_PRECONDITION_FAILED:
    case AMQP_NOT_ALLOWED:
        return ROTA_INVALID;
    default:
        return ROTA_UNREACHABLE;
    }
}

static int judged(struct rt_broker *b, const char *doing, amqp_rpc_reply_t reply)
{
    switch (reply.reply_type) {
    case AMQP_RESPONSE_NORMAL:
        return 0;
    case AMQP_RESPONSE_SERVER_EXCEPTION:
        return closed(b, doing, &reply.reply);
    default:
        return failed(b, doing, reply.library_error);
    }
}

/* ---- Opening ------------------------------------------------------------------------ */

static struct timeval left(int64_t deadline)
{
    int64_t ns = deadline - rt_relay_now();

    if (ns < 0)
        ns = 0;
    return (struct timeval){.tv_sec = ns / 1000000000, .tv_usec = ns % 1000000000 / 1000};
}

static amqp_socket_t *secured(struct rt_broker *b, const struct rt_url *url)
{
    amqp_socket_t *socket = rt_amqp.ssl_socket_new(b->conn);
    const char *ca = rt_url_param(url, "ca", NULL), *cert = rt_url_param(url, "cert", NULL);

    if (socket == NULL)
        return NULL;
    rt_amqp.ssl_socket_set_verify_peer(socket, 1);
    rt_amqp.ssl_socket_set_verify_hostname(socket, 1);
    rt_amqp.ssl_socket_set_ssl_versions(socket, AMQP_TLSv1_2, AMQP_TLSvLATEST);
    if (ca != NULL && rt_amqp.ssl_socket_set_cacert(socket, ca) != 0)
        return NULL;
    if (cert != NULL &&
        rt_amqp.ssl_socket_set_key(socket, cert, rt_url_param(url, "key", cert)) != 0)
        return NULL;
    return socket;
}

static int log_in(struct rt_broker *b, const struct rt_url *url, const char *password,
                  const char *app)
{
    amqp_table_entry_t can[2], own[2];
    const char *user = url->user[0] != '\0' ? url->user : "guest";
    const char *vhost = url->path[0] == '/' ? url->path + 1 : url->path;

    can[0] = (amqp_table_entry_t){.key = bytes("connection.blocked"),
                                  .value = {.kind = AMQP_FIELD_KIND_BOOLEAN, .value.boolean = 1}};
    can[1] = (amqp_table_entry_t){.key = bytes("authentication_failure_close"),
                                  .value = {.kind = AMQP_FIELD_KIND_BOOLEAN, .value.boolean = 1}};
    own[0] = (amqp_table_entry_t){.key = bytes("capabilities"),
                                  .value = {.kind = AMQP_FIELD_KIND_TABLE,
                                            .value.table = {.num_entries = 2, .entries = can}}};
    own[1] = (amqp_table_entry_t){
        .key = bytes("connection_name"),
        .value = {.kind = AMQP_FIELD_KIND_UTF8, .value.bytes = bytes(app)}};
    const amqp_table_t properties = {.num_entries = 2, .entries = own};
    return judged(b, "logging in",
                  rt_amqp.login_with_properties(b->conn, vhost[0] != '\0' ? vhost : "/", 0,
                                                FRAME_MAX, HEARTBEAT, &properties,
                                                AMQP_SASL_METHOD_PLAIN, user, password));
}

/* Reports a missing exchange now, not for each message. */
static int look_for_exchange(struct rt_broker *b)
{
    if (b->exchange[0] == '\0')
        return 0;
    rt_amqp.exchange_declare(b->conn, CHANNEL, bytes(b->exchange), bytes("direct"), 1, 0, 0, 0,
                             NO_TABLE);
    return judged(b, "looking for the exchange", rt_amqp.get_rpc_reply(b->conn));
}

static int set_up(struct rt_broker *b, const struct rt_url *url, const char *password,
                  const char *app, int64_t deadline)
{
    bool tls = strcmp(url->scheme, "amqps") == 0;
    struct timeval tv = left(deadline);
    unsigned gone = SEND_LIMIT_MS;
    uint16_t port = url->hosts[0].port != 0 ? url->hosts[0].port : tls ? 5671 : 5672;
    amqp_socket_t *socket = tls ? secured(b, url) : rt_amqp.tcp_socket_new(b->conn);

    if (socket == NULL) {
        say(b, "TLS", "a certificate or a key cannot be read");
        return ROTA_INVALID;
    }
    int status = rt_amqp.socket_open_noblock(socket, url->hosts[0].host, port, &tv);
    if (status != AMQP_STATUS_OK) {
        char doing[200];
        snprintf(doing, sizeof(doing), "connecting to %.150s:%u", url->hosts[0].host, port);
        return failed(b, doing, status);
    }
    setsockopt(rt_amqp.get_sockfd(b->conn), IPPROTO_TCP, TCP_USER_TIMEOUT, &gone, sizeof(gone));
    tv = left(deadline);
    rt_amqp.set_handshake_timeout(b->conn, &tv);
    rt_amqp.set_rpc_timeout(b->conn, &tv);
    int err = log_in(b, url, password, app);
    if (err != 0)
        return err;
    rt_amqp.channel_open(b->conn, CHANNEL);
    err = judged(b, "opening a channel", rt_amqp.get_rpc_reply(b->conn));
    if (err == 0)
        err = look_for_exchange(b);
    if (err != 0)
        return err;
    rt_amqp.confirm_select(b->conn, CHANNEL);
    return judged(b, "asking for confirms", rt_amqp.get_rpc_reply(b->conn));
}

static void forget(struct letter *letter)
{
    if (!letter->used)
        return;
    free(letter->id);
    free(letter->topic);
    free(letter->key);
    free(letter->type);
    rt_amqp.destroy_envelope(&letter->envelope);
    letter->used = false;
}

static void end(struct rt_broker *b)
{
    for (uint32_t i = 0; i < b->ahead; i++)
        forget(&b->letters[i]);
    free(b->letters);
    free(b->waits);
    free(b->place);
    if (b->conn != NULL)
        rt_amqp.destroy_connection(b->conn);
    free(b);
}

static int open_broker(struct rt_broker **out, const struct rt_url *url,
                       const struct rt_broker_options *opts, int64_t deadline, char *errmsg,
                       size_t size)
{
    char password[512];
    int err = rt_librabbitmq_load(errmsg, size);

    if (err == 0)
        err = rt_url_password(url, password, sizeof(password), errmsg, size);
    if (err != 0)
        return err;
    struct rt_broker *b = calloc(1, sizeof(*b));
    if (b == NULL || (b->conn = rt_amqp.new_connection()) == NULL) {
        snprintf(errmsg, size, "no memory");
        explicit_bzero(password, sizeof(password));
        free(b);
        return ROTA_NOMEM;
    }
    const char *user_password = url->password[0] != '\0' ? url->password
                                : password[0] != '\0'    ? password
                                : url->user[0] == '\0'   ? "guest"
                                                         : "";
    snprintf(b->exchange, sizeof(b->exchange), "%s", rt_url_param(url, "exchange", ""));
    err = set_up(b, url, user_password, opts->app != NULL ? opts->app : "rota-relay", deadline);
    explicit_bzero(password, sizeof(password));
    if (err != 0) {
        snprintf(errmsg, size, "%s", b->line);
        end(b);
        return err;
    }
    *out = b;
    return 0;
}

static void close_broker(struct rt_broker *b)
{
    struct timeval tv = {.tv_sec = 1};

    rt_amqp.set_rpc_timeout(b->conn, &tv);
    rt_amqp.connection_close(b->conn, AMQP_REPLY_SUCCESS);
    end(b);
}

/* ---- Publishing ---------------------------------------------------------------------- */

static int send_one(struct rt_broker *b, const struct rt_message *m)
{
    amqp_table_entry_t header[1];
    amqp_basic_properties_t p = {
        ._flags = AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_MESSAGE_ID_FLAG,
        .delivery_mode = PERSISTENT,
        .message_id = bytes(m->id),
    };

    if (m->type != NULL) {
        p._flags |= AMQP_BASIC_TYPE_FLAG;
        p.type = bytes(m->type);
    }
    if (m->key != NULL) {
        header[0] = (amqp_table_entry_t){
            .key = bytes("rota-key"),
            .value = {.kind = AMQP_FIELD_KIND_UTF8, .value.bytes = bytes(m->key)}};
        p._flags |= AMQP_BASIC_HEADERS_FLAG;
        p.headers = (amqp_table_t){.num_entries = 1, .entries = header};
    }
    int status = rt_amqp.basic_publish(b->conn, CHANNEL, bytes(b->exchange), bytes(m->topic), 1, 0,
                                       &p, sized(m->body, m->size));
    if (status != AMQP_STATUS_OK)
        return failed(b, "publishing", status);
    b->tag++;
    return 0;
}

static void settle(struct rt_broker *b, size_t i, bool taken)
{
    if (!b->waits[i])
        return;
    b->waits[i] = false;
    b->waiting--;
    if (b->sent[i] != RT_SENT_LOST)
        return; /* what was returned is confirmed too: it stays REFUSED */
    b->sent[i] = taken ? RT_SENT_CONFIRMED : RT_SENT_FULL;
    if (!taken) /* a nack has no words */
        b->why[i] =
            "RabbitMQ: a queue has no room for it (nack: x-max-length with x-overflow=reject-publish), "
            "or could not store it";
}

/* An ack (TAKEN) or a nack: for TAG, or for all up to it. */
static void answered(struct rt_broker *b, uint64_t tag, bool multiple, bool taken)
{
    if (tag < b->first || tag > b->tag)
        return; /* of a batch that was given up */
    size_t i = (size_t)(tag - b->first);
    for (size_t k = multiple ? b->low : i; k <= i; k++)
        settle(b, b->place[k], taken);
    while (b->low < b->tags && !b->waits[b->place[b->low]])
        b->low++;
}

/* basic.return: no queue takes the message that follows it. */
static int returned(struct rt_broker *b, const amqp_basic_return_t *m)
{
    amqp_message_t message;

    snprintf(b->unroutable, sizeof(b->unroutable), "RabbitMQ: no queue takes it: %.*s",
             (int)m->reply_text.len, (const char *)m->reply_text.bytes);
    int err = judged(b, "reading a message that came back",
                     rt_amqp.read_message(b->conn, CHANNEL, &message, 0));
    if (err != 0)
        return err;
    for (size_t i = 0; i < b->count; i++) {
        amqp_bytes_t id = message.properties.message_id;
        if (b->waits[i] && strlen(b->messages[i].id) == id.len &&
            memcmp(b->messages[i].id, id.bytes, id.len) == 0) {
            b->sent[i] = RT_SENT_REFUSED;
            b->why[i] = b->unroutable;
            break;
        }
    }
    rt_amqp.destroy_message(&message);
    return 0;
}

/* Whether the broker closed the channel over what a message is, not over where it went. */
static bool is_precondition(const amqp_method_t *method)
{
    const amqp_channel_close_t *m = method->decoded;

    return method->id == AMQP_CHANNEL_CLOSE_METHOD && m->reply_code == AMQP_PRECONDITION_FAILED;
}

/* A method that came by itself. */
static int heard(struct rt_broker *b, const amqp_method_t *method)
{
    switch (method->id) {
    case AMQP_BASIC_ACK_METHOD: {
        const amqp_basic_ack_t *m = method->decoded;
        answered(b, m->delivery_tag, m->multiple, true);
        return 0;
    }
    case AMQP_BASIC_NACK_METHOD: {
        const amqp_basic_nack_t *m = method->decoded;
        answered(b, m->delivery_tag, m->multiple, false);
        return 0;
    }
    case AMQP_BASIC_RETURN_METHOD:
        return returned(b, method->decoded);
    case AMQP_CONNECTION_BLOCKED_METHOD:
        b->blocked = true;
        return 0;
    case AMQP_CONNECTION_UNBLOCKED_METHOD:
        b->blocked = false;
        return 0;
    case AMQP_CHANNEL_CLOSE_METHOD:
    case AMQP_CONNECTION_CLOSE_METHOD:
        closed(b, "publishing", method);
        if (b->tags == 1 && b->waits[b->place[0]] && is_precondition(method)) {
            b->sent[b->place[0]] = RT_SENT_REFUSED;
            b->why[b->place[0]] = b->line;
        }
        return ROTA_UNREACHABLE;
    default:
        return 0;
    }
}

/* Reads what there is; WAIT: until something came, or DEADLINE. ROTA_BUSY: nothing did. */
static int listen_to(struct rt_broker *b, bool wait, int64_t deadline)
{
    amqp_frame_t frame;
    struct timeval tv = wait ? left(deadline) : (struct timeval){0};

    rt_amqp.maybe_release_buffers(b->conn);
    int status = rt_amqp.simple_wait_frame_noblock(b->conn, &frame, &tv);
    if (status == AMQP_STATUS_TIMEOUT)
        return ROTA_BUSY;
    if (status != AMQP_STATUS_OK)
        return failed(b, "waiting for confirms", status);
    return frame.frame_type == AMQP_FRAME_METHOD ? heard(b, &frame.payload.method) : 0;
}

static int listen_on(struct rt_broker *b)
{
    int err;

    do
        err = listen_to(b, false, 0);
    while (err == 0);
    return err == ROTA_BUSY ? 0 : err;
}

static bool begin(struct rt_broker *b, const struct rt_message *messages, size_t n,
                  enum rt_sent *sent, const char **why)
{
    if (n > b->room) {
        bool *more = realloc(b->waits, n * sizeof(*more));
        if (more == NULL)
            return false;
        b->waits = more;
        size_t *places = realloc(b->place, n * sizeof(*places));
        if (places == NULL)
            return false;
        b->place = places;
        b->room = n;
    }
    b->messages = messages;
    b->sent = sent;
    b->why = why;
    b->count = n;
    b->waiting = b->low = b->tags = 0;
    b->first = b->tag + 1;
    for (size_t i = 0; i < n; i++)
        sent[i] = RT_SENT_LOST, why[i] = NULL, b->waits[i] = false;
    return true;
}

/* Why M cannot be sent at all; NULL: it can. */
static const char *unfit(const struct rt_message *m)
{
    if (strlen(m->topic) > SHORT_MOST)
        return "RabbitMQ: its topic is longer than 255 bytes";
    if (strlen(m->id) > SHORT_MOST || (m->type != NULL && strlen(m->type) > SHORT_MOST))
        return "RabbitMQ: its id or type is longer than 255 bytes";
    if (m->key != NULL && strlen(m->key) > KEY_MOST)
        return "RabbitMQ: its key is longer than 65536 bytes";
    return NULL;
}

/* *WHOLE: all were sent. */
static int send_all(struct rt_broker *b, int64_t deadline, bool *whole)
{
    int err = listen_on(b);
    size_t i = 0;

    for (; err == 0 && !b->blocked && i < b->count && rt_relay_now() < deadline; i++) {
        b->why[i] = unfit(&b->messages[i]);
        if (b->why[i] != NULL) {
            b->sent[i] = RT_SENT_REFUSED;
            continue;
        }
        b->waits[i] = true;
        b->waiting++;
        b->place[b->tags++] = i;
        err = send_one(b, &b->messages[i]);
        if (err == 0 && (i + 1) % LOOK_EACH == 0)
            err = listen_on(b);
    }
    *whole = i == b->count;
    return err;
}

static int publish(struct rt_broker *b, const struct rt_message *messages, size_t n,
                   int64_t deadline, enum rt_sent *sent, const char **why)
{
    if (!begin(b, messages, n, sent, why))
        return ROTA_NOMEM;
    bool whole = false;
    int err = send_all(b, deadline, &whole);
    while (err == 0 && b->waiting > 0)
        err = listen_to(b, true, deadline);
    b->count = b->tags = 0;
    if (err == 0 && b->blocked) {
        say(b, "publishing", "it accepts nothing for now (memory or disk)");
        return ROTA_BUSY;
    }
    if (err == 0 && !whole) {
        say(b, "publishing", "it is slow: not all could be sent in time");
        return ROTA_BUSY;
    }
    if (err != ROTA_BUSY)
        return err;
    if (b->blocked)
        return ROTA_BUSY;
    say(b, "publishing", "confirms did not come in time");
    return ROTA_UNREACHABLE; /* so later answers are not mixed up with others */
}

/* ---- Taking -------------------------------------------------------------------------- */

static int subscribe(struct rt_broker *b, const char *source, const char *group, uint32_t ahead)
{
    (void)group; /* it is whoever takes from the same queue */
    assert(b->letters == NULL && ahead > 0);
    b->letters = calloc(ahead, sizeof(*b->letters));
    if (b->letters == NULL)
        return ROTA_NOMEM;
    b->ahead = ahead;
    rt_amqp.basic_qos(b->conn, CHANNEL, 0, (uint16_t)ahead, 0);
    int err = judged(b, "asking for a few at a time", rt_amqp.get_rpc_reply(b->conn));
    if (err != 0)
        return err;
    rt_amqp.basic_consume(b->conn, CHANNEL, bytes(source), NO_BYTES, 0, 0, 0, NO_TABLE);
    return judged(b, "subscribing", rt_amqp.get_rpc_reply(b->conn));
}

/* A copy of the text, with an end; NULL: none. *NO_MEMORY: it could not be made. */
static char *text_of(amqp_bytes_t from, bool *no_memory)
{
    char *text = malloc(from.len + 1);

    if (text == NULL) {
        *no_memory = true;
        return NULL;
    }
    memcpy(text, from.bytes, from.len);
    text[from.len] = '\0';
    return text;
}

static char *key_of(const amqp_basic_properties_t *p, bool *no_memory)
{
    const amqp_bytes_t name = bytes("rota-key");

    for (int i = 0; (p->_flags & AMQP_BASIC_HEADERS_FLAG) != 0 && i < p->headers.num_entries; i++) {
        const amqp_table_entry_t *e = &p->headers.entries[i];
        if (e->key.len == name.len && memcmp(e->key.bytes, name.bytes, name.len) == 0 &&
            e->value.kind == AMQP_FIELD_KIND_UTF8)
            return text_of(e->value.value.bytes, no_memory);
    }
    return NULL;
}

/* NULL: no memory. */
static struct letter *keep(struct rt_broker *b, const amqp_envelope_t *envelope)
{
    struct letter *letter = NULL;
    bool no_memory = false;

    for (uint32_t i = 0; letter == NULL && i < b->ahead; i++)
        letter = b->letters[i].used ? NULL : &b->letters[i];
    assert(letter != NULL);
    const amqp_basic_properties_t *p = &envelope->message.properties;
    *letter = (struct letter){.used = true, .envelope = *envelope};
    letter->topic = text_of(envelope->routing_key, &no_memory);
    letter->key = key_of(p, &no_memory);
    letter->id = (p->_flags & AMQP_BASIC_MESSAGE_ID_FLAG) != 0 ? text_of(p->message_id, &no_memory)
                                                               : text_of(NO_BYTES, &no_memory);
    if (letter->id != NULL && (p->_flags & AMQP_BASIC_MESSAGE_ID_FLAG) != 0)
        rt_broker_see_id(letter->id, p->message_id.len);
    if ((p->_flags & AMQP_BASIC_TYPE_FLAG) != 0)
        letter->type = text_of(p->type, &no_memory);
    if (!no_memory)
        return letter;
    forget(letter);
    return NULL;
}

static int next(struct rt_broker *b, int64_t deadline, struct rt_message *out, uint64_t *token)
{
    amqp_envelope_t envelope;
    struct timeval tv = left(deadline);

    rt_amqp.maybe_release_buffers(b->conn);
    amqp_rpc_reply_t reply = rt_amqp.consume_message(b->conn, &envelope, &tv, 0);
    if (reply.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION &&
        reply.library_error == AMQP_STATUS_TIMEOUT)
        return ROTA_BUSY;
    if (reply.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION &&
        reply.library_error == AMQP_STATUS_UNEXPECTED_STATE) {
        say(b, "taking", "it ended the subscription or the channel");
        return ROTA_UNREACHABLE;
    }
    int err = judged(b, "taking", reply);
    if (err != 0)
        return ROTA_UNREACHABLE;
    const struct letter *letter = keep(b, &envelope);
    if (letter == NULL)
        return ROTA_NOMEM;
    *token = envelope.delivery_tag;
    *out = (struct rt_message){.id = letter->id,
                               .topic = letter->topic,
                               .key = letter->key,
                               .type = letter->type,
                               .body = envelope.message.body.bytes,
                               .size = envelope.message.body.len};
    return 0;
}

static void answered_letter(struct rt_broker *b, uint64_t token)
{
    for (uint32_t i = 0; i < b->ahead; i++)
        if (b->letters[i].used && b->letters[i].envelope.delivery_tag == token)
            forget(&b->letters[i]);
}

static int ack(struct rt_broker *b, uint64_t token)
{
    int status = rt_amqp.basic_ack(b->conn, CHANNEL, token, 0);

    answered_letter(b, token);
    return status == AMQP_STATUS_OK ? 0 : failed(b, "acknowledging", status);
}

static int give_back(struct rt_broker *b, uint64_t token)
{
    int status = rt_amqp.basic_nack(b->conn, CHANNEL, token, 0, 1);

    answered_letter(b, token);
    return status == AMQP_STATUS_OK ? 0 : failed(b, "giving back", status);
}

static int leave(struct rt_broker *b, uint64_t token)
{
    int status = rt_amqp.basic_nack(b->conn, CHANNEL, token, 0, 0);

    answered_letter(b, token);
    return status == AMQP_STATUS_OK ? 0 : failed(b, "giving up", status);
}

/* librabbitmq sends heartbeats only while it waits. It then reads what the broker sent meanwhile. */
static int keep_up(struct rt_broker *b, uint64_t token)
{
    const amqp_frame_t beat = {.frame_type = AMQP_FRAME_HEARTBEAT, .channel = 0};
    int status = rt_amqp.send_frame(b->conn, &beat);

    (void)token; /* it is ours until the connection ends */
    return status == AMQP_STATUS_OK ? 0 : failed(b, "keeping the connection", status);
}

static const char *errmsg_of(const struct rt_broker *b)
{
    return b->line;
}

static size_t body_max(const struct rt_broker *b)
{
    (void)b;
    return 128u << 20; /* RabbitMQ 3.10's max_message_size, unless configured */
}

const struct rt_broker_kind rt_broker_rabbitmq = {
    .schemes = (const char *const[]){"amqp", "amqps", NULL},
    .params = (const char *const[]){"exchange", "password_file", NULL},
    .open = open_broker,
    .close = close_broker,
    .publish = publish,
    .subscribe = subscribe,
    .next = next,
    .ack = ack,
    .back = give_back,
    .leave = leave,
    .keep = keep_up,
    .errmsg = errmsg_of,
    .body_max = body_max,
};
