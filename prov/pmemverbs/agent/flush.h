/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * flush.h -- what makes data durable from the processor's side
 *
 * The agent accesses memory only through this table, so that a model of the hardware can
 * replace the hardware.
 */
#ifndef PMV_FLUSH_H
#define PMV_FLUSH_H

#include <stddef.h>
#include <stdint.h>

struct pmv_flush_ops {
	/* start writing the cache lines of a range back to memory */
	void (*flush)(const void *addr, size_t len);
	/* wait until all flushed lines and non-temporal stores have left the processor */
	void (*drain)(void);
	/* copy with non-temporal stores; drain waits for them */
	void (*store)(void *to, const void *from, size_t len);
	/* tell the kernel of what a device has written to a file; 0 or a negative errno */
	int (*touch)(void *addr, size_t len);
	/* make the pages of a range that the kernel knows to be dirty durable in their file; the
	 * same */
	int (*sync)(void *addr, size_t len);
	/*
	 * start to write the pages of a range of a file; or wait until they are written, as the
	 * same call began it or another one.  They are not durable yet.  The same.
	 */
	int (*start)(int fd, uint64_t offset, size_t len);
	int (*await)(int fd, uint64_t offset, size_t len);
};

/* pmv_flush -- libpmem2 and msync, unless a test has put something else here */
extern const struct pmv_flush_ops *pmv_flush;

/* pmv_flush_init -- choose the processor's instructions; 0 or a negative fi_errno */
int pmv_flush_init(void);

#endif /* PMV_FLUSH_H */
