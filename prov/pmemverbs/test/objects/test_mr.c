/* SPDX-License-Identifier: BSD-2-Clause */
/* test_mr.c -- who may read a region that peers write to, and what its key says of it */
#include <stdlib.h>

#include <rdma/providers/fi_prov.h>

#include "test/support/key_dirs.h"
#include "test/support/rig.h"

static char memory[4096];

static int reg(struct rig *rig, uint64_t access, uint64_t flags, struct fid_mr **mr)
{
	pmv_setting.domain_declared = true;
	/* Where a write needs no flush, but one that is fenced may. */
	pmv_setting.domain = PMV_WSP;
	return fi_mr_reg(rig->domain, memory, sizeof(memory), access, 0, 0, flags, mr, NULL);
}

/* expect_readable -- the core lets peers read if the key says so, and as it is wanted */
static void expect_readable(struct rig *rig, uint64_t access, uint64_t flags, bool readable)
{
	const struct testcore_mr *core;
	struct pmv_attr attr;
	struct fid_mr *mr;

	accepted(reg(rig, access, flags, &mr));
	cr_assert(pmv_key_unpack(fi_mr_key(mr), &attr));
	core = testcore_mr_find(&rig->fake.mrs, pmv_key_core(fi_mr_key(mr)));
	cr_assert_not_null(core);
	cr_expect_eq(attr.readable, readable);
	cr_expect_eq(!!(core->access & FI_REMOTE_READ), readable);
	cr_expect_eq(attr.writable, !!(access & FI_REMOTE_WRITE));
	accepted(fi_close(&mr->fid));
}

Test(mr, lets_peers_read_what_they_have_to_flush)
{
	struct rig *rig = rig_open(NULL);

	expect_readable(rig, FI_REMOTE_WRITE, FI_PMEM, true);
	expect_readable(rig, FI_REMOTE_WRITE, 0, true);
	expect_readable(rig, FI_REMOTE_WRITE | FI_REMOTE_READ, FI_PMEM, true);
	expect_readable(rig, FI_REMOTE_READ, FI_PMEM, true);
	expect_readable(rig, FI_RECV, FI_PMEM, false);
	rig_close(rig);
}

Test(mr, lets_them_read_only_what_the_application_says)
{
	struct rig *rig;

	pmv_setting.reads_explicit = true;
	rig = rig_open(NULL);
	expect_readable(rig, FI_REMOTE_WRITE, FI_PMEM, false);
	expect_readable(rig, FI_REMOTE_WRITE, 0, false);
	expect_readable(rig, FI_REMOTE_WRITE | FI_REMOTE_READ, FI_PMEM, true);
	expect_readable(rig, FI_REMOTE_READ, FI_PMEM, true);
	rig_close(rig);
}

/* The agent has to look for requests, which it would not for memory that peers flush. */
Test(mr, that_nobody_reads_needs_the_agent)
{
	struct rig *rig;
	struct fid_mr *mr;

	for (int explicit = 0; explicit < 2; explicit ++) {
		pmv_setting.reads_explicit = explicit;
		rig = rig_open(NULL);
		accepted(reg(rig, FI_REMOTE_WRITE, FI_PMEM, &mr));
		cr_expect_eq(pmv_container_of(mr, struct pmv_mr, mr_fid)->region->attr.needs_agent,
			     explicit);
		accepted(fi_close(&mr->fid));
		rig_close(rig);
	}
}

