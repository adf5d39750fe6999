/* SPDX-License-Identifier: BSD-2-Clause */
/* test_submit_lives.c -- what is done with a key of another life than the peer's is refused */
#include "test_submit.h"

#include "base/setting.h"
#include "objects/handshake.h"

#define LIFE 0x1234
#define OTHER 0x1235

static uint64_t key_of(uint16_t life)
{
	return pmv_key_pack(CORE_KEY_MHP, &(struct pmv_attr){
						  .persist = PMV_MHP,
						  .pmem = true,
						  .readable = true,
						  .writable = true,
						  .life = life,
					  });
}

static struct rig *open_connected(const struct rig_options *options)
{
	struct rig *rig = rig_open(options);

	pmv_handshake_connect(pmv_to_ep(rig->ep),
			      &(struct pmv_handshake){.known = true, .life = LIFE});
	return rig;
}

static void expect_refused(struct rig *rig, uint64_t key)
{
	static const uint64_t flags[] = {0,
					 FI_FENCE,
					 FI_INJECT,
					 FI_REMOTE_CQ_DATA,
					 FI_COMMIT,
					 FI_COMMIT | FI_FENCE,
					 FI_COMMIT | FI_IMMED};
	static const enum testcore_call calls[] = {
		TESTCORE_READ,      TESTCORE_READV,          TESTCORE_READMSG,
		TESTCORE_WRITE,     TESTCORE_WRITEV,         TESTCORE_WRITEMSG,
		TESTCORE_WRITEDATA, TESTCORE_INJECT_WRITE,   TESTCORE_INJECT_WRITEDATA,
		TESTCORE_ATOMICMSG, TESTCORE_FETCH_ATOMICMSG};
	char buf[CALL_LEN] = {0};

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		cr_expect_eq(rig_call(rig, calls[i], buf, key, CONTEXT(1)), -FI_EKEYREJECTED,
			     "call %d", calls[i]);
	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
		cr_expect_eq(rig_writemsg(rig, key, CONTEXT(1), flags[i]), -FI_EKEYREJECTED,
			     "flags %#llx", (unsigned long long) flags[i]);
	cr_expect_eq(rig_readmsg(rig, key, CONTEXT(1), FI_FENCE), -FI_EKEYREJECTED);
	cr_expect_eq(rig_fetch(rig, key, CONTEXT(1), FI_COMMIT), -FI_EKEYREJECTED);
	expect_posted(rig, "");
	rig_expect_nothing(rig);
}

/* Also when the key that fits is known already, and differs in nothing else. */
Test(life, of_another_peer_is_refused_by_all_calls)
{
	struct rig *rig = open_connected(NULL);

	expect_refused(rig, key_of(OTHER));
	accepted(rig_write(rig, key_of(LIFE), CONTEXT(1)));
	accepted(rig_commit(rig, key_of(LIFE), CONTEXT(2), 0));
	expect_posted(rig, "W W R");
	fake_complete(&rig->fake, 1);
	rig_expect(rig, CONTEXT(1), RIG_WRITTEN);
	rig_expect_parts(rig, 2, CONTEXT(2), RIG_WRITTEN);
	expect_refused(rig, key_of(OTHER));
	rig_close(rig);
}

Test(life, of_another_peer_is_refused_where_all_writes_commit)
{
	struct rig *rig;

	pmv_setting.commit_all = true;
	rig = open_connected(NULL);
	expect_refused(rig, key_of(OTHER));
	rig_close(rig);
}

Test(life, of_another_peer_is_refused_at_any_of_several_places)
{
	struct iovec iov = {(char[2 * LEN]){0}, 2 * (size_t) LEN};
	struct rig *rig = open_connected(NULL);

	for (int second = 0; second < 2; second++) {
		const struct fi_rma_iov to[] = {
			{ADDR, LEN, key_of(second ? LIFE : OTHER)},
			{ADDR + LEN, LEN, key_of(second ? OTHER : LIFE)},
		};

		refused(commit_ranges(rig, &iov, 1, to, 2, CONTEXT(1), 0), FI_EKEYREJECTED);
	}
	expect_posted(rig, "");
	rig_close(rig);
}

/* Whatever else it says. */
Test(life, of_another_peer_is_refused_with_attributes_that_are_not_known)
{
	struct rig *rig = open_connected(NULL);

	expect_refused(rig, key_of(OTHER) | UINT64_C(7) << 32);
	rig_close(rig);
}

/* The core holds back what is posted then.  Later calls know better. */
Test(life, of_another_peer_is_refused_though_it_was_used_before_the_connection)
{
	struct rig *rig = rig_open(NULL);
	uint64_t wsp = pmv_key_pack(CORE_KEY_WSP, &(struct pmv_attr){
							  .persist = PMV_WSP,
							  .pmem = true,
							  .readable = true,
							  .writable = true,
							  .life = OTHER,
						  });

	for (int i = 0; i < 2; i++) {
		accepted(rig_write(rig, key_of(OTHER), CONTEXT(1)));
		accepted(rig_write(rig, wsp, CONTEXT(2)));
	}
	expect_posted(rig, "W W W W");
	pmv_handshake_connect(pmv_to_ep(rig->ep),
			      &(struct pmv_handshake){.known = true, .life = LIFE});
	refused(rig_write(rig, wsp, CONTEXT(3)), FI_EKEYREJECTED);
	refused(rig_write(rig, key_of(OTHER), CONTEXT(3)), FI_EKEYREJECTED);
	refused(rig_commit(rig, wsp, CONTEXT(3), 0), FI_EKEYREJECTED);
	expect_posted(rig, "");
	rig_close(rig);
}

