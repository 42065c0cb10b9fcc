/* SPDX-License-Identifier: Apache-2.0 */
/* What a server says of itself, and what is known of its version. */
#include "engine/etcd/etcd.h"

#include "net/grpc.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NEVER INT_MAX

/* The patch of 3.4, 3.5, 3.6 and 3.7 that fixed it; later releases never had it. */
struct bug {
    int mended[4];
    const char *text;
};

/* The gravest first: only one is reported. */
static const struct bug lease_bugs[] = {
    {{31, 13, 0, 0}, "a leader that was paused may revoke living leases (15247)"},
    {{38, 23, 5, 0}, "a keep-alive of a revoked lease may succeed (20590)"},
};

static const struct bug rights_bugs[] = {
    {{42, 28, 9, 0}, "anybody may revoke leases (CVE-2026-33413)"},
    {{44, 30, 11, 0}, "any user may put keys on others' leases (CVE-2026-44283)"},
    {{NEVER, 33, 14, 1}, "any user may watch others' keys (CVE-2026-73499)"},
};

static bool has(const struct rt_etcd_facts *f, const struct bug *bug)
{
    if (f->major != 3 || f->minor < 4)
        return f->major <= 3;
    return f->minor <= 7 && f->patch < bug->mended[f->minor - 4];
}

const char *rt_etcd_lease_bugs(const struct rt_etcd_facts *f)
{
    for (size_t i = 0; i < sizeof(lease_bugs) / sizeof(lease_bugs[0]); i++)
        if (has(f, &lease_bugs[i]))
            return lease_bugs[i].text;
    return "";
}

const char *rt_etcd_rights_bugs(const struct rt_etcd_facts *f)
{
    for (size_t i = 0; i < sizeof(rights_bugs) / sizeof(rights_bugs[0]); i++)
        if (has(f, &rights_bugs[i]))
            return rights_bugs[i].text;
    return "";
}

static void read_version(struct rt_etcd_facts *f)
{
    int *parts[] = {&f->major, &f->minor, &f->patch};
    char *at = f->version;
    for (size_t i = 0; i < 3 && *at >= '0' && *at <= '9'; i++) {
        long n = strtol(at, &at, 10);
        *parts[i] = n < NEVER ? (int)n : NEVER;
        at += *at == '.';
    }
}

static void read_alarms(struct rt_etcd_facts *f, const RtEtcd__StatusResponse *r)
{
    size_t used = 0;
    for (size_t i = 0; i < r->n_errors && used + 3 < sizeof(f->alarms); i++) {
        used += (size_t)snprintf(f->alarms + used, sizeof(f->alarms) - used, "%s",
                                 i > 0 ? "; " : "");
        rt_grpc_text(f->alarms + used, sizeof(f->alarms) - used, r->errors[i].data,
                     r->errors[i].len);
        used += strlen(f->alarms + used);
    }
}

void rt_etcd_facts_read(struct rt_etcd_facts *f, const RtEtcd__StatusResponse *r, const char *at)
{
    *f = (struct rt_etcd_facts){.known = true};
    rt_grpc_text(f->version, sizeof(f->version), r->version.data, r->version.len);
    (void)snprintf(f->at, sizeof(f->at), "%s", at);
    read_version(f);
    f->leader = r->leader;
    f->term = r->raft_term;
    f->db_size = r->db_size;
    f->db_quota = r->db_size_quota;
    f->learner = r->is_learner;
    if (r->header != NULL) {
        f->member = r->header->member_id;
        f->cluster = r->header->cluster_id;
        f->revision = r->header->revision;
    }
    read_alarms(f, r);
}
