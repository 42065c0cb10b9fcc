/* SPDX-License-Identifier: Apache-2.0 */
/* What a service is asked, from the four headers of the request. */
#include "txn/fence/call.h"

#include "txn/core/name.h"
#include "txn/manager/inside.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

_Static_assert(sizeof(((struct rota_call *)0)->txn) >= RT_NAME_TICKET, "an id has room");

static const char *const op_names[] = {
    [ROTA_OP_TRY] = "try", [ROTA_OP_CONFIRM] = "confirm", [ROTA_OP_CANCEL] = "cancel"};

const char *rt_call_op_name(int32_t op)
{
    bool known = op >= ROTA_OP_TRY && op <= ROTA_OP_CANCEL;

    return known ? op_names[op] : NULL;
}

/* Plain decimal digits: no sign, no leading 0, at most MAX. */
static bool read_number(const char *text, uint64_t max, uint64_t *out)
{
    uint64_t value = 0;

    if (text[0] == '\0' || (text[0] == '0' && text[1] != '\0'))
        return false;
    for (const char *c = text; *c != '\0'; c++) {
        if (*c < '0' || *c > '9')
            return false;
        uint64_t digit = (uint64_t)(*c - '0');
        if (value > (max - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    *out = value;
    return true;
}

static int32_t read_op(const char *text)
{
    for (int32_t op = ROTA_OP_TRY; op <= ROTA_OP_CANCEL; op++)
        if (strcmp(text, op_names[op]) == 0)
            return op;
    return 0;
}

/* A wrong value comes from outside: only the harmless part of it is shown. */
static int refuse(const char *header, const char *value, const char *want)
{
    char shown[64];
    size_t size = 0;

    assert(header != NULL);
    if (value == NULL)
        return rt_txns_fail(NULL, ROTA_INVALID, "the header %s is missing: it must be %s", header,
                            want);
    for (; value[size] != '\0' && size < sizeof(shown) - 1; size++)
        shown[size] = (char)(value[size] >= ' ' && value[size] <= '~' ? value[size] : '?');
    shown[size] = '\0';
    return rt_txns_fail(NULL, ROTA_INVALID, "%s: '%s%s' is not %s", header, shown,
                        value[size] != '\0' ? "..." : "", want);
}

int rota_call_read(struct rota_call *out, const char *txn, const char *branch, const char *op,
                   const char *deadline)
{
    uint64_t number = 0, deadline_ms = 0;
    struct rota_call call = {0};
    struct rt_name name;

    if (out == NULL)
        return rt_txns_fail(NULL, ROTA_INVALID, "there is no room for the call: OUT is NULL");
    if (txn == NULL || !rt_name_ticket_parse(txn, &name))
        return refuse("Rota-Txn", txn, "a transaction id");
    if (branch == NULL || !read_number(branch, UINT32_MAX, &number) || number == 0)
        return refuse("Rota-Branch", branch, "a number from 1 to 4294967295");
    call.op = op != NULL ? read_op(op) : 0;
    if (call.op == 0)
        return refuse("Rota-Op", op, "try, confirm or cancel");
    if (deadline == NULL || !read_number(deadline, (uint64_t)RT_TXN_BIRTH_MAX, &deadline_ms))
        return refuse("Rota-Deadline", deadline, "milliseconds since 1970");
    if ((int64_t)deadline_ms != name.deadline_ms)
        return refuse("Rota-Deadline", deadline, "the deadline that is in Rota-Txn");
    rt_name_ticket(&name, call.txn);
    call.branch = (uint32_t)number;
    call.deadline_ms = name.deadline_ms;
    *out = call;
    return 0;
}

void rt_call_of(struct rota_call *out, const struct rt_name *name, enum rota_op op)
{
    *out = (struct rota_call){
        .branch = name->branch, .op = (int32_t)op, .deadline_ms = name->deadline_ms};
    rt_name_ticket(name, out->txn);
}

int rt_call_check(const struct rota_call *call, struct rt_name *out)
{
    struct rt_name name;

    if (call == NULL)
        return rt_txns_fail(NULL, ROTA_INVALID, "there is no call: CALL is NULL");
    if (memchr(call->txn, '\0', sizeof(call->txn)) == NULL ||
        !rt_name_ticket_parse(call->txn, &name) || name.deadline_ms != call->deadline_ms)
        return rt_txns_fail(NULL, ROTA_INVALID,
                            "the call has no id of a transaction: fill it with rota_call_read");
    if (call->branch == 0 || rt_call_op_name(call->op) == NULL)
        return rt_txns_fail(NULL, ROTA_INVALID,
                            "the call has branch %" PRIu32 " and operation %" PRId32
                            ": fill it with rota_call_read",
                            call->branch, call->op);
    name.branch = call->branch;
    *out = name;
    return 0;
}
