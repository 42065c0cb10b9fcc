/* SPDX-License-Identifier: Apache-2.0 */
/* Three-phase commit over HTTP: requests and answers as JSON. */
#include "txn/phase/words.h"

#include "base/utf8.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const rt_stance_words[RT_STANCES] = {"NONE", "WAIT", "PRECOMMITTED", "COMMITTED",
                                                 "ABORTED"};
const char *const rt_how_words[RT_HOWS] = {"",     "TOLD",    "FAILED",   "TIMEOUT",
                                           "PEER", "RESTART", "ELSEWHERE"};
static const char *const ops[RT_THREE_ASKS] = {"ask", "can", "pre", "do", "no"};

/* The number of VALUE among WORDS; COUNT: it is none of them. */
static uint8_t find(const json_t *value, const char *const *words, uint8_t count)
{
    const char *text = json_string_value(value);
    uint8_t i = 0;
    while (i < count && (text == NULL || strcmp(text, words[i]) != 0))
        i++;
    return i;
}

static bool texts(const json_t *array, size_t least, size_t most)
{
    if (!json_is_array(array) || json_array_size(array) < least || json_array_size(array) > most)
        return false;
    for (size_t i = 0; i < json_array_size(array); i++)
        if (!json_is_string(json_array_get(array, i)))
            return false;
    return true;
}

static bool number(const json_t *value, int64_t least, int64_t most, int64_t *out)
{
    *out = json_integer_value(value);
    return json_is_integer(value) && *out >= least && *out <= most;
}

/* What is wrong; NULL: nothing. */
static const char *read_fields(json_t *doc, struct rt_word *w)
{
    const char *txn = json_string_value(json_object_get(doc, "txn"));
    int64_t branch, t1, t2;
    w->ask = find(json_object_get(doc, "op"), ops, RT_THREE_ASKS);
    w->stance = find(json_object_get(doc, "stance"), rt_stance_words, RT_STANCES);
    w->coordinator = json_string_value(json_object_get(doc, "coordinator"));
    w->parts = json_object_get(doc, "parts");
    w->statements = json_object_get(doc, "statements");
    if (w->ask == RT_THREE_ASKS)
        return "op is not one of can, pre, do, no, ask";
    if (txn == NULL || strlen(txn) != RT_TXN_ID_TEXT - 1 || !rt_txn_id_read(txn, &w->name.id))
        return "txn is not an id";
    if (!texts(w->parts, 1, RT_PARTICIPANT_PEERS + 1) || !texts(w->statements, 0, 1000))
        return "parts and statements must be arrays of texts";
    if (!number(json_object_get(doc, "branch"), 1, (int64_t)json_array_size(w->parts), &branch) ||
        !number(json_object_get(doc, "deadline_ms"), 0, RT_TXN_BIRTH_MAX, &w->name.deadline_ms) ||
        !number(json_object_get(doc, "t1_ms"), 1, 86400000, &t1) ||
        !number(json_object_get(doc, "t2_ms"), 1, 86400000, &t2))
        return "branch, deadline_ms, t1_ms, t2_ms: a number is missing or out of range";
    w->name.branch = (uint32_t)branch;
    w->t1_ms = (uint32_t)t1;
    w->t2_ms = (uint32_t)t2;
    const char *action = json_string_value(json_object_get(doc, "on_timeout"));
    w->textbook = action != NULL && strcmp(action, "commit") == 0;
    if (!w->textbook && (action == NULL || strcmp(action, "block") != 0))
        return "on_timeout is neither block nor commit";
    return w->coordinator == NULL ? "coordinator is missing" : NULL;
}

bool rt_word_read(const char *text, size_t size, struct rt_word *out, char *why, size_t room)
{
    struct rt_word w = {.doc = json_loadb(text, size, 0, NULL)};
    const char *wrong = json_is_object(w.doc) ? read_fields(w.doc, &w)
                                              : "this is not a JSON object";
    if (wrong != NULL) {
        snprintf(why, room, "%s", wrong);
        json_decref(w.doc);
        return false;
    }
    *out = w;
    return true;
}

const char *rt_word_op(enum rt_three_ask ask)
{
    assert(ask < RT_THREE_ASKS);
    return ops[ask];
}

char *rt_word_text(const struct rt_word *w, const char *op, uint32_t branch, uint8_t stance)
{
    json_t *copy = json_copy(w->doc);
    char *text = NULL;
    if (copy != NULL && json_object_set_new(copy, "op", json_string(op)) == 0 &&
        json_object_set_new(copy, "branch", json_integer(branch)) == 0 &&
        json_object_set_new(copy, "stance", json_string(rt_stance_words[stance])) == 0)
        text = json_dumps(copy, JSON_COMPACT);
    json_decref(copy);
    return text;
}

const char *rt_word_part(const struct rt_word *w, uint32_t i)
{
    assert(i < json_array_size(w->parts));
    return json_string_value(json_array_get(w->parts, i));
}

const char *rt_word_resource(const struct rt_word *w, uint32_t branch)
{
    const char *name = json_string_value(
        json_array_get(json_object_get(w->doc, "names"), (size_t)branch - 1));
    return name != NULL ? name : "";
}

json_t *rt_word_answer(const struct rt_stand *stand, const char *why)
{
    char text[RT_THREE_WHY];
    json_t *doc = json_pack("{s:s, s:s, s:b, s:b}", "stance", rt_stance_words[stand->stance], "how",
                            rt_how_words[stand->how], "mixed", (int)stand->mixed, "ended",
                            (int)stand->ended);

    if (doc != NULL && why[0] != '\0') /* the asker can do without it */
        (void)json_object_set_new(doc, "why", json_string(rt_utf8_clean(why, text, sizeof(text))));
    return doc;
}

bool rt_word_heard(const char *text, size_t size, struct rt_answer *out)
{
    json_t *doc = json_loadb(text, size, 0, NULL);
    const char *why = json_string_value(json_object_get(doc, "why"));
    struct rt_stand stand = {
        .stance = find(json_object_get(doc, "stance"), rt_stance_words, RT_STANCES),
        .how = find(json_object_get(doc, "how"), rt_how_words, RT_HOWS)};
    bool good = stand.stance != RT_STANCES && stand.how != RT_HOWS;

    stand.mixed = json_is_true(json_object_get(doc, "mixed"));
    stand.ended = json_is_true(json_object_get(doc, "ended"));
    if (good) {
        out->stand = stand;
        rt_utf8_clean(why != NULL ? why : "", out->why, sizeof(out->why));
    }
    json_decref(doc);
    return good;
}
