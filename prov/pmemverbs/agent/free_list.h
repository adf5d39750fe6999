/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * free_list.h -- what all chains of a domain share: a lock, who is under way, and lists of buffers
 *
 * The target's application makes a list: equal buffers, side by side in a region.  At first all are
 * in use.  Who puts a buffer back, the application or a chain, makes it free.
 *
 * A chain may still see a buffer that was put back: it may have read a pointer to it before.  So
 * each chain gets a number when it begins, and a buffer that is put back gets the number of the
 * chain that has begun last.  It is given out when all chains up to that one have ended.  Buffers
 * are given out in the order in which they were put back, so only the first one has to be looked
 * at.
 *
 * The lock is held during one step of a chain, or one store of the agent, and while the requests of
 * a closed endpoint are dropped; never while something is flushed or synced.  Pages of a file are
 * faulted in before it is taken (pmv_region_fault_in), so that nobody waits for a disk by it.  But
 * they may be evicted in between, or a pointer may have changed: then others wait, too.
 */
#ifndef PMV_FREE_LIST_H
#define PMV_FREE_LIST_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

/* A chain that is under way. */
struct pmv_chain_ticket {
	TAILQ_ENTRY(pmv_chain_ticket) next;
	uint64_t number;
};

struct pmv_freed {
	uint64_t number; /* of the chain that had begun last */
	size_t buffer;
};

struct pmv_free_list {
	LIST_ENTRY(pmv_free_list) next;
	uint32_t number;
	uint32_t key;    /* of the region */
	uint64_t serial; /* ... and its own */
	uint64_t start;  /* the address that peers know the first buffer by */
	uint64_t size;   /* of a buffer */
	size_t count;
	size_t first, num_free; /* in `freed`, which is a ring */
	struct pmv_freed *freed;
	bool *is_free;
};

struct pmv_chains {
	pthread_mutex_t lock;
	uint64_t begun;
	uint32_t last_number;
	TAILQ_HEAD(, pmv_chain_ticket) under_way; /* the oldest one is the first */
	LIST_HEAD(, pmv_free_list) lists;
};

void pmv_chains_init(struct pmv_chains *chains);
void pmv_chains_destroy(struct pmv_chains *chains);

void pmv_chains_begin(struct pmv_chains *chains, struct pmv_chain_ticket *ticket);
void pmv_chains_end(struct pmv_chains *chains, struct pmv_chain_ticket *ticket);

/*
 * pmv_free_list_open -- all but the last four members of `attr` are set, without its number; NULL:
 * no memory
 */
struct pmv_free_list *pmv_free_list_open(struct pmv_chains *chains,
					 const struct pmv_free_list *attr);
void pmv_free_list_close(struct pmv_chains *chains, struct pmv_free_list *list);

/* pmv_free_list_find -- by its number, or NULL.  This and all below hold the lock. */
struct pmv_free_list *pmv_free_list_find(struct pmv_chains *chains, uint32_t number);

/* pmv_free_list_take -- false: there is none that may be given out */
bool pmv_free_list_take(struct pmv_chains *chains, struct pmv_free_list *list, size_t *buffer);

/* pmv_free_list_put -- by the address that peers know; false: it is no buffer, or is free */
bool pmv_free_list_put(struct pmv_chains *chains, struct pmv_free_list *list, uint64_t addr);

#endif /* PMV_FREE_LIST_H */
