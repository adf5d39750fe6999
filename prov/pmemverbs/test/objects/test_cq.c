/* SPDX-License-Identifier: BSD-2-Clause */
/* test_cq.c -- what a completion queue tells of itself, and of where entries come from */
#include <poll.h>

#include "objects/cq.h"
#include "test/support/pair.h"

static struct fid_cq *open_queue(struct rig *rig, enum fi_wait_obj wait_obj)
{
	struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = wait_obj};
	struct fid_cq *cq;

	accepted(fi_cq_open(rig->domain, &attr, &cq, NULL));
	return cq;
}

Test(cq, says_what_can_be_waited_for)
{
	static const struct {
		enum fi_wait_obj asked, said;
	} queues[] = {
		{FI_WAIT_NONE, FI_WAIT_NONE},   {FI_WAIT_UNSPEC, FI_WAIT_FD},
		{FI_WAIT_FD, FI_WAIT_FD},       {FI_WAIT_POLLFD, FI_WAIT_POLLFD},
		{FI_WAIT_YIELD, FI_WAIT_YIELD},
	};

	/* A queue of a core that moves data in calls has descriptors of its own, whatever is asked.
	 */
	for (size_t i = 0; i < 2 * sizeof(queues) / sizeof(queues[0]); i++) {
		struct rig *rig = rig_open(NULL);
		enum fi_wait_obj said = FI_WAIT_UNSPEC;
		struct fid_cq *cq;

		rig->core.manual_progress = i & 1;
		cq = open_queue(rig, queues[i / 2].asked);
		accepted(fi_control(&cq->fid, FI_GETWAITOBJ, &said));
		cr_expect_eq(said, queues[i / 2].said, "%zu: %d", i / 2, said);
		accepted(fi_close(&cq->fid));
		rig_close(rig);
	}
}

Test(cq, hands_out_a_descriptor_only_where_one_was_asked_for)
{
	for (int manual_progress = 0; manual_progress < 2; manual_progress++) {
		struct rig *rig = rig_open(NULL);
		struct pollfd places[2] = {{.fd = -1}, {.fd = -1}};
		struct fi_wait_pollfd set = {.nfds = 0, .fd = places};
		struct fi_wait_pollfd untouched = {.nfds = 77, .fd = NULL};
		struct fid_cq *cq;
		int fd = -1;

		rig->core.manual_progress = manual_progress;
		cq = open_queue(rig, FI_WAIT_FD);
		accepted(fi_control(&cq->fid, FI_GETWAIT, &fd));
		cr_expect_geq(fd, 0);
		accepted(fi_close(&cq->fid));

		cq = open_queue(rig, FI_WAIT_POLLFD);
		/* How many there are is said in any case. */
		refused(fi_control(&cq->fid, FI_GETWAIT, &set), FI_ETOOSMALL);
		cr_expect_eq(set.nfds, 1);
		cr_expect_eq(places[0].fd, -1);
		set.nfds = 2;
		accepted(fi_control(&cq->fid, FI_GETWAIT, &set));
		cr_expect_eq(set.nfds, 1);
		cr_expect_geq(places[0].fd, 0);
		cr_expect_eq(places[0].events, POLLIN);
		cr_expect_eq(places[1].fd, -1);
		accepted(fi_close(&cq->fid));

		for (int yield = 0; yield < 2; yield++) {
			cq = open_queue(rig, yield ? FI_WAIT_YIELD : FI_WAIT_NONE);
			refused(fi_control(&cq->fid, FI_GETWAIT, &untouched), FI_ENODATA);
			cr_expect_eq(untouched.nfds, 77);
			accepted(fi_close(&cq->fid));
		}
		rig_close(rig);
	}
}

/* An endpoint that is connected has one peer. */
Test(cq, knows_no_address_of_a_source)
{
	struct rig *rig = rig_open(&(struct rig_options){.wait_obj = FI_WAIT_FD});
	struct fi_cq_tagged_entry entry = {0};
	fi_addr_t source = 5;

	for (int sread = 0; sread < 2; sread++) {
		source = 5;
		refused(fi_cq_readfrom(rig->cq, &entry, 1, &source), FI_EAGAIN);
		cr_expect_eq(source, 5);
		accepted(rig_write(rig, KEY_PLAIN, CONTEXT(1 + sread)));
		fake_complete(&rig->fake, SIZE_MAX);
		cr_assert_eq(sread ? fi_cq_sreadfrom(rig->cq, &entry, 1, &source, NULL, -1)
				   : fi_cq_readfrom(rig->cq, &entry, 1, &source),
			     1);
		cr_expect_eq(entry.op_context, CONTEXT(1 + sread));
		cr_expect_eq(source, FI_ADDR_NOTAVAIL);
	}
	rig_close(rig);
}

/* has_looked -- before a sleep: in vain, which is counted */
static bool has_looked(struct pmv_cq *cq)
{
	return atomic_exchange(&cq->looked[0].skips, 0);
}

/* What such a look moves may make that room.  No entry would tell of it. */
Test(trywait, does_not_look_for_who_found_no_room)
{
	struct rig *rig = rig_open(&(struct rig_options){.wait_obj = FI_WAIT_FD});
	struct pmv_cq *cq = pmv_to_cq(rig->cq);

	rig->fake.room = 0;
	refused(rig_write(rig, KEY_MHP, CONTEXT(0)), FI_EAGAIN);
	accepted(pmv_cq_trywait(cq));
	accepted(pmv_cq_trywait(cq));
	cr_expect_not(has_looked(cq));
	pmv_queue_lets_sleep(&cq->queue);
	accepted(pmv_cq_trywait(cq));
	cr_expect(has_looked(cq));
	rig_close(rig);
}

Test(trywait, does_not_look_for_who_has_to_wait_for_reads)
{
	struct rig *rig = rig_open(&(struct rig_options){.wait_obj = FI_WAIT_FD, .no_fence = true});
	struct pmv_cq *cq = pmv_to_cq(rig->cq);

	accepted(rig_read(rig, KEY_MHP, CONTEXT(0)));
	refused(rig_writemsg(rig, KEY_MHP, CONTEXT(1), FI_FENCE), FI_EAGAIN);
	accepted(pmv_cq_trywait(cq));
	cr_expect_not(has_looked(cq));
	fake_complete(&rig->fake, SIZE_MAX);
	rig_close(rig);
}
