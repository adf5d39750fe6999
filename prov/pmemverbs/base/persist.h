/* SPDX-License-Identifier: BSD-2-Clause */
/* persist.h -- persistence domains: what survives a power failure */
#ifndef PMV_PERSIST_H
#define PMV_PERSIST_H

/* The values travel in keys: never renumber. */
enum pmv_persist {
	PMV_NONE = 0, /* nothing: a commit means global visibility */
	PMV_PAGE = 1, /* what msync has written */
	PMV_DMP = 2,  /* DIMM and memory controller */
	PMV_MHP = 3,  /* the caches too */
	PMV_WSP = 4,  /* I/O controller and NIC buffers too */
};

#endif /* PMV_PERSIST_H */
