/* SPDX-License-Identifier: Apache-2.0 */
/* Deep copies of ops and events, for what happens behind the submitter's back. */
#ifndef RT_FAULT_COPY_H
#define RT_FAULT_COPY_H

#include "engine/engine.h"

/* Copies FROM with its strings and arrays into *TO, which points into *BLOCK (one allocation,
 * freed by the caller). ROTA_NOMEM. */
int rt_fault_copy_op(struct rt_op *to, void **block, const struct rt_op *from);

/* Writes into TO what the engine answered in FROM, a copy of TO. */
void rt_fault_copy_answer(struct rt_op *to, const struct rt_op *from);

/* As rt_fault_copy_op. */
int rt_fault_copy_event(struct rt_event *to, void **block, const struct rt_event *from);

#endif
