/* SPDX-License-Identifier: Apache-2.0 */
/* Greetings: who we are (Authenticate) and how the server is doing (Status); tokens that are refused.
 *
 * A token is valid at all endpoints, so it is kept from one connection to the next. */
#include "engine/etcd/link.h"

#include "base/alloc.h"

#include <stdio.h>
#include <string.h>

static void drop_token(struct rt_etcd_conn *c)
{
    rt_free_wiped(c->token, c->token_size);
    c->token = NULL;
    c->token_size = 0;
}

static void ask_status(struct rt_etcd_conn *c);

static void maybe_greeted(struct rt_etcd_conn *c)
{
    struct rt_etcd_wire *l = rt_etcd_wire(c);
    if (c->link.state != RT_DIAL_GREETING || l->status_call != NULL || l->auth_call != NULL ||
        l->sick)
        return;
    if (!l->status_refused) {
        rt_etcd_greeted(c);
        return;
    }
    l->status_refused = false;
    ask_status(c);
    rt_etcd_wrote(c);
}

/* WHAT did not go well: we leave this endpoint. */
static void give_up(struct rt_etcd_conn *c, const char *what, const struct rt_grpc_end *end)
{
    bool odd = end->message[0] == '\0' && end->status == RT_GRPC_OK;
    rt_etcd_sicken(c, "%.120s: %s: %.100s", rt_etcd_at(c), what,
                   odd ? "its answer cannot be understood" : rt_grpc_said(end));
}

/* ---- Authenticate ----------------------------------------------------------------------------- */

static bool take_token(struct rt_etcd_conn *c, const struct rt_grpc_end *end)
{
    RtEtcd__AuthenticateResponse *r;
    rt_arena_reset(&c->arena);
    if (rt_etcd_unpack(&c->arena, &rt_etcd__authenticate_response__descriptor, end->bytes, end->n,
                       &r) != 0 ||
        r->token.len == 0 || r->token.len >= RT_GRPC_TOKEN_MAX ||
        memchr(r->token.data, '\0', r->token.len) != NULL)
        return false;
    drop_token(c);
    c->token = rt_alloc(r->token.len + 1);
    if (c->token == NULL)
        return false;
    memcpy(c->token, r->token.data, r->token.len);
    c->token_size = r->token.len;
    explicit_bzero(r->token.data, r->token.len);
    c->facts.auth = true;
    return true;
}

static void go_on(struct rt_etcd_conn *c)
{
    c->token_serial++;
    c->authenticating = false;
    if (c->link.state == RT_DIAL_GREETING) {
        maybe_greeted(c);
        return;
    }
    rt_etcd_watch_linked(c);
    rt_etcd_lease_linked(c);
    rt_ledger_flush(&c->link.ledger);
}

static void on_authenticated(void *arg, const struct rt_grpc_end *end)
{
    struct rt_etcd_wire *l = arg;
    struct rt_etcd_conn *c = rt_etcd_of_wire(l);
    l->auth_call = NULL;
    if (end->status == RT_GRPC_OK && take_token(c, end)) {
        go_on(c);
    } else if (end->status == RT_GRPC_OK) {
        rt_etcd_sicken(c, "the server's token cannot be used");
    } else if (end->verdict.reason == RT_ETCD_AUTH_OFF) {
        c->auth_off = true;
        drop_token(c);
        rt_etcd_log(c, ROTA_LOG_WARN, "etcd: %s has no users: the password was not looked at",
                    rt_etcd_at(c));
        go_on(c);
    } else if (end->verdict.reason == RT_ETCD_PASSWORD || end->status == RT_GRPC_INVALID_ARGUMENT) {
        drop_token(c);
        rt_etcd_fatal(c, ROTA_AUTH,
                      "%.100s refuses the user '%.60s' or the password ($ROTA_PASSWORD, "
                      "?password_file=)",
                      rt_etcd_at(c), c->link.user);
    } else {
        give_up(c, "authentication failed", end);
    }
}

static ProtobufCBinaryData text(char *s)
{
    return (ProtobufCBinaryData){strlen(s), (uint8_t *)s};
}

