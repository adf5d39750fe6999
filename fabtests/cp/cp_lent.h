/* SPDX-License-Identifier: BSD-2-Clause */
/* cp_lent.h -- a client that begins to put a file, and means ill */
#ifndef CP_LENT_H
#define CP_LENT_H

#include <stdbool.h>

#define TIMEOUT_MS 60000
#define SIZE 5000 /* of a file */

struct node;
struct cp_link;
struct cp_message;

/* cp_lent_answer -- the next message: 1, or 0 if the connection has ended */
int cp_lent_answer(struct cp_link *link, struct cp_message *message);

/* cp_lent_is_way -- one of leaves, sees, holds: cp_hostile.c says what they are */
bool cp_lent_is_way(const char *how);

/* cp_lent_try -- with the right to put that name; 0, or it has seen what it must not */
int cp_lent_try(const struct node *node, const char *how, const char *name);

#endif /* CP_LENT_H */
