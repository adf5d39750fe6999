/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unread.h -- how many entries of a connection the application has not read
 *
 * It outlives the connection, for its entries: it counts one more until that is closed.
 */
#ifndef PMV_UNREAD_H
#define PMV_UNREAD_H

#include <stdatomic.h>
#include <stddef.h>

#include "progress/op.h"

struct pmv_unread {
	atomic_size_t count;
};

/* pmv_unread_open -- or NULL */
struct pmv_unread *pmv_unread_open(void);
void pmv_unread_close(struct pmv_unread *unread);

/*
 * pmv_unread_add -- an entry is one of them, if there is an `unread`; before another thread may
 *   read it
 * pmv_unread_drop -- it is not, or no more
 */
void pmv_unread_add(struct pmv_unread *unread, struct pmv_comp *comp);

static inline void pmv_unread_drop(struct pmv_comp *comp)
{
	if (comp->unread)
		pmv_unread_close(comp->unread);
	comp->unread = NULL;
}

static inline size_t pmv_unread_count(const struct pmv_unread *unread)
{
	return atomic_load(&unread->count) - 1;
}

#endif /* PMV_UNREAD_H */
