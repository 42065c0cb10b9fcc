/* SPDX-License-Identifier: Apache-2.0 */
/* Greetings: who we are (Authenticate) and how the server is (Status); tokens that are refused.
 *
 * A token is good at all endpoints, so it is kept from one connection to the next. */
#include "engine/etcd/link.h"

#include "base/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void rt_etcd_wipe(char *secret, size_t size)
{
    if (secret != NULL)
        explicit_bzero(secret, size);
    rt_free(secret);
}

static void drop_token(struct rt_etcd_conn *c)
{
    rt_etcd_wipe(c->token, c->token_size);
    c->token = NULL;
    c->token_size = 0;
}

static void maybe_greeted(struct rt_etcd_conn *c)
{
    struct rt_etcd_link *l = c->link;
    if (c->state == RT_ETCD_GREETING && l->status_call == NULL && l->auth_call == NULL && !l->sick)
        rt_etcd_greeted(c);
}

/* WHAT did not go well: this endpoint is left. */
static void give_up(struct rt_etcd_conn *c, const char *what, const struct rt_grpc_end *end)
{
    char why[sizeof(c->trouble)];
    snprintf(why, sizeof(why), "%.120s: %s: %.100s", rt_etcd_at(c), what,
             end->message[0] != '\0' ? end->message : rt_grpc_status_name(end->status));
    rt_etcd_sicken(c, why);
}

/* ---- Authenticate ----------------------------------------------------------------------------- */

static bool take_token(struct rt_etcd_conn *c, const struct rt_grpc_end *end)
{
    RtEtcd__AuthenticateResponse *r;
    rt_etcd_arena_reset(&c->arena);
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
    if (c->state == RT_ETCD_GREETING) {
        maybe_greeted(c);
        return;
    }
    rt_etcd_watch_linked(c);
    rt_etcd_lease_linked(c);
    rt_etcd_flush(c);
}

static void on_authenticated(void *arg, const struct rt_grpc_end *end)
{
    struct rt_etcd_link *l = arg;
    struct rt_etcd_conn *c = l->conn;
    char why[sizeof(c->trouble)];
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
        snprintf(why, sizeof(why), "%.120s refuses the user '%.60s' or the password", rt_etcd_at(c),
                 c->user);
        drop_token(c);
        rt_etcd_fatal(c, ROTA_AUTH, why);
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
                              .arg = c->link,
                              .has_leader = true};
    uint8_t bytes[4096];
    rq.name = text(c->user);
    rq.password = text(c->password);
    size_t n = protobuf_c_message_get_packed_size(&rq.base);
    int rv = ROTA_INVALID;
    if (n <= sizeof(bytes)) {
        (void)protobuf_c_message_pack(&rq.base, bytes);
        rv = rt_grpc_call(c->link->grpc, &ask, bytes, n, &c->link->auth_call);
        explicit_bzero(bytes, n);
    }
    c->authenticating = rv == 0;
    if (rv != 0)
        rt_etcd_sicken(c, "the request to authenticate could not be sent");
    rt_etcd_wrote(c);
}

bool rt_etcd_reauthenticate(struct rt_etcd_conn *c, uint32_t serial)
{
    if (c->user == NULL)
        return false;
    c->auth_off = false;
    if (c->authenticating || serial != c->token_serial || c->link == NULL)
        return true; /* there is a newer one, or will be */
    drop_token(c);
    if (c->state == RT_ETCD_READY)
        authenticate(c);
    return true;
}

void rt_etcd_auth_lost(struct rt_etcd_conn *c)
{
    c->authenticating = false;
}

/* ---- Status ------------------------------------------------------------------------------------- */

static void copy(char *out, size_t room, ProtobufCBinaryData from)
{
    rt_grpc_text(out, room, from.data, from.len);
}

static void read_version(struct rt_etcd_facts *f)
{
    int *parts[] = {&f->major, &f->minor, &f->patch};
    char *at = f->version;
    for (size_t i = 0; i < 3 && *at >= '0' && *at <= '9'; i++) {
        *parts[i] = (int)strtol(at, &at, 10);
        at += *at == '.';
    }
}

static bool is_before(const struct rt_etcd_facts *f, int minor, int patch)
{
    return f->major < 3 ||
           (f->major == 3 && (f->minor < minor || (f->minor == minor && f->patch < patch)));
}

