/* SPDX-License-Identifier: Apache-2.0 */
/* Planted bugs: proof that the tests can find what they look for.
 *
 * Only a build with -Dplanted=true has them, and only one at a time, chosen by
 * ROTA_BUG=n. `make explore` runs each and demands that it is found. */
#ifndef RT_BUG_H
#define RT_BUG_H

enum rt_bug {
    RT_BUG_NONE = 0,
    RT_BUG_RELEASE_WITHOUT_FENCE = 1,
    RT_BUG_DEADLINE_FROM_REPLY = 2,
    RT_BUG_RENEWAL_AFTER_RELEASE = 3,
    RT_BUG_NO_RECHECK_AFTER_WAIT = 4,
    RT_BUG_PASS_ON_AFTER_HOLD_MS = 5,
    RT_BUG_LOST_WAKE_UP = 6,
    RT_BUG_ORDER_BROKEN = 7,
    RT_BUG_DOUBLE_CALLBACK = 8,
    /* Of the Redis engine. */
    RT_BUG_PUSH_GAP_IGNORED = 9,
    RT_BUG_TAG_NOT_CHECKED = 10,
    RT_BUG_NOT_ASKED_AFTER_RECONNECT = 11,
    RT_BUG_PUSH_BEFORE_ITS_ANSWER = 12,
    RT_BUG_STALE_SERVER_BELIEVED = 13,
    RT_BUG_REPLICAS_NOT_WAITED_FOR = 14,
    RT_BUG_ROOM_BESIDE_THE_BEATS = 19,
    /* Of the etcd engine. */
    RT_BUG_LOOK_WITHOUT_TICKET = 15,
    RT_BUG_NO_LOOK_AFTER_WATCH = 16,
    RT_BUG_KEEP_ALIVE_TRUSTED = 17,
    RT_BUG_OLD_KEEP_ALIVE_COUNTS = 18,
    /* Of the core. */
    RT_BUG_UNTOLD_KEEPS = 20,
    /* Of the SQL engine; it has 6 and 13 too. */
    RT_BUG_NO_DOUBTS = 21,
    RT_BUG_BEAT_COMPARES_NOTHING = 22,
    RT_BUG_DEAD_NOT_TENDED = 23,
    RT_BUG_CUT_IS_NOTHING_DONE = 24,
    RT_BUG_LOOKS_MOVE = 37,          /* where a renewal goes on moves while it indexes by that */
    RT_BUG_RENEWAL_BEHIND_ASKS = 41, /* a renewal waits for what was asked before it */
    RT_BUG_RENEWAL_SWEEPS = 46,      /* clean-up in a renewal's own flight */
    /* Of the engine file; it has 6 too. */
    RT_BUG_RUNG_BEFORE_COMMIT = 25,
    RT_BUG_DEAD_NOT_SWEPT = 26,
    RT_BUG_COUNTER_FOLLOWS_CLOCK = 27,
    RT_BUG_OVERTAKES = 28,
    RT_BUG_NO_FILE_IS_DEAD = 29,
    RT_BUG_RINGS_THE_CROWD = 30,
    RT_BUG_DELETED_NOT_WAITED_FOR = 31,
    /* Of the ZooKeeper engine. */
    RT_BUG_TOUCH_TRUSTED = 32,
    RT_BUG_WATCHES_NOT_SET_AGAIN = 33,
    RT_BUG_SENT_IN_ANY_SESSION = 34,
    RT_BUG_LOST_DELETE_IS_DONE = 35,
    RT_BUG_TOUCH_SECURED_AT_ONCE = 36,
    RT_BUG_REPLAY_BELIEVED = 38,
    RT_BUG_ONE_SYNC_IS_ENOUGH = 39,
    /* Those that the simulator judges by what became of the lines: whom a release wakes, what was left, how long others
     * wait, what observers see. */
    RT_BUG_ALL_WATCH_THE_LINE = 40, /* etcd, ZooKeeper */
    RT_BUG_MISSING_IS_LEFT = 42,    /* etcd, SQL, ZooKeeper */
    RT_BUG_WANTED_NOT_HEARD = 43,   /* the dispatcher */
    RT_BUG_SAME_STATE_TOLD = 44,    /* kit/view */
    RT_BUG_NO_LOOK_ONCE_MORE = 45,  /* kit/view */
    /* Of Redlock. */
    RT_BUG_RESTART_COUNTS = 60,    /* a node that was restarted counts at once */
    RT_BUG_REPLIES_COUNT = 61,     /* a majority of replies is taken for one of grants */
    RT_BUG_NO_WRITE_BACK = 62,     /* numbers differ, and stay so */
    RT_BUG_GIVEN_WHERE_TAKEN = 63, /* released only where the taking was answered */
    RT_BUG_NO_DRIFT = 64,          /* session: nodes' clocks are assumed to run like ours */
    RT_BUG_BESIDE_THE_BEATS = 65,  /* a lock that was sent before a beat counts as renewed by it */
    RT_BUG_ONE_TOKEN = 66,         /* the next attempt reuses the last token */
    /* Of the dialects on Redis; they have 11 too. */
    RT_BUG_RENEWAL_NOT_READ = 70,  /* a loss is not told */
    RT_BUG_ASKED_NOT_RENEWED = 71, /* what was granted before the beat and is told after it */
    RT_BUG_WORD_NOT_HEARD = 72,    /* of a release */
    RT_BUG_ASKS_FOR_THE_DEAD = 73, /* still asks for a session that is over */
    /* Of SQL's dialects that are rows with an end; they have 11 and 70 too. */
    RT_BUG_LEAVES_ANY_ROW = 74, /* a release does not ask whose it is */
    RT_BUG_RENEWS_ANY_ROW = 75, /* and neither does a renewal */
    RT_BUG_ENDS_BY_OUR_CLOCK = 76,
    /* Of ?also=. */
    RT_BUG_TOLD_AT_THE_FRONT = 80,      /* before the foreign lock is held */
    RT_BUG_LINE_LEFT_FIRST = 81,        /* before the foreign lock is given back */
    RT_BUG_FOREIGN_LOSS_FORGOTTEN = 82, /* its holder is not told */
    /* Of the core of transactions. */
    RT_BUG_TXN_OWN_WISH = 100,    /* what was asked for is believed, not what stands */
    RT_BUG_TXN_NOT_DURABLE = 101, /* branches are told to commit when DECIDE leaves */
    RT_BUG_TXN_ABSENT_IS_COMMITTED = 102,
    RT_BUG_TXN_NO_DEADLINE = 103, /* recovery does not wait for it */
    RT_BUG_TXN_ONE_PASS = 104,    /* ... and settles what it sees for the first time */
    RT_BUG_TXN_FOREIGN = 105,     /* ... whosesoever it is */
    RT_BUG_TXN_NO_GATE = 106,
    RT_BUG_TXN_ONE_POLL = 107, /* of the gate */
    RT_BUG_TXN_MARKER_NOT_READ = 108,
    RT_BUG_TXN_ABORT_PRESUMED = 109, /* rolled back before ABORT stands */
    RT_BUG_TXN_LOST_VOTE_IS_YES = 110,
    RT_BUG_TXN_FAILED_VOTES_YES = 111,
    RT_BUG_TXN_GIVES_UP = 112,           /* after ten tries it counts as done */
    RT_BUG_TXN_UNKNOWN_IS_ABORTED = 113, /* told so when the journal does not answer */
    RT_BUG_TXN_EXPIRED_IS_ABORTED = 114,
    RT_BUG_TXN_MARKS_OF_UNDONE = 115, /* gc takes those away too */
    RT_BUG_TXN_CLOSES_STUCK = 116,
    /* ... of the journal that its simulator plays. */
    RT_BUG_TXN_OVERWRITES = 117,    /* the last decision wins */
    RT_BUG_TXN_FORGETS_FIRST = 118, /* and raises the floor after that */
    /* ... of processes that join, and of those that wait for them. */
    RT_BUG_TXN_WORKS_UNREGISTERED = 119, /* work begins when REGISTER leaves */
    RT_BUG_TXN_NOT_COUNTED = 120,        /* COMMIT claims to know all branches */
    RT_BUG_TXN_SILENCE_IS_ABORT = 121,   /* rolled back after a yes, when nobody decides */
    RT_BUG_TXN_UNPREPARED_IS_YES = 122,  /* of a branch elsewhere */
    RT_BUG_TXN_BELOW_IS_COMMITTED = 123, /* what nobody knows any more went well */
    RT_BUG_TXN_LATE_VOTE_ROLLED = 124,   /* a vote that comes after the decision is rolled back */
    RT_BUG_TXN_LOST_VOTE_IS_NO = 125,    /* told ABORTED, and the coordinator finds it prepared */
    RT_BUG_TXN_CLOSES_OTHERS = 126,      /* DONE when a joiner's branches are */
    /* ... of services. */
    RT_BUG_TXN_HELD_IS_DONE = 127,      /* 425 */
    RT_BUG_TXN_REFUSED_IS_DONE = 128,   /* a confirm that is */
    RT_BUG_TXN_ABORT_NOT_READ = 129,    /* recovery cancels those it knows */
    RT_BUG_TXN_CANCELS_EARLY = 140,     /* before ABORT stands */
    RT_BUG_TXN_CLOSES_RESERVED = 141,   /* DONE when the cancels have left */
    RT_BUG_TXN_UNVOUCHED_IS_YES = 142,  /* a joiner's try, whatever it was answered */
    RT_BUG_TXN_CANCELS_FORGOTTEN = 143, /* what was done and forgotten may have been confirmed */
    RT_BUG_TXN_LATE_PREPARES = 144, /* an unanswered branch is rolled back, and may still prepare */
    /* Of participants. */
    RT_BUG_BRANCH_ANSWER_IS_YES = 130, /* PostgreSQL: any answer to PREPARE */
    RT_BUG_BRANCH_OLD_VIEW = 131,      /* MariaDB: the gate believes what InnoDB shows */
    RT_BUG_BRANCH_RESET_NOT_SEEN = 132,
    RT_BUG_BRANCH_NOTA_IS_DONE = 133,
    RT_BUG_BRANCH_NO_FENCE = 134,
    RT_BUG_BRANCH_LOST_IS_NO = 135,
    RT_BUG_BRANCH_ANY_TABLE = 136,   /* MariaDB: what cannot be rolled back may be changed */
    RT_BUG_BRANCH_LAST_READS = 137,  /* ... one that wrote nothing before its last statement */
    RT_BUG_BRANCH_LAST_FAILED = 138, /* MariaDB: the vote follows a last statement that did */
    /* Of the manager: the bank finds them. */
    RT_BUG_MANAGER_NOT_DURABLE = 150,          /* COMMIT counts when DECIDE has left */
    RT_BUG_MANAGER_ABORT_PRESUMED = 151,       /* recovery rolls back without DECIDE */
    RT_BUG_MANAGER_LOST_IS_DONE = 152,         /* an own COMMIT whose answer was lost */
    RT_BUG_MANAGER_NO_DEADLINE = 153,          /* recovery does not wait for it */
    RT_BUG_MANAGER_UNKNOWN_IS_COMMITTED = 154, /* told so when the journal does not answer */
    RT_BUG_MANAGER_UNREGISTERED = 155,         /* a try leaves, and the journal knows nothing */
    /* Of resources. */
    RT_BUG_RESOURCE_ANY_SERVER = 160,     /* whichever database answers at the URL */
    RT_BUG_RESOURCE_LOST_IS_UNSENT = 161, /* an op whose answer was lost */
    RT_BUG_RESOURCE_GATES_ALONE = 162,    /* each looks for itself */
    /* Of three-phase commit. */
    RT_BUG_THREE_DECIDES_EARLY = 200,   /* COMMIT when one PRECOMMITTED is missing */
    RT_BUG_THREE_LOST_IS_YES = 201,     /* ... or was lost */
    RT_BUG_THREE_ANSWERS_FIRST = 202,   /* before the row is written */
    RT_BUG_THREE_BLOCK_COMMITS = 203,   /* when nobody answers */
    RT_BUG_THREE_ALL_ARE_READY = 204,   /* all are PRECOMMITTED, so it will have been decided */
    RT_BUG_THREE_ABORT_PRESUMED = 205,  /* NO is told before ABORT stands */
    RT_BUG_THREE_OPEN_IS_ABORT = 206,   /* "not decided yet" is taken for it */
    RT_BUG_THREE_RESTART_FORGETS = 207, /* PRECOMMITTED is given up by a restart */
    RT_BUG_THREE_MIX_NOT_TOLD = 208,    /* by the participant */
    RT_BUG_THREE_MIX_CLOSED = 209,      /* by the coordinator */
    RT_BUG_THREE_NOT_REGISTERED = 210,  /* participants, before PRE leaves */
    RT_BUG_THREE_ABORT_NOT_READ = 211,  /* recovery does not ask who committed on its own */
    RT_BUG_THREE_NOT_FENCED = 212,      /* ... and lets the unprepared prepare later */
    /* Of the fence of services. */
    RT_BUG_FENCE_SELECT_FIRST = 240, /* what a look has shown is believed after the wait */
    RT_BUG_FENCE_NO_TOMBSTONE = 241, /* a cancel without its try leaves nothing behind */
    RT_BUG_FENCE_CONFIRM_ANY = 242,  /* a confirm does not ask whose try it was */
    RT_BUG_FENCE_NO_DEADLINE = 243,  /* a try is welcome at any time */
    RT_BUG_FENCE_CLEANS_ALL = 244,   /* rows go whatever the journal says */
    RT_BUG_FENCE_SKIPPED = 245,      /* each call is done as it comes */
    /* Of a service in the tests. */
    RT_BUG_SERVICE_ANSWERS_FIRST = 246, /* before its COMMIT */
    /* Of rota-txn serve. */
    RT_BUG_SERVE_UNREGISTERED = 250,    /* an action leaves, and the journal does not know */
    RT_BUG_SERVE_BACK_BESIDE = 251,     /* compensated while its action is under way */
    RT_BUG_SERVE_TOLD_FIRST = 252,      /* submit is answered before COMMIT stands */
    RT_BUG_SERVE_ANYBODYS = 253,        /* taken over although another has claimed it */
    RT_BUG_SERVE_LEFT_IS_DONE = 254,    /* DONE when the last calls have left */
    RT_BUG_SERVE_ONGOING_IS_DONE = 255, /* 425, of a confirm or a compensation */
    RT_BUG_SERVE_SILENCE_IS_NO = 256,   /* a back-check that is not answered */
    RT_BUG_SERVE_STEPS_FORGOTTEN = 257, /* a successor does not know what has run */
    /* Of the driver of PostgreSQL. */
    RT_BUG_MANY_ALL_CHANGED = 258, /* of steps sent as one, whatever the server answers */
    /* Of the relay. */
    RT_BUG_RELAY_ANY_ORDER = 260,    /* a row goes whatever is before it */
    RT_BUG_RELAY_LOST_IS_SENT = 261, /* marked without a confirm */
    /* ... of what its simulator plays. */
    RT_BUG_RELAY_NO_INBOX = 262,  /* the consumer does not know what it has done */
    RT_BUG_RELAY_ACK_FIRST = 263, /* ... or acknowledges before its work is committed */
    RT_BUG_RELAY_BY_ID = 264,     /* the database is asked for ids greater than the last */
    /* Of rota relay consume. */
    RT_BUG_CONSUME_ACK_FIRST = 265, /* acknowledged before the command has ended */
};

#ifdef ROTA_PLANTED
extern int rt_bug; /* set once, before anything runs, from $ROTA_BUG */
#define RT_BUG(n) (rt_bug == (n))
#else
#define RT_BUG(n) 0
#endif

#endif