static void authenticate(struct rt_etcd_conn *c)
{
    RtEtcd__AuthenticateRequest rq = RT_ETCD__AUTHENTICATE_REQUEST__INIT;
    struct rt_grpc_ask ask = {.path = "/etcdserverpb.Auth/Authenticate",
                              .end = on_authenticated,
                              .arg = rt_etcd_wire(c),
                              .flag = RT_ETCD_LED};
    uint8_t bytes[4096];
    rq.name = text(c->link.user);
    rq.password = text(c->link.password);
    size_t n = protobuf_c_message_get_packed_size(&rq.base);
    int rv = ROTA_INVALID;
    if (n <= sizeof(bytes)) {
        (void)protobuf_c_message_pack(&rq.base, bytes);
        rv = rt_grpc_call(rt_etcd_wire(c)->grpc, &ask, bytes, n, &rt_etcd_wire(c)->auth_call);
        explicit_bzero(bytes, n);
    }
    c->authenticating = rv == 0;
    if (rv != 0)
        rt_etcd_sicken(c, "the request to authenticate could not be sent");
    rt_etcd_wrote(c);
}

bool rt_etcd_reauthenticate(struct rt_etcd_conn *c, uint32_t serial)
{
    if (c->link.user == NULL)
        return false;
    c->auth_off = false;
    if (c->authenticating || serial != c->token_serial || rt_etcd_wire(c) == NULL)
        return true; /* there is a newer one, or will be */
    drop_token(c);
    if (c->link.state == RT_DIAL_READY)
        authenticate(c);
    return true;
}

void rt_etcd_auth_lost(struct rt_etcd_conn *c)
{
    c->authenticating = false;
}

/* ---- Status ------------------------------------------------------------------------------------- */

static void judge_server(struct rt_etcd_conn *c)
{
    if (c->facts.leader == 0 || c->facts.learner)
        rt_etcd_sicken(c, "%.180s %s", rt_etcd_at(c),
                       c->facts.learner ? "is a learner, and serves nobody yet"
                                        : "has no leader: a majority of its cluster is missing");
}

static void on_status(void *arg, const struct rt_grpc_end *end)
{
    struct rt_etcd_wire *l = arg;
    struct rt_etcd_conn *c = rt_etcd_of_wire(l);
    RtEtcd__StatusResponse *r;
    l->status_call = NULL;
    rt_arena_reset(&c->arena);
    if (end->status == RT_GRPC_OK &&
        rt_etcd_unpack(&c->arena, &rt_etcd__status_response__descriptor, end->bytes, end->n, &r) ==
            0) {
        bool auth = c->facts.auth;
        rt_etcd_facts_read(&c->facts, r, rt_etcd_at(c));
        c->facts.auth = auth;
        judge_server(c);
    } else if (end->status == RT_GRPC_UNIMPLEMENTED) {
        rt_etcd_fatal(c, ROTA_PROTOCOL, "%.180s speaks HTTP/2, but is no etcd", rt_etcd_at(c));
        return;
    } else if (end->verdict.reason == RT_ETCD_NO_TOKEN && c->link.user != NULL &&
               !l->status_again) {
        l->status_refused = l->status_again = true; /* late 3.5 and 3.6 want a user here, too */
        if (l->auth_call == NULL && l->status_token == c->token_serial)
            authenticate(c); /* it had an old token */
    } else if (end->verdict.err == ROTA_AUTH) {
        c->facts = (struct rt_etcd_facts){.auth = c->facts.auth}; /* not for us to know */
        snprintf(c->facts.at, sizeof(c->facts.at), "%s", rt_etcd_at(c));
    } else {
        give_up(c, "asked for its status", end);
    }
    maybe_greeted(c);
}

static void ask_status(struct rt_etcd_conn *c)
{
    struct rt_etcd_wire *l = rt_etcd_wire(c);
    struct rt_grpc_ask ask = {
        .path = "/etcdserverpb.Maintenance/Status", .token = c->token, .end = on_status, .arg = l};
    l->status_token = c->token_serial;
    if (rt_grpc_call(l->grpc, &ask, "", 0, &l->status_call) != 0)
        rt_etcd_sicken(c, "the greeting could not be sent");
}

void rt_etcd_greet(struct rt_etcd_conn *c)
{
    c->auth_off = false;
    ask_status(c);
    if (!rt_etcd_wire(c)->sick && c->link.user != NULL && c->token == NULL)
        authenticate(c);
    rt_etcd_wrote(c);
}
