/* SPDX-License-Identifier: BSD-2-Clause */
/* fid.h -- what all objects of a test core need */
#ifndef TESTCORE_FID_H
#define TESTCORE_FID_H

#include <stddef.h>
#include <stdlib.h>

/* testcore_of -- the object that a libfabric handle is a member of */
#define testcore_of(ptr, type, member) ((type *) ((char *) (ptr) -offsetof(type, member)))

/*
 * testcore_need -- a test without memory ends here.  What is called may be called again: a test
 * that lets some allocations fail means the provider's, not the core's.
 */
#define testcore_need(call)                                                                        \
	({                                                                                         \
		void *memory_ = NULL;                                                              \
		for (int tries_ = 0; tries_ < 16 && !memory_; tries_++)                            \
			memory_ = (call);                                                          \
		if (!memory_)                                                                      \
			abort();                                                                   \
		memory_;                                                                           \
	})

#endif /* TESTCORE_FID_H */
