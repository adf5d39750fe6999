/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * info.h -- what this machine, or a running target, can promise
 *
 * Facts are collected into the structures below.  The model is made of them: one JSON object, with
 * the choices that the provider's own functions make of these facts.  The screen shows the model,
 * and --json prints it, so they can't disagree.
 *
 * sysfs is read where the provider reads it (pmv_platform), so tests have machines of their own.
 */
#ifndef FI_PMEM_INFO_H
#define FI_PMEM_INFO_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include <json-c/json.h>
#include <rdma/fabric.h>

#include "agent/status_query.h"
#include "engine/core.h"
#include "memory/detect.h"

#define INFO_MOST 64
#define INFO_TEXT 256

/* What a bit of hardware says, or does not. */
enum info_state {
	INFO_UNKNOWN,
	INFO_OFF,
	INFO_ON,
};

/* A fact that may be hidden, and how it was found out or how it could be. */
struct info_bit {
	enum info_state state;
	char from[INFO_TEXT];
};

/* A way in for data: a core provider, and a device that it uses. */
struct info_device {
	const struct pmv_core *core;
	char name[64];
	bool offered; /* the core can use it */
	bool soft;    /* software places inbound data */
	enum pmv_transport transport;
	const char *kind;
	int node;     /* -1: unknown */
	char pci[32]; /* its address; empty: it has none */
	char root_port[32];
	struct info_bit ddio;    /* of the root port */
	struct info_bit relaxed; /* PCI Express lets it relax the order */
	struct info_bit flush;   /* RDMA FLUSH, where the core can post one */
	char from[INFO_TEXT];
};

/* What the kernel knows of the cache of the disk below a file. */
struct info_cache {
	char disk[64];  /* empty: there is none, or it is not known */
	bool unflushed; /* the kernel sends no flushes to it */
	char from[INFO_TEXT];
};

/* Persistent memory, or what was named. */
struct info_memory {
	char name[PATH_MAX];
	const char *kind;
	bool named; /* on the command line */
	bool cxl;
	char mode[64]; /* of a region: devdax, fsdax, ... */
	uint64_t size; /* 0: unknown */
	int err;       /* 0: mem is what it is; else mem.what says why nothing is promised */
	struct pmv_mem mem;
	struct info_cache cache;
	char direct[2 * INFO_TEXT]; /* as memory with this file behind it; empty: not looked at */
	char from[INFO_TEXT];
};

struct info {
	bool found; /* libfabric knows the provider */
	int nodes;
	struct info_device devices[INFO_MOST];
	size_t num_devices;
	struct info_memory memories[INFO_MOST];
	size_t num_memories;
};

/* device.c: read from sysfs, below class/infiniband, and asked of libfabric */

/* info_ask_core -- what a core offers for connected endpoints: fi_freeinfo frees it; or NULL */
struct fi_info *info_ask_core(const struct pmv_core *core);

/* info_devices -- ask is info_ask_core but in tests */
void info_devices(struct info *info, struct fi_info *(*ask)(const struct pmv_core *core));

/* info_nodes -- how many NUMA nodes have memory or processors */
int info_nodes(void);

/* rdma_flush.c */

/* info_rdma_flush -- of devices that were found; ask is info_ask_core */
void info_rdma_flush(struct info *info, struct fi_info *(*ask)(const struct pmv_core *core));

/* info_flush_bit -- what this call's result says, which is the last one that was made */
void info_flush_bit(struct info_bit *flush, int ret, const char *call);

/* pci.c */

/* info_pci -- of a device in sysfs: its root port, and what the two say of DDIO and of order */
void info_pci(struct info_device *device, const char *sysfs_device);

/* info_attribute -- the first line of a file below sysfs; false, and empty: it can't be read */
bool info_attribute(char *value, size_t size, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* memory.c */

void info_regions(struct info *info);

/* info_path -- detect is info_detect_file but in tests: pmv_detect for a file */
void info_path(struct info *info, const char *path,
	       int (*detect)(const char *path, struct pmv_mem *mem));
int info_detect_file(const char *path, struct pmv_mem *mem);

/* info_direct -- of the memory that was added last: could it have this path behind it? */
void info_direct(struct info *info, const char *path);

/* disk.c */
void info_cache_of(dev_t dev, struct info_cache *cache);

/* advice.c: what the provider would do, and what would be faster */

/* What a region is to a peer. */
struct info_region {
	struct pmv_attr attr;
	bool agent; /* there is one */
};

/* info_region_of -- of memory that is registered in a domain of the device, with our settings */
struct info_region info_region_of(const struct info_device *device,
				  const struct info_memory *memory);

/* info_methods -- how a commit, an immediate, a chain and a message are made; a JSON object */
json_object *info_methods(const struct info_region *region, enum pmv_transport transport);

/* info_hints -- what would make commits to this memory through this device faster */
json_object *info_hints(const struct info *info, const struct info_memory *memory,
			const struct info_device *device);
/* info_notes -- what may keep it from working */
json_object *info_notes(const struct info_memory *memory, const struct info_device *device);

/* info_general_hints -- those that hold on every machine */
json_object *info_general_hints(void);

/* info_warnings -- what is wrong with the set-up; "loses_data": whether data may be lost */
json_object *info_warnings(const struct info *info);

/* model.c */

/* info_put -- a text; nothing, if it is empty */
void info_put(json_object *object, const char *key, const char *text);

json_object *info_model(const struct info *info);
bool info_loses_data(json_object *model);

/* info_domain_text -- what survives a power failure there, in words */
const char *info_domain_text(enum pmv_persist persist);

/* ask.c: questions to a process that listens */

struct info_answer {
	const char *core;
	enum pmv_transport transport;
	bool refused; /* it does not want to answer */
	uint64_t values[PMV_STATUS_MOST];
	size_t count;
	char why[INFO_TEXT]; /* there is no answer */
};

/* info_ask -- false: answer->why says why there is no answer */
bool info_ask(const char *host, const char *port, int timeout_ms, struct info_answer *answer);

/* target.c */

/* info_target -- the model of what a running target has answered */
json_object *info_target(const char *host, const char *port, const struct info_answer *answer);

/* screen.c */

void info_screen(json_object *model, FILE *out);

#endif /* FI_PMEM_INFO_H */