/* Rights that the core grants all the same would make it a lie. */
Test(mr, is_refused_where_a_cache_grants_all_rights)
{
	struct rig *rig;
	struct fid_mr *mr;
	int open;

	fi_param_define(NULL, "mr_cache_max_count", FI_PARAM_SIZE_T, "libfabric's own");
	unsetenv("FI_MR_CACHE_MAX_COUNT");
	pmv_setting.reads_explicit = true;
	rig = rig_open(NULL);
	rig->core.caches_regions = true;
	open = rig->fake.open_objects;
	refused(reg(rig, FI_REMOTE_WRITE, FI_PMEM, &mr), FI_EOPNOTSUPP);
	cr_expect_eq(rig->fake.open_objects, open);
	expect_readable(rig, FI_REMOTE_WRITE | FI_REMOTE_READ, FI_PMEM, true);
	setenv("FI_MR_CACHE_MAX_COUNT", "0", 1);
	expect_readable(rig, FI_REMOTE_WRITE, FI_PMEM, false);
	setenv("FI_MR_CACHE_MAX_COUNT", "5", 1);
	refused(reg(rig, FI_REMOTE_WRITE, FI_PMEM, &mr), FI_EOPNOTSUPP);
	pmv_setting.reads_explicit = false;
	expect_readable(rig, FI_REMOTE_WRITE, FI_PMEM, true);
	rig_close(rig);
}

/* refuse_first -- the kernel refuses that memory the right to be flushed */
static int refusals;

static int refuse_first(const struct fake *fake)
{
	(void) fake;
	return refusals-- > 0 ? -FI_EINVAL : 0;
}

static int refuse_atomic_writes(const struct fake *fake)
{
	(void) fake;
	return refusals-- > 0 ? -FI_EOPNOTSUPP : 0;
}

static bool atomic_writes = true;

/* expect_flushable -- the key of such a region says so, or not */
static void expect_flushable(struct rig *rig, enum pmv_persist persist, bool ddio, bool flushable)
{
	struct pmv_attr attr;
	struct fid_mr *mr;

	pmv_setting.domain_declared = pmv_setting.ddio_declared = true;
	pmv_setting.domain = persist;
	pmv_setting.ddio = ddio;
	accepted(fi_mr_reg(rig->domain, memory, sizeof(memory), FI_REMOTE_WRITE, 0, 0, FI_PMEM, &mr,
			   NULL));
	cr_assert(pmv_key_unpack(fi_mr_key(mr), &attr));
	cr_expect_eq(attr.persist, persist);
	cr_expect_eq(attr.flushable, flushable, "persist %d, DDIO %d", persist, ddio);
	cr_expect_eq(attr.atomic_write, flushable && atomic_writes);
	accepted(fi_close(&mr->fid));
}

Test(mr, says_that_rdma_flush_makes_it_durable_where_the_kernel_lets_it)
{
	struct rig *rig = rig_open(NULL);

	expect_flushable(rig, PMV_DMP, true, false);
	rig->core.posts_lists = true;
	expect_flushable(rig, PMV_DMP, true, true);
	expect_flushable(rig, PMV_DMP, false, false);
	expect_flushable(rig, PMV_MHP, true, false);
	rig->fake.on_open = refuse_first;
	refusals = 1;
	expect_flushable(rig, PMV_DMP, true, false);
	/* A device has FLUSH, and no ATOMIC WRITE. */
	rig->fake.on_open = refuse_atomic_writes;
	refusals = 1;
	atomic_writes = false;
	expect_flushable(rig, PMV_DMP, true, true);
	rig->fake.on_open = NULL;
	pmv_setting.no_flush = true;
	expect_flushable(rig, PMV_DMP, true, false);
	rig_close(rig);
}

/* With FI_PMEMVERBS_KEYS a false target may guess keys, until his proof is looked at. */

static uint32_t core_key(struct rig *rig, int *ret)
{
	uint32_t key = 0;
	struct fid_mr *mr;

	*ret = fi_mr_reg(rig->domain, memory, sizeof(memory), FI_REMOTE_WRITE, 0, 0, 0, &mr, NULL);
	if (*ret)
		return 0;
	key = (uint32_t) pmv_key_core(fi_mr_key(mr));
	accepted(fi_close(&mr->fid));
	return key;
}

