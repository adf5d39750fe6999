/* SPDX-License-Identifier: BSD-2-Clause */
/* test_submit_refused.c -- which commits are refused, defaults, and plain operations */
#include "test_submit.h"

#include "engine/info.h"
#include "objects/domain.h"
#include "base/setting.h"

/* What is refused */

static uint64_t key_with(const struct pmv_attr *attr)
{
	return pmv_key_pack(CORE_KEY_MHP, attr);
}

Test(refusal, of_what_no_flush_makes_durable_posts_nothing)
{
	const struct {
		const char *what;
		uint64_t key;
		int err;
	} cases[] = {
		{"plain file", KEY_PAGE, FI_EOPNOTSUPP},
		{"caches that do not persist", KEY_DMP_DDIO, FI_EOPNOTSUPP},
		{"plain key", KEY_PLAIN, FI_EOPNOTSUPP},
		{"key of another layout", KEY_MHP ^ (UINT64_C(3) << 58), FI_EOPNOTSUPP},
		{"not writable",
		 key_with(&(struct pmv_attr){.persist = PMV_MHP, .pmem = true, .readable = true}),
		 FI_EACCES},
		{"not readable",
		 key_with(&(struct pmv_attr){.persist = PMV_MHP, .pmem = true, .writable = true}),
		 FI_EOPNOTSUPP},
		{"relaxed",
		 key_with(&(struct pmv_attr){.persist = PMV_MHP,
					     .pmem = true,
					     .relaxed = true,
					     .readable = true,
					     .writable = true}),
		 FI_EOPNOTSUPP},
	};
	static const uint64_t flags[] = {0, FI_FENCE, FI_IMMED, FI_INJECT};
	struct rig *rig = rig_open(NULL);

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		for (size_t n = 0; n < sizeof(flags) / sizeof(flags[0]); n++) {
			cr_expect_eq(rig_commit(rig, cases[i].key, CONTEXT(1), flags[n]),
				     -cases[i].err, "%s", cases[i].what);
			cr_expect_eq(rig_fetch(rig, cases[i].key, CONTEXT(1), FI_COMMIT | flags[n]),
				     -cases[i].err, "%s", cases[i].what);
		}
	}
	expect_posted(rig, "");
	rig_expect_nothing(rig);

	/* And it left no trace. */
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(2), FI_FENCE));
	expect_posted(rig, "W R");
	rig_expect_parts(rig, 2, CONTEXT(2), RIG_WRITTEN);
	rig_close(rig);
}

Test(refusal, concerns_commits_only)
{
	const uint64_t keys[] = {KEY_PAGE, KEY_DMP_DDIO, KEY_PLAIN};
	struct rig *rig = rig_open(NULL);

	for (size_t i = 0; i < 3; i++) {
		accepted(rig_write(rig, keys[i], CONTEXT(i)));
		cr_expect_eq(rig_post(rig, i)->op.key, keys[i] & UINT32_MAX);
	}
	expect_posted(rig, "W W W");
	rig_close(rig);
}

Test(refusal, where_this_side_of_the_path_is_relaxed)
{
	struct rig *rig = rig_open(NULL);

	pmv_setting.relaxed = true;
	refused(rig_commit(rig, KEY_MHP, CONTEXT(1), 0), FI_EOPNOTSUPP);
	expect_posted(rig, "");
	rig_close(rig);
}

Test(refusal, of_one_range_refuses_all)
{
	static char buf[LEN];
	struct iovec iov = {buf, 16};
	struct fi_rma_iov rma_iov[] = {{ADDR, 8, KEY_MHP}, {ADDR, 8, KEY_PAGE}};
	struct rig *rig = rig_open(NULL);

	refused(commit_ranges(rig, &iov, 1, rma_iov, 2, CONTEXT(1), 0), FI_EOPNOTSUPP);
	expect_posted(rig, "");
	rig_close(rig);
}

Test(refusal, of_no_range_and_of_too_many)
{
	struct iovec iov = {NULL, 0};
	struct fi_rma_iov rma_iov[64] = {{ADDR, 0, KEY_MHP}};
	struct rig *rig = rig_open(NULL);

	refused(commit_ranges(rig, &iov, 1, rma_iov, 0, CONTEXT(1), 0), FI_EINVAL);
	refused(commit_ranges(rig, &iov, 1, rma_iov, 64, CONTEXT(1), 0), FI_EINVAL);
	expect_posted(rig, "");
	rig_close(rig);
}

Test(refusal, of_operations_that_can_not_be_committed)
{
	struct rig *rig = rig_open(NULL);

	refused(rig_readmsg(rig, KEY_MHP, CONTEXT(1), FI_COMMIT), FI_EINVAL);
	refused(rig_sendmsg(rig, CONTEXT(1), FI_COMMIT), FI_EOPNOTSUPP);
	expect_posted(rig, "");
	rig_close(rig);
}

