/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * direct.h -- a file that is put, in memory, where no NIC can write to its mapping
 *
 * Linux lets no NIC pin a writable mapping of most files.  The provider has memory with a file
 * behind it for that: fi_pmemverbs_file(7).  All of a file is in memory while it is put, so the
 * store limits how much of them there is at a time.
 */
#ifndef CP_DIRECT_H
#define CP_DIRECT_H

#include <stddef.h>

#include "../connection/connection.h"
#include "store.h"

struct cp_direct {
	struct cp_store *store; /* NULL: it is not open */
	struct fi_pmemverbs_file *file;
	struct fi_pmemverbs_file_ops *ops;
};

/* What is called now and then while that takes long, and if it gets on with more and more. */
typedef int cp_tick(void *arg, uint64_t done);

/*
 * cp_direct_open -- memory of the first len bytes of an open file, all of whose blocks are there.
 * All of them are read, and written if they never were.  If tick returns anything but 0 then it is
 * given up.  done: what tick has been told before.  -EDQUOT: more than the store allows;
 * -FI_EOPNOTSUPP: no such file, or something may still come to it when its region is closed.
 */
int cp_direct_open(struct cp_direct *direct, struct cp_store *store, struct node *node, int fd,
		   size_t len, cp_tick *tick, void *arg, uint64_t done);

/* cp_direct_register -- for peers to write its first len bytes; if it fails the file is closed */
int cp_direct_register(struct cp_direct *direct, struct node *node, struct region *region,
		       size_t len);

/* cp_direct_close -- if it is open; what was committed is in the file.  No region of it is left. */
void cp_direct_close(struct cp_direct *direct);

/*
 * cp_direct_explain -- why a file can't be lent: the errors of registering its mapping, and of
 * cp_direct_open or of registering that.  An errno.
 */
int cp_direct_explain(int mapped, int direct, char reason[CP_TEXT]);

#endif /* CP_DIRECT_H */
