/* SPDX-License-Identifier: Apache-2.0 */
/* The table of the scripts. */
#include "engine/redis/script.h"

#include <assert.h>

const struct rt_redis_text *rt_redis_script_text(enum rt_redis_script script, bool sharded)
{
    assert((unsigned)script < RT_REDIS_SCRIPTS);
    return &rt_redis_texts[script][sharded];
}