Test(refusal, in_domains_whose_keys_say_nothing)
{
	struct rig *rig = rig_open(&(struct rig_options){.unkeyed = true});

	refused(rig_commit(rig, KEY_MHP, CONTEXT(1), 0), FI_EOPNOTSUPP);
	expect_posted(rig, "");
	/* All 64 bits of such a key are the core's. */
	accepted(rig_write(rig, UINT64_C(0xfedcba9876543210), CONTEXT(1)));
	accepted(rig_writemsg(rig, KEY_MHP, CONTEXT(2), 0));
	cr_expect_eq(rig_post(rig, 0)->op.key, UINT64_C(0xfedcba9876543210));
	/* Unless it is a peer's whose keys do. */
	cr_expect_eq(rig_post(rig, 1)->op.key, CORE_KEY_MHP);
	rig_close(rig);
}

/* Defaults: FI_COMMIT_COMPLETE in op_flags */

static char data[8];

Test(op_flags, make_calls_without_flags_commit)
{
	struct rig *rig = rig_open(&(struct rig_options){.tx_op_flags = FI_COMMIT});
	struct iovec iov = {data, 8};
	void *desc = NULL;

	cr_expect(!(rig->fake.ep_info->tx_attr->op_flags & FI_COMMIT));
	accepted(rig_write(rig, KEY_MHP, CONTEXT(0)));
	expect_posted(rig, "W R");
	accepted(fi_writev(rig->ep, &iov, &desc, 1, 0, ADDR, KEY_MHP, CONTEXT(1)));
	expect_posted(rig, "W R");
	accepted(fi_writedata(rig->ep, data, 8, NULL, DATA, 0, ADDR, KEY_MHP, CONTEXT(2)));
	expect_posted(rig, "W R fW0i");
	expect_notice(rig, 6);
	accepted(fi_atomic(rig->ep, data, 1, NULL, 0, ADDR, KEY_MHP, FI_UINT64, FI_ATOMIC_WRITE,
			   CONTEXT(3)));
	expect_posted(rig, "A R");
	fake_complete(&rig->fake, SIZE_MAX);
	for (int i = 0; i < 3; i++)
		rig_expect(rig, CONTEXT(i), RIG_WRITTEN);
	rig_expect(rig, CONTEXT(3), FI_ATOMIC | FI_WRITE);
	rig_expect_nothing(rig);
	rig_close(rig);
}

Test(op_flags, are_overridden_by_calls_with_flags)
{
	struct rig *rig = rig_open(&(struct rig_options){.tx_op_flags = FI_COMMIT});

	accepted(rig_writemsg(rig, KEY_MHP, CONTEXT(0), 0));
	expect_posted(rig, "W");
	cr_expect_eq(rig_post(rig, 0)->op.context, CONTEXT(0));
	rig_close(rig);
}

static void post_plain(struct rig *rig, uint64_t flags)
{
	accepted(rig_read(rig, KEY_MHP, CONTEXT(0)));
	/* Flags override the default. */
	accepted(rig_sendmsg(rig, CONTEXT(1), flags));
	accepted(fi_inject(rig->ep, data, 8, 0));
	accepted(fi_inject_write(rig->ep, data, 8, 0, ADDR, KEY_MHP));
	accepted(fi_inject_writedata(rig->ep, data, 8, DATA, 0, ADDR, KEY_MHP));
	expect_posted(rig, "R S S W Wi");
	for (size_t i = 0; i < 5; i++)
		cr_expect(!(rig_post(rig, i)->op.flags & FI_COMMIT));
}

Test(op_flags, concern_no_reads_and_nothing_that_is_injected)
{
	struct rig *rig = rig_open(&(struct rig_options){.tx_op_flags = FI_COMMIT});

	post_plain(rig, 0);
	rig_close(rig);
}

/* Also where the calls can't go to the core as they are. */
Test(op_flags, with_a_counter_concern_no_reads_and_nothing_that_is_injected)
{
	struct rig *rig =
		rig_open(&(struct rig_options){.tx_op_flags = FI_COMMIT, .not_enabled = true});
	struct fid_cntr *cntr = rig_count(rig, FI_WRITE | FI_READ | FI_SEND);

	post_plain(rig, FI_COMPLETION);
	fake_complete(&rig->fake, 5);
	rig_expect(rig, CONTEXT(0), FI_RMA | FI_READ);
	rig_expect(rig, CONTEXT(1), RIG_SENT);
	rig_expect_nothing(rig);
	rig_close_ep(rig);
	accepted(fi_close(&cntr->fid));
	rig_close(rig);
}

/* Plain operations */

/* as_posted -- the engine posts messages only, but for what is injected */
static enum testcore_call as_posted(enum testcore_call call)
{
	if (testcore_injects(call))
		return call;
	if (call <= TESTCORE_READMSG)
		return TESTCORE_READMSG;
	if (call <= TESTCORE_WRITEDATA)
		return TESTCORE_WRITEMSG;
	return call <= TESTCORE_SENDDATA ? TESTCORE_SENDMSG : TESTCORE_RECVMSG;
}

