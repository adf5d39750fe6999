/* SPDX-License-Identifier: BSD-2-Clause */
/* target.h -- the target of the functional program, for target.c and target_memory.c alone */
#ifndef PMEM_TARGET_H
#define PMEM_TARGET_H

#include <stdbool.h>
#include <stdint.h>

#include <rdma/fi_ext_pmemverbs.h>

#include "../common/common.h"
#include "../common/control.h"
#include "../common/memory.h"
#include "spoil.h"

#define ARENA_SIZE ((size_t) 96 << 20)
#define GUARD 4096
#define PAGE 4096
#define REGIONS 16
#define CONNS 64
#define RECEIVES 256
#define MESSAGE 64
#define LOG 8192
#define GUARD_SEED 0x6a5d

/* A conn's receive: its buffer is at the same index in the conn's messages */
struct receive {
	struct fi_context2 context;
};

struct tconn {
	struct conn conn;
	struct fid_ep *srx;
	bool shares_srx; /* it is target->srx */
	unsigned int nreceives;
	struct receive receives[RECEIVES];
	char messages[RECEIVES][MESSAGE];
	struct region message_region;
	struct log_entry log[LOG];
	size_t logged;
	struct fid_cntr *cntr; /* of the peer's writes */
	bool is_unread;        /* its queue is target->unread */
	uint64_t events;       /* that were logged */
};

struct target {
	const struct options *opts;
	struct node node;
	struct memory arena;
	char own_path[256]; /* of the file behind it, or empty */
	size_t used;
	struct region regions[REGIONS];
	struct own_file files[REGIONS];           /* of the regions that have one */
	struct fid_cntr *cntrs[REGIONS];          /* of peers' writes; or NULL */
	struct fi_pmemverbs_list *lists[REGIONS]; /* of buffers in it; or NULL */
	struct tconn *conns[CONNS];
	struct fid_cq *unread;
	struct fid_ep *srx; /* of all that share one */
	struct expectation armed;
	bool is_armed;
};

static inline struct region *find_region(struct target *target, uint64_t id)
{
	return id < REGIONS && target->regions[id].mr ? &target->regions[id] : NULL;
}

/*
 * Commands about memory.  Each answers in the message: 0, or a negative error, is its status.  A
 * reply is a payload.
 */
int cmd_reg(struct target *target, struct control_msg *msg);
int cmd_dereg(struct target *target, uint64_t id);
int cmd_file(struct target *target, struct control_msg *msg, const char *path);
int cmd_spoil(struct target *target, uint64_t id, enum spoil how);
int cmd_read(struct target *target, struct control_msg *msg, const void **reply);
int cmd_list(struct target *target, struct control_msg *msg);
int cmd_watch(struct target *target, struct control_msg *msg, const void *payload);
int cmd_pairs(struct target *target, struct control_msg *msg, const void *payload);

/* target_progress -- read all completion queues, and write down what has arrived */
void target_progress(struct target *target);

/* close_region -- and its file, which goes */
int close_region(struct target *target, uint64_t id);
void close_arena(struct target *target);

#endif /* PMEM_TARGET_H */
