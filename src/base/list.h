/* SPDX-License-Identifier: Apache-2.0 */
/* Lists through the members of any struct. */
#ifndef RT_LIST_H
#define RT_LIST_H

/* Members `next` and `link`, the place where the pointer to the element is kept: to take it out needs neither a search
 * nor the list's head. */
#define RT_LIST_ADD(head, x) /* in front */   \
    ((x)->next = *(head), (x)->link = (head), \
     (void)((x)->next != NULL ? (x)->next->link = &(x)->next : (x)->link), *(head) = (x))
#define RT_LIST_OUT(x) \
    (*(x)->link = (x)->next, (void)((x)->next != NULL ? (x)->next->link = (x)->link : (x)->link))

/* Members `next` and `prev`, around a head of the same type. */
#define RT_RING_INIT(head) ((head)->next = (head)->prev = (head))
#define RT_RING_EMPTY(head) ((head)->next == (head))
#define RT_RING_ADD(head, x) /* at its end */ \
    ((x)->prev = (head)->prev, (x)->next = (head), (head)->prev->next = (x), (head)->prev = (x))
#define RT_RING_OUT(x) ((x)->prev->next = (x)->next, (x)->next->prev = (x)->prev)
#define RT_RING_MOVE(to, from) /* all; TO has nothing */                                         \
    (RT_RING_EMPTY(from)                                                                         \
         ? (void)RT_RING_INIT(to)                                                                \
         : (void)((to)->next = (from)->next, (to)->prev = (from)->prev, (to)->next->prev = (to), \
                  (to)->prev->next = (to), RT_RING_INIT(from)))

#endif
