/* SPDX-License-Identifier: Apache-2.0 */
/* Traps on MariaDB. A and B are its own client; what is shown is what was sent. */
#include "cli/traps/traps.h"

#include <string.h>

static bool refused(const char *reply)
{
    return strstr(reply, "ERROR 1205") != NULL; /* it would have to wait */
}

/* Of two rows A locks one: whether B may lock the other. */
static bool other_is_free(struct rt_story *story)
{
    rt_story_ask(story, "A", &story->a, "start transaction;");
    rt_story_ask(story, "A", &story->a,
                 "select left_over from stock where item = 'book' for update;");
    rt_story_ask(story, "B", &story->b, "start transaction;");
    const char *reply = rt_story_ask(
        story, "B", &story->b, "select left_over from stock where item = 'pen' for update nowait;");
    bool free = !refused(reply) && rt_story_is(reply, "7");
    (void)rt_story_peek(story, &story->a, "rollback;");
    (void)rt_story_peek(story, &story->b, "rollback;");
    return free;
}

void rt_trap_no_index(struct rt_story *story)
{
    rt_story_at_mariadb(story);
    rt_story_act(story, "broken",
                 "FOR UPDATE looks for its row without an index, and locks all it looks at");
    (void)rt_story_peek(story, &story->a, "drop table if exists stock;");
    rt_story_ask(story, "A", &story->a, "create table stock (item varchar(20), left_over int);");
    rt_story_ask(story, "A", &story->a, "insert into stock values ('book', 5), ('pen', 7);");
    story->broken = !other_is_free(story) && !story->over;
    rt_story_say(story, "B  wants another row, and waits for A");

    rt_story_act(story, "mended", "with an index it locks the row");
    rt_story_ask(story, "A", &story->a, "alter table stock add primary key (item);");
    story->mended = other_is_free(story);
    rt_story_say(story, "B  has its row at once");
}

void rt_trap_share_deadlock(struct rt_story *story)
{
    static const char update[] = "update stock set left_over = left_over - 1 where item = 'book';";

    rt_story_at_mariadb(story);
    rt_story_act(story, "broken", "both share the row, and then both want to change it");
    (void)rt_story_peek(story, &story->a, "drop table if exists stock;");
    (void)rt_story_peek(story, &story->a,
                        "create table stock (item varchar(20) primary key, left_over int);");
    (void)rt_story_peek(story, &story->a, "insert into stock values ('book', 5);");
    rt_story_ask(story, "A", &story->a, "start transaction;");
    rt_story_ask(story, "B", &story->b, "start transaction;");
    rt_story_ask(story, "A", &story->a,
                 "select left_over from stock where item = 'book' lock in share mode;");
    rt_story_ask(story, "B", &story->b,
                 "select left_over from stock where item = 'book' lock in share mode;");
    rt_story_send(story, "A", &story->a, "%s", update);
    rt_story_until(
        story, &story->c,
        "select count(*) from information_schema.innodb_trx where trx_state = 'LOCK WAIT';", "1");
    bool dead = strstr(rt_story_ask(story, "B", &story->b, "%s", update), "ERROR 1213") != NULL;
    dead = strstr(rt_story_reply(story, "A", &story->a), "ERROR 1213") != NULL || dead;
    rt_story_say(story, "one of the two is thrown out");
    story->broken = dead;
    (void)rt_story_peek(story, &story->a, "rollback;");
    (void)rt_story_peek(story, &story->b, "rollback;");

    rt_story_act(story, "mended", "whoever will write says so when it looks");
    rt_story_ask(story, "A", &story->a, "start transaction;");
    rt_story_ask(story, "B", &story->b, "start transaction;");
    rt_story_ask(story, "A", &story->a,
                 "select left_over from stock where item = 'book' for update;");
    rt_story_send(story, "B", &story->b,
                  "select left_over from stock where item = 'book' for update;");
    rt_story_ask(story, "A", &story->a, "%s", update);
    rt_story_ask(story, "A", &story->a, "commit;");
    bool fresh = rt_story_is(rt_story_reply(story, "B", &story->b), "4");
    rt_story_ask(story, "B", &story->b, "%s", update);
    rt_story_ask(story, "B", &story->b, "commit;");
    story->mended = fresh &&
                    rt_story_is(rt_story_ask(story, "B", &story->b, "select left_over from stock;"),
                                "3");
}