/* A plain key says nothing of a life, nor does a peer that has sent no handshake. */
Test(life, is_asked_for_only_where_both_have_one)
{
	struct rig *rig = open_connected(NULL);

	accepted(rig_write(rig, KEY_PLAIN, CONTEXT(1)));
	accepted(rig_read(rig, KEY_PLAIN, CONTEXT(2)));
	expect_posted(rig, "W R");
	rig_close(rig);

	rig = rig_open(NULL);
	pmv_handshake_connect(pmv_to_ep(rig->ep), &(struct pmv_handshake){0});
	accepted(rig_write(rig, key_of(OTHER), CONTEXT(1)));
	accepted(rig_read(rig, key_of(LIFE), CONTEXT(2)));
	expect_posted(rig, "W R");
	/* It may have been chosen by an application, and look like ours. */
	refused(rig_commit(rig, key_of(LIFE), CONTEXT(3), 0), FI_EOPNOTSUPP);
	expect_posted(rig, "");
	rig_close(rig);
}

Test(life, is_not_asked_for_where_applications_choose_the_keys)
{
	struct rig *rig = open_connected(&(struct rig_options){.unkeyed = true});

	accepted(rig_write(rig, key_of(OTHER), CONTEXT(1)));
	accepted(rig_read(rig, key_of(OTHER), CONTEXT(2)));
	expect_posted(rig, "W R");
	rig_close(rig);
}

Test(life, of_another_peer_is_told_by_a_query)
{
	struct rig *rig = open_connected(NULL);
	struct fi_pmemverbs_region region;
	struct fi_pmemverbs_ops *ops;

	accepted(fi_open_ops(&rig->domain->fid, FI_PMEMVERBS_OPS, 0, (void **) &ops, NULL));
	accepted(ops->query_key(rig->ep, key_of(LIFE), &region));
	refused(ops->query_key(rig->ep, key_of(OTHER), &region), FI_EKEYREJECTED);
	refused(ops->query_key(rig->ep, KEY_PLAIN, &region), FI_ENOKEY);
	rig_close(rig);
}

/* A target asks what its peers find in them. */
Test(life, of_its_own_keys_is_no_matter_for_a_query)
{
	struct rig *rig = open_connected(NULL);
	struct fi_pmemverbs_region region;
	struct fi_pmemverbs_ops *ops;

	pmv_to_domain(rig->domain)->life = LIFE ^ 1;
	accepted(fi_open_ops(&rig->domain->fid, FI_PMEMVERBS_OPS, 0, (void **) &ops, NULL));
	accepted(ops->query_key(rig->ep, key_of(LIFE ^ 1), &region));
	rig_close(rig);
}

/* Its regions and its connections say the same; another domain of the process says another. */
Test(life, is_a_domains_own)
{
	struct rig *rig = rig_open(NULL);
	struct pmv_handshake handshake;
	uint8_t buf[PMV_HANDSHAKE_SIZE];
	struct fid_domain *domain;
	unsigned int differ = 0;
	struct fid_mr *mr;
	struct pmv_attr attr;

	rig_close_ep(rig);
	pmv_to_domain(rig->domain)->life = LIFE;
	rig->ep = rig_ep(rig, rig->cq);
	accepted(fi_mr_reg(rig->domain, buf, sizeof(buf), FI_REMOTE_READ, 0, 0, 0, &mr, NULL));
	cr_assert(pmv_key_unpack(fi_mr_key(mr), &attr));
	cr_assert_eq(attr.life, LIFE);
	accepted(pmv_mailbox_open(&pmv_to_ep(rig->ep)->mailbox));
	pmv_mailbox_handshake(&pmv_to_ep(rig->ep)->mailbox, buf);
	cr_assert_eq(pmv_handshake_decode(buf, sizeof(buf), &handshake), 0);
	cr_assert_eq(handshake.life, LIFE);
	accepted(fi_close(&mr->fid));
	for (int i = 0; i < 8; i++) {
		uint16_t life;

		accepted(pmv_domain_open(&rig->fabric.fabric_fid, rig->info, &domain, NULL));
		life = pmv_to_domain(domain)->life;
		accepted(fi_close(&domain->fid));
		accepted(pmv_domain_open(&rig->fabric.fabric_fid, rig->info, &domain, NULL));
		differ += pmv_to_domain(domain)->life != life;
		accepted(fi_close(&domain->fid));
	}
	cr_assert_gt(differ, 0);
	rig_close(rig);
}
