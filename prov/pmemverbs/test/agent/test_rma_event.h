/* SPDX-License-Identifier: BSD-2-Clause */
/* test_rma_event.h -- a pair whose application away wants to be told of what is written there */
#ifndef TEST_RMA_EVENT_H
#define TEST_RMA_EVENT_H

#include "test/support/pair.h"

struct told {
	struct pair *pair;
	struct fid_cntr *ep;  /* of the endpoint away */
	struct fid_cntr *mr;  /* of the region DMP ... */
	struct fid_cntr *mhp; /* ... and MHP */
};

static inline struct fid_cntr *told_bind(struct told *told, enum pair_memory memory)
{
	struct fid_cntr *cntr = rig_cntr(told->pair->away);

	accepted(fi_mr_bind(told->pair->mr[memory], &cntr->fid, FI_REMOTE_WRITE));
	return cntr;
}

static inline struct told told_open(struct pair_options options)
{
	struct told told;

	options.away.events = true;
	options.away.not_enabled = true;
	told.pair = pair_open(&options);
	told.ep = rig_count(told.pair->away, FI_REMOTE_WRITE);
	told.mr = told_bind(&told, DMP);
	told.mhp = told_bind(&told, MHP);
	return told;
}

static inline void told_close(struct told *told)
{
	if (told->pair->away->ep)
		rig_close_ep(told->pair->away);
	for (int i = 0; i < PAIR_MEMORIES; i++) {
		if (told->pair->mr[i])
			pair_unregister(told->pair, i);
	}
	accepted(fi_close(&told->ep->fid));
	accepted(fi_close(&told->mr->fid));
	accepted(fi_close(&told->mhp->fid));
	pair_close(told->pair);
}

/* expect_told_region -- so many are counted for the endpoint, and for the region; no errors */
static inline void expect_told_region(struct told *told, enum pair_memory memory, int ep, int mr)
{
	struct fid_cntr *cntr = memory == MHP ? told->mhp : told->mr;

	cr_assert_eq(fi_cntr_read(told->ep), (uint64_t) ep, "%d instead of %d",
		     (int) fi_cntr_read(told->ep), ep);
	cr_assert_eq(fi_cntr_read(cntr), (uint64_t) mr, "%d instead of %d in the region",
		     (int) fi_cntr_read(cntr), mr);
	cr_assert_eq(fi_cntr_readerr(told->ep), 0);
	cr_assert_eq(fi_cntr_readerr(cntr), 0);
}

static inline void expect_told(struct told *told, int ep, int mr)
{
	expect_told_region(told, DMP, ep, mr);
}

/* expect_entries -- so many of that kind, and no more */
static inline void expect_entries(struct told *told, int count, uint64_t flags)
{
	for (int i = 0; i < count; i++)
		rig_expect(told->pair->away, NULL, flags);
	rig_expect_nothing(told->pair->away);
}

#endif /* TEST_RMA_EVENT_H */