/* some_above -- one of so many keys has more bits than a core that counts would come to */
static bool some_above(struct rig *rig)
{
	bool above = false;
	int ret;

	for (int i = 0; i < 16; i++) {
		above |= core_key(rig, &ret) > UINT16_MAX;
		accepted(ret);
	}
	return above;
}

static int taken;

static int is_taken(const struct fake *fake)
{
	(void) fake;
	return taken && taken-- ? -FI_ENOKEY : 0;
}

Test(mr, has_a_key_that_was_drawn, .init = key_dirs_make, .fini = key_dirs_remove)
{
	struct rig *rig;
	int ret;

	key_dirs_be(CLIENT);
	rig = rig_open(NULL);
	cr_expect_not(rig->fake.domain_info->domain_attr->mr_mode & FI_MR_PROV_KEY);
	cr_expect(some_above(rig));
	/* Another one is drawn; but not without end, if that is not why it fails. */
	rig->fake.on_open = is_taken;
	taken = 3;
	core_key(rig, &ret);
	cr_expect_eq(ret, 0);
	cr_expect_eq(taken, 0);
	taken = 1000;
	core_key(rig, &ret);
	cr_expect_eq(ret, -FI_ENOKEY);
	rig->fake.on_open = NULL;
	rig_close(rig);
}

Test(mr, has_a_key_of_the_cores_without_the_setting)
{
	struct rig *rig = rig_open(NULL);

	cr_expect(rig->fake.domain_info->domain_attr->mr_mode & FI_MR_PROV_KEY);
	cr_expect_not(some_above(rig));
	rig_close(rig);
}

Test(mr, is_refused_where_its_key_would_be_counted, .init = key_dirs_make, .fini = key_dirs_remove)
{
	struct fid_domain *domain;
	struct rig *rig;

	key_dirs_be(CLIENT);
	rig = rig_open(NULL);
	rig->info->domain_attr->mr_mode = PMV_MR_BASIC;
	refused(pmv_domain_open(&rig->fabric.fabric_fid, rig->info, &domain, NULL), FI_EOPNOTSUPP);
	rig->info->domain_attr->mr_mode = FI_MR_PROV_KEY;
	rig_close(rig);
}

/* As libfabric since 2.2 has it. */
Test(mr, has_no_key_of_the_cores_if_peers_can_not_reach_it)
{
	struct fid_mr *local, *received[2], *mr;
	struct rig *rig = rig_open(NULL);
	struct pmv_attr attr;

	rig->fake.remote = FI_REMOTE_WRITE | FI_REMOTE_READ;
	accepted(reg(rig, FI_SEND | FI_WRITE, 0, &local));
	for (int i = 0; i < 2; i++) {
		accepted(reg(rig, FI_RECV, FI_PMEM, &received[i]));
		cr_expect(pmv_mr_kind(pmv_to_domain(rig->domain), received[i], &attr));
		cr_expect_eq(attr.persist, PMV_WSP);
	}
	accepted(reg(rig, FI_REMOTE_READ, 0, &mr));
	accepted(fi_close(&mr->fid));
	rig->fake.remote = FI_REMOTE_WRITE;
	refused(reg(rig, FI_REMOTE_READ, 0, &mr), FI_EKEYREJECTED);
	for (int i = 0; i < 2; i++)
		accepted(fi_close(&received[i]->fid));
	accepted(fi_close(&local->fid));
	rig_close(rig);
}

Test(mr, without_a_key_of_the_cores_says_so_where_keys_are_plain)
{
	struct rig *rig = rig_open(NULL);
	struct fid_mr *mr;

	rig->fake.remote = FI_REMOTE_WRITE | FI_REMOTE_READ;
	pmv_to_domain(rig->domain)->keyed = false;
	accepted(reg(rig, FI_SEND | FI_WRITE, 0, &mr));
	cr_expect_eq(fi_mr_key(mr), FI_KEY_NOTAVAIL);
	accepted(fi_close(&mr->fid));
	rig_close(rig);
}
