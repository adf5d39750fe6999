/* SPDX-License-Identifier: BSD-2-Clause */
/* test_status_reply.c -- questions to a listener: answered, and unseen by the application */
#include "agent/status_query.h"
#include "base/log.h"
#include "objects/eq.h"
#include "objects/handshake.h"
#include "objects/unwrap.h"
#include "test/support/rig.h"

#define COUNTERS (sizeof(struct fi_pmemverbs_counters) / sizeof(uint64_t))
#define VALUES (PMV_STATUS_COUNTERS + COUNTERS)

struct stage {
	struct rig *rig;
	struct fid_eq *eq;
	struct fid_eq *core_eq;
	struct fid_pep *pep;
};

static void stage_open(struct stage *stage)
{
	struct rig *rig = rig_open(NULL);

	pmv_setting.answers = true;
	stage->rig = rig;
	accepted(pmv_eq_open(&rig->fabric.fabric_fid, &(struct fi_eq_attr){.size = 8}, &stage->eq,
			     NULL));
	accepted(pmv_pep_open(&rig->fabric.fabric_fid, rig->info, &stage->pep, NULL));
	accepted(fi_pep_bind(stage->pep, &stage->eq->fid, 0));
	stage->core_eq = pmv_to_eq(stage->eq)->core_fid;
}

static void stage_close(struct stage *stage)
{
	accepted(fi_close(&stage->pep->fid));
	accepted(fi_close(&stage->eq->fid));
	pmv_handshake_forget_all(&stage->rig->fabric);
	rig_close(stage->rig);
}

union event {
	struct fi_eq_cm_entry cm;
	char room[256];
};

/* request -- a connection request with that private data; a leak of its fi_info is found by ASan */
static void request(struct stage *stage, const void *data, size_t len, uintptr_t handle)
{
	union event event = {.cm = {.fid = pmv_unwrap_fid(&stage->pep->fid)}};

	event.cm.info = fi_allocinfo();
	event.cm.info->handle = (struct fid *) handle;
	memcpy(event.cm.data, data, len);
	fake_raise(stage->core_eq, FI_CONNREQ, &event, sizeof(event.cm) + len);
}

static void ask(struct stage *stage, uint8_t page, uintptr_t handle)
{
	uint8_t question[PMV_STATUS_QUERY_SIZE];

	pmv_status_query_encode(question, page);
	request(stage, question, sizeof(question), handle);
}

static void expect_no_event(struct stage *stage, uint64_t flags)
{
	union event event;
	uint32_t what;

	cr_assert_eq(fi_eq_read(stage->eq, &what, &event, sizeof(event), flags), -FI_EAGAIN);
}

static void expect_request(struct stage *stage, size_t len)
{
	union event event;
	uint32_t what = 0;
	ssize_t ret = fi_eq_read(stage->eq, &what, &event, sizeof(event), 0);

	cr_assert_eq(ret, (ssize_t) (sizeof(event.cm) + len), "%zd", ret);
	cr_expect_eq(what, FI_CONNREQ);
	fi_freeinfo(event.cm.info);
}

/* read_all -- all pages */
static void read_all(struct stage *stage, uint64_t values[VALUES])
{
	struct pmv_status_reply page = {.pages = 1};
	size_t count = 0;

	for (uint8_t n = 0; n < page.pages; n++) {
		const struct fake *fake = &stage->rig->fake;

		ask(stage, n, 0x1000U + n);
		expect_no_event(stage, 0);
		cr_assert_eq(fake->rejected, (struct fid *) (uintptr_t) (0x1000U + n));
		cr_assert(
			pmv_status_reply_decode(fake->rejected_with, fake->rejected_len, n, &page));
		cr_assert_leq(count + page.count, VALUES);
		memcpy(values + count, page.values, page.count * sizeof(*values));
		count += page.count;
	}
	cr_expect_eq(count, VALUES);
}

