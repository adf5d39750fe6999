/* SPDX-License-Identifier: BSD-2-Clause */
/* unread.c -- how many entries of a connection the application has not read */
#include "progress/unread.h"

#include <stdlib.h>

struct pmv_unread *pmv_unread_open(void)
{
	struct pmv_unread *unread = malloc(sizeof(*unread));

	if (unread)
		atomic_init(&unread->count, 1);
	return unread;
}

void pmv_unread_close(struct pmv_unread *unread)
{
	if (unread && atomic_fetch_sub(&unread->count, 1) == 1)
		free(unread);
}

void pmv_unread_add(struct pmv_unread *unread, struct pmv_comp *comp)
{
	if (unread)
		atomic_fetch_add(&unread->count, 1);
	comp->unread = unread;
}