const char *rt_etcd_lease_bugs(const struct rt_etcd_facts *f)
{
    if (is_before(f, 4, 31) || (f->minor == 5 && is_before(f, 5, 13)))
        return "a leader that was paused may revoke living leases (15247), and a keep-alive of a "
               "revoked lease may succeed (20813)";
    if (is_before(f, 4, 38) || (f->minor == 5 && is_before(f, 5, 23)))
        return "a keep-alive of a revoked lease may succeed (20813): the session's key tells";
    return "";
}

/* What is acknowledged is on the disks of a majority; but a lease that ends early lets two hold. */
static void judge_strict(struct rt_etcd_conn *c)
{
    const struct rt_etcd_facts *f = &c->facts;
    bool strict = f->known && rt_etcd_lease_bugs(f)[0] == '\0';
    c->base.unsafe[0] = '\0';
    if (!f->known)
        snprintf(c->base.unsafe, sizeof(c->base.unsafe),
                 "the version of etcd may not be asked by this user, and some end leases early");
    else if (!strict)
        snprintf(c->base.unsafe, sizeof(c->base.unsafe),
                 "etcd %.30s has known bugs of leases (rota doctor names them): upgrade to 3.5.23, "
                 "3.6 or later",
                 f->version);
    atomic_store_explicit(&c->strict, strict, memory_order_relaxed);
}

static void take_facts(struct rt_etcd_conn *c, const RtEtcd__StatusResponse *r)
{
    struct rt_etcd_facts *f = &c->facts;
    bool auth = f->auth;
    size_t used = 0;
    *f = (struct rt_etcd_facts){.known = true, .auth = auth};
    copy(f->version, sizeof(f->version), r->version);
    snprintf(f->at, sizeof(f->at), "%s", rt_etcd_at(c));
    read_version(f);
    f->leader = r->leader;
    f->term = r->raft_term;
    f->db_size = r->db_size;
    f->learner = r->is_learner;
    if (r->header != NULL) {
        f->member = r->header->member_id;
        f->cluster = r->header->cluster_id;
        f->revision = r->header->revision;
    }
    for (size_t i = 0; i < r->n_errors && used + 3 < sizeof(f->alarms); i++) {
        used += (size_t)snprintf(f->alarms + used, sizeof(f->alarms) - used, "%s",
                                 i > 0 ? "; " : "");
        copy(f->alarms + used, sizeof(f->alarms) - used, r->errors[i]);
        used += strlen(f->alarms + used);
    }
}

static void judge_server(struct rt_etcd_conn *c)
{
    char why[sizeof(c->trouble)];
    if (c->facts.leader != 0 && !c->facts.learner)
        return;
    snprintf(why, sizeof(why), "%.180s %s", rt_etcd_at(c),
             c->facts.learner ? "is a learner, and serves nobody yet"
                              : "has no leader: a majority of its cluster is missing");
    rt_etcd_sicken(c, why);
}

static void on_status(void *arg, const struct rt_grpc_end *end)
{
    struct rt_etcd_link *l = arg;
    struct rt_etcd_conn *c = l->conn;
    RtEtcd__StatusResponse *r;
    l->status_call = NULL;
    rt_etcd_arena_reset(&c->arena);
    if (end->status == RT_GRPC_OK &&
        rt_etcd_unpack(&c->arena, &rt_etcd__status_response__descriptor, end->bytes, end->n, &r) ==
            0) {
        take_facts(c, r);
        judge_strict(c);
        judge_server(c);
    } else if (end->status == RT_GRPC_UNIMPLEMENTED) {
        char why[sizeof(c->trouble)];
        snprintf(why, sizeof(why), "%.180s speaks gRPC, but is no etcd", rt_etcd_at(c));
        rt_etcd_fatal(c, ROTA_PROTOCOL, why);
        return;
    } else if (end->verdict.err == ROTA_AUTH) {
        c->facts = (struct rt_etcd_facts){.auth = c->facts.auth}; /* not for us to know */
        snprintf(c->facts.at, sizeof(c->facts.at), "%s", rt_etcd_at(c));
        judge_strict(c);
    } else {
        give_up(c, "its state is not to be had", end);
    }
    maybe_greeted(c);
}

void rt_etcd_greet(struct rt_etcd_conn *c)
{
    struct rt_grpc_ask ask = {.path = "/etcdserverpb.Maintenance/Status",
                              .token = c->token,
                              .end = on_status,
                              .arg = c->link};
    c->auth_off = false;
    if (rt_grpc_call(c->link->grpc, &ask, "", 0, &c->link->status_call) != 0)
        rt_etcd_sicken(c, "the greeting could not be sent");
    else if (c->user != NULL && c->token == NULL)
        authenticate(c);
    rt_etcd_wrote(c);
}
