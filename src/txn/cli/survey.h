/* SPDX-License-Identifier: Apache-2.0 */
/* What the databases really have: prepared branches at every resource that the journal or this machine knows, and who
 * waits for them. */
#ifndef RT_SURVEY_H
#define RT_SURVEY_H

#include "txn/cli/records.h"

struct rt_site { /* a resource */
    char *name, *url;
    int err;   /* why it could not be asked; ROTA_UNSUPPORTED: it is not known on this machine */
    char *why; /* the same in words */
    bool mysql;
    char *blind; /* why nobody can see who waits there; NULL: one can */
};

struct rt_found { /* a prepared branch */
    size_t site;
    bool ours; /* of this journal */
    bool rota; /* of this or another Rota journal: NAME is read */
    struct rt_name name;
    uint64_t connection; /* MariaDB: the one that prepared it */
    char *text;          /* the database's name for it */
    char *finish;        /* the statement that rolls it back */
    int64_t prepared_ms; /* since 1970; 0: not known */
};

struct rt_wait { /* somebody who waits for a prepared branch */
    size_t site;
    size_t found; /* which one; SIZE_MAX: one of those without a connection */
    uint64_t connection;
    char *who, *on; /* user and host; the table, "": not known */
    int64_t since_ms;
};

struct rt_survey {
    struct rt_site *sites;
    struct rt_found *found;
    struct rt_wait *waits;
    size_t site_count, found_count, wait_count;
    size_t site_room, found_room, wait_room;
    bool failed; /* no memory */
};

/* Asks all of them; a site says if it could not be asked. 0, or a ROTA_* of the journal. rt_survey_free in any case. */
int rt_survey_make(struct rt_survey *s, const struct rt_visit *v);
void rt_survey_free(struct rt_survey *s);

/* The statement that finishes FOUND, COMMIT or not, in OUT. Returns OUT. */
const char *rt_survey_statement(const struct rt_found *found, bool commit, char *out, size_t size);

/* What was found at SITE (by name) for branch NUMBER of ID; NULL: it is not there. */
const struct rt_found *rt_survey_find(const struct rt_survey *s, const char *site,
                                      const struct rt_txn_id *id, uint32_t number);
const struct rt_site *rt_survey_site(const struct rt_survey *s, const char *name);

/* Whether NAME is a note of who resolved what (notes.h): those are kept among the journal's resources. */
bool rt_survey_is_note(const char *name);

#endif
