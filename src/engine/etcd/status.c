/* SPDX-License-Identifier: Apache-2.0 */
/* What etcd's sentences mean.
 *
 * "Not done" is said only where etcd checks before it proposes anything to its log (the checks of its
 * v3rpc layer, authorisation, quota), or where applying it failed as a whole. A request that timed out
 * may still be in the log. */
#include "engine/etcd/status.h"

#include <rota.h>
#include <string.h>

#define PREFIX "etcdserver: "
#define TOO_LARGE "grpc: received message larger than max" /* said by gRPC itself, before etcd */

/* Where etcd's sentence says more than its code. Compared as prefixes, the longer ones first. */
static const struct {
    const char *text;
    struct rt_grpc_verdict verdict;
} sentences[] = {
    {"no leader", {ROTA_UNREACHABLE, RT_GRPC_NOT_DONE, RT_ETCD_NO_LEADER, true}},
    {"not leader", {ROTA_UNREACHABLE, RT_GRPC_NOT_DONE, RT_ETCD_OTHER, true}},
    {"rpc not supported for learner", {ROTA_UNREACHABLE, RT_GRPC_NOT_DONE, RT_ETCD_OTHER, true}},
    {"not capable", {ROTA_UNSUPPORTED, RT_GRPC_NOT_DONE, RT_ETCD_OTHER, false}},
    {"too many requests", {ROTA_UNREACHABLE, RT_GRPC_NOT_DONE, RT_ETCD_TOO_MANY, false}},
    {"mvcc: database space exceeded",
     {ROTA_UNREACHABLE, RT_GRPC_NOT_DONE, RT_ETCD_NO_SPACE, false}},
    {"mvcc: required revision has been compacted",
     {ROTA_INVALID, RT_GRPC_NOT_DONE, RT_ETCD_COMPACTED, false}},
    {"requested lease not found", {ROTA_LOST, RT_GRPC_NOT_DONE, RT_ETCD_NO_LEASE, false}},
    {"lease already exists", {ROTA_INVALID, RT_GRPC_NOT_DONE, RT_ETCD_LEASE_EXISTS, false}},
    {"invalid auth token", {ROTA_AUTH, RT_GRPC_NOT_DONE, RT_ETCD_NO_TOKEN, false}},
    {"revision of auth store is old", {ROTA_AUTH, RT_GRPC_NOT_DONE, RT_ETCD_NO_TOKEN, false}},
    {"user name is empty", {ROTA_AUTH, RT_GRPC_NOT_DONE, RT_ETCD_NO_TOKEN, false}},
    {"authentication failed", {ROTA_AUTH, RT_GRPC_NOT_DONE, RT_ETCD_PASSWORD, false}},
    {"authentication is not enabled", {ROTA_AUTH, RT_GRPC_NOT_DONE, RT_ETCD_AUTH_OFF, false}},
    {"permission denied", {ROTA_AUTH, RT_GRPC_NOT_DONE, RT_ETCD_RIGHTS, false}},
};

struct rt_grpc_verdict rt_etcd_judge(uint32_t status, const char *message)
{
    const char *said = message + sizeof(PREFIX) - 1;
    if (status == RT_GRPC_RESOURCE_EXHAUSTED &&
        strncmp(message, TOO_LARGE, sizeof(TOO_LARGE) - 1) == 0)
        return rt_grpc_judge(RT_GRPC_INVALID_ARGUMENT);
    if (status == RT_GRPC_OK || strncmp(message, PREFIX, sizeof(PREFIX) - 1) != 0)
        return rt_grpc_judge(status);
    for (size_t i = 0; i < sizeof(sentences) / sizeof(sentences[0]); i++)
        if (strncmp(said, sentences[i].text, strlen(sentences[i].text)) == 0)
            return sentences[i].verdict;
    return rt_grpc_judge(status);
}
