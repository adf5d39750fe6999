/* SPDX-License-Identifier: BSD-2-Clause */
/* test_eq_sread.c -- who waits for an event, and is interrupted */
#include "objects/eq.h"
#include "test/support/rig.h"

static int interruptions;

static ssize_t be_interrupted(struct fid_eq *fid, uint32_t *event, void *buf, size_t len,
			      int timeout, uint64_t flags)
{
	(void) fid, (void) event, (void) buf, (void) len, (void) timeout, (void) flags;
	interruptions++;
	return -FI_EINTR;
}

/* A process that was stopped has had no signal of its own. */
Test(eq_sread, goes_on_when_it_was_interrupted)
{
	struct rig *rig = rig_open(NULL);
	struct fi_eq_cm_entry entry;
	struct fid_eq *eq;
	uint32_t event;

	accepted(pmv_eq_open(&rig->fabric.fabric_fid, &(struct fi_eq_attr){.size = 8}, &eq, NULL));
	pmv_to_eq(eq)->core_fid->ops->sread = be_interrupted;
	cr_expect_eq(fi_eq_sread(eq, &event, &entry, sizeof(entry), 30, 0), -FI_EAGAIN);
	cr_expect_gt(interruptions, 0);
	accepted(fi_close(&eq->fid));
	rig_close(rig);
}
