/* SPDX-License-Identifier: BSD-2-Clause */
/* peer.c -- what the fuzzers have in common; peer.h says what for */
#include "peer.h"

#include <stdlib.h>

#include "base/setting.h"

const char *__lsan_default_suppressions(void);

/* libpmem2 does not free all of a mapping that it was told of. */
const char *__lsan_default_suppressions(void)
{
	return "leak:libpmem2.so\n";
}

void peer_open(struct peer *peer, const struct pair_options *options)
{
	pair_describe_memory();
	peer->pair = pair_open(options);
	/* Millions of inputs leave too many to be kept. */
	peer->pair->forgets_events = true;
	peer->locked = calloc(1, PAIR_SIZE);
	cr_assert_not_null(peer->locked);
	pmv_setting.domain = PMV_DMP;
	pmv_setting.ddio = true;
	accepted(fi_mr_reg(peer->pair->away->domain, peer->locked, PAIR_SIZE, FI_REMOTE_READ, 0, 0,
			   FI_PMEM, &peer->locked_mr, NULL));
}

void peer_close(struct peer *peer)
{
	static const char zeros[PAIR_SIZE];

	cr_assert(!memcmp(peer->locked, zeros, PAIR_SIZE));
	accepted(fi_close(&peer->locked_mr->fid));
	free(peer->locked);
	pair_close(peer->pair);
}

void peer_translate(const struct peer *peer, struct pmv_range *range)
{
	uint32_t which = (uint32_t) range->key;
	uint32_t key = which | 0x80000000;
	struct fid_mr *mr = NULL;
	char *start = NULL;

	if (which < PAIR_MEMORIES) {
		mr = peer->pair->mr[which];
		start = peer->pair->memory[which];
	} else if (which == PEER_LOCKED) {
		mr = peer->locked_mr;
		start = peer->locked;
	}
	if (mr)
		key = (uint32_t) pmv_key_core(fi_mr_key(mr));
	range->key = (range->key & ~(uint64_t) UINT32_MAX) | key;
	if (peer->pair->away->fake.virt_addr)
		range->addr += (uintptr_t) start;
}