Test(asked, it_tells_what_it_offers_and_has_counted)
{
	uint64_t values[VALUES];
	struct stage stage;

	stage_open(&stage);
	pmv_setting.relaxed = false;
	accepted(rig_commit(stage.rig, KEY_MHP, CONTEXT(1), 0));
	fake_complete(&stage.rig->fake, SIZE_MAX);
	rig_expect(stage.rig, CONTEXT(1), RIG_WRITTEN);
	read_all(&stage, values);
	cr_expect_eq(values[PMV_STATUS_VERSION], pmv_prov.version);
	cr_expect_eq(values[PMV_STATUS_AGENT], pmv_setting.agent);
	cr_expect_eq(values[PMV_STATUS_DDIO], 1);
	cr_expect_eq(values[PMV_STATUS_DECLARED],
		     pmv_setting.domain_declared ? 1U + pmv_setting.domain : 0);
	cr_expect_eq(values[PMV_STATUS_DOMAINS], 1);
	cr_expect_eq(values[PMV_STATUS_COUNTERS], 1, "endpoints");
	cr_expect_eq(values[PMV_STATUS_COUNTERS +
			    offsetof(struct fi_pmemverbs_counters, commits_read) / 8],
		     1);
	stage_close(&stage);
}

/* The same bit is in all keys. */
Test(asked, it_tells_what_its_keys_say_of_ddio)
{
	uint64_t values[VALUES];
	struct stage stage;

	stage_open(&stage);
	pmv_setting.ddio_declared = true;
	pmv_setting.ddio = false;
	read_all(&stage, values);
	cr_expect_eq(values[PMV_STATUS_DDIO], 0);
	pmv_setting.ddio = true;
	read_all(&stage, values);
	cr_expect_eq(values[PMV_STATUS_DDIO], 1);
	pmv_setting.ddio_declared = false;
	stage_close(&stage);
}

Test(asked, it_hides_that_from_the_application)
{
	struct stage stage;
	union event event;
	uint32_t what;

	stage_open(&stage);
	ask(&stage, 0, 0x1000);
	expect_no_event(&stage, FI_PEEK);
	ask(&stage, 0, 0x1001);
	cr_expect_eq(fi_eq_sread(stage.eq, &what, &event, sizeof(event), 20, 0), -FI_EAGAIN);
	cr_expect_eq(stage.rig->fake.rejections, 2);
	/* What comes behind a question is seen at once. */
	ask(&stage, 0, 0x1002);
	ask(&stage, 200, 0x1003);
	request(&stage, "hello", 5, 0x2000);
	expect_request(&stage, 5);
	cr_expect_eq(stage.rig->fake.rejections, 4);
	cr_expect_eq(stage.rig->fake.rejected, (struct fid *) 0x1003);
	expect_no_event(&stage, 0);
	stage_close(&stage);
}

Test(asked, it_leaves_all_other_requests_alone)
{
	uint8_t data[PMV_STATUS_QUERY_SIZE + 1];
	struct stage stage;

	stage_open(&stage);
	pmv_status_query_encode(data, 0);
	data[PMV_STATUS_QUERY_SIZE] = 0;
	for (size_t len = 0; len <= sizeof(data); len++) {
		if (len == PMV_STATUS_QUERY_SIZE)
			continue;
		request(&stage, data, len, 0x2000);
		expect_request(&stage, len);
	}
	data[0] = 'P';
	request(&stage, data, PMV_STATUS_QUERY_SIZE, 0x2000);
	expect_request(&stage, PMV_STATUS_QUERY_SIZE);
	cr_expect_eq(stage.rig->fake.rejections, 0);
	stage_close(&stage);
}

/* Nor does the application hear of a question that is refused. */
Test(asked, it_may_refuse)
{
	uint8_t question[PMV_STATUS_QUERY_SIZE];
	struct pmv_status_reply page;
	struct stage stage;

	stage_open(&stage);
	for (int silent = 0; silent < 2; silent++) {
		const struct fake *fake = &stage.rig->fake;

		pmv_setting.answers = !silent;
		pmv_status_query_encode(question, 0);
		/* Another version. */
		question[14] += !silent;
		request(&stage, question, sizeof(question), 0x1000);
		expect_no_event(&stage, 0);
		cr_expect_eq(fake->rejections, silent + 1);
		cr_assert(
			pmv_status_reply_decode(fake->rejected_with, fake->rejected_len, 0, &page));
		cr_expect(page.refused);
		cr_expect_eq(fake->rejected_len, 8, "nothing is told");
	}
	stage_close(&stage);
}