Test(plain, operations_go_to_the_core_as_they_are)
{
	struct rig *rig = rig_open(NULL);

	for (enum testcore_call call = TESTCORE_READ; call <= TESTCORE_RECVMSG; call++) {
		size_t posted = rig->fake.num_posts;
		const struct fake_post *post;

		cr_assert_eq(rig_call(rig, call, data, KEY_MHP, CONTEXT(1)), 0, "call %d", call);
		cr_assert_eq(rig->fake.num_posts, posted + 1, "call %d", call);
		post = rig_post(rig, posted);
		cr_expect_eq(post->op.call, as_posted(call), "call %d", call);
		cr_expect_eq(post->op.buf, data, "call %d", call);
		cr_expect_eq(post->op.len, CALL_LEN, "call %d", call);
		cr_expect_eq(post->op.context, testcore_injects(call) ? NULL : CONTEXT(1),
			     "call %d", call);
		if (post->op.what & FI_RMA) {
			cr_expect_eq(post->op.addr, ADDR, "call %d", call);
			cr_expect_eq(post->op.key, CORE_KEY_MHP, "call %d", call);
		}
		if (post->op.flags & FI_REMOTE_CQ_DATA)
			cr_expect_eq(post->op.data, DATA, "call %d", call);
	}
	rig_close(rig);
}

Test(plain, messages_of_the_rma_calls_keep_their_flags)
{
	static const uint64_t flags = FI_COMPLETION | FI_MORE | FI_INJECT | FI_REMOTE_CQ_DATA;
	struct rig *rig = rig_open(NULL);

	accepted(rig_writemsg(rig, KEY_MHP, CONTEXT(0), flags));
	accepted(rig_readmsg(rig, KEY_MHP, CONTEXT(1), FI_COMPLETION | FI_MORE));
	cr_expect_eq(rig_post(rig, 0)->op.flags, flags);
	cr_expect_eq(rig_post(rig, 0)->op.data, DATA);
	cr_expect_eq(rig_post(rig, 0)->op.context, CONTEXT(0));
	cr_expect_eq(rig_post(rig, 1)->op.flags, FI_COMPLETION | FI_MORE);
	cr_expect_eq(rig_post(rig, 1)->op.context, CONTEXT(1));
	rig_close(rig);
}

/* What the core is asked for */

Test(core, is_asked_for_queues_that_hold_all_parts)
{
	struct rig *rig = rig_open(&(struct rig_options){.cq_size = 32});
	struct fid_ep *ep;

	cr_expect_eq(rig->fake.cq_size, 32 * PMV_INFO_MAX_REQUESTS);
	rig->fake.domain_info->tx_attr->size = SIZE_MAX;
	rig->info->tx_attr->size = 64;
	ep = rig_ep(rig, rig->cq);
	cr_expect_eq(rig->fake.ep_info->tx_attr->size, 64 * PMV_INFO_MAX_REQUESTS);
	accepted(fi_close(&ep->fid));
	rig_close(rig);
}

Test(core, that_has_no_such_long_queue_is_asked_for_less)
{
	struct rig *rig = rig_open(&(struct rig_options){.cq_size = 32});
	struct fid_cq *cq;

	rig->fake.max_cq_size = 32;
	cq = rig_cq(rig);
	cr_expect_eq(rig->fake.cq_size, 32);
	accepted(fi_close(&cq->fid));
	rig_close(rig);
}

/* RxM's is as long as a job may have peers, which is more than some devices have. */
Test(core, that_has_no_such_long_queue_gives_rxm_the_longest)
{
	static const struct pmv_hooks hooks;
	struct rig *rig = rig_open(&(struct rig_options){.cq_size = 65536});
	struct fi_cq_attr attr = {.size = 65536};
	struct fid_cq *cq;

	rig->fake.max_cq_size = 32767;
	cr_expect(fi_cq_open(rig->domain, &attr, &cq, NULL) < 0);
	pmv_to_domain(rig->domain)->hooks = &hooks;
	accepted(fi_cq_open(rig->domain, &attr, &cq, NULL));
	cr_expect_eq(rig->fake.cq_size, 32767);
	accepted(fi_close(&cq->fid));
	rig_close(rig);
}

Test(core, hears_nothing_of_persistence)
{
	struct rig *rig = rig_open(NULL);
	const struct fi_info *const infos[] = {rig->fake.domain_info, rig->fake.ep_info};

	for (size_t i = 0; i < 2; i++) {
		cr_expect(!(infos[i]->caps & (FI_PMEM | FI_FENCE)));
		cr_expect_str_eq(infos[i]->fabric_attr->prov_name, "fake");
	}
	rig_close(rig);
}
