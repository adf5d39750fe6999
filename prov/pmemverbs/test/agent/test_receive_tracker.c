/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_receive_tracker.c -- messages to a peer that has said what memory it receives in:
 * FI_OPT_PMEMVERBS_RECV_MR
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/container.h"
#include "objects/ep.h"
#include "objects/handshake.h"
#include "test/support/pair.h"

/* Not persistent, and not registered either. */
static char volatile_memory[4096];

static struct pair *open_kind(enum pair_memory memory)
{
	return pair_open(&(struct pair_options){.one_kind = true, .received = memory});
}

/* The method */

static void commit_one(enum pair_memory memory, const char *sent, const char *done)
{
	struct pair *pair = open_kind(memory);

	pair_receive(pair, memory, 100, 50);
	accepted(pair_send(pair, 100, 50, CONTEXT(1), FI_COMMIT));
	expect_sent(pair, sent);
	rig_expect_nothing(pair->home);
	pair_round(pair);
	expect_done(pair, done);
	cr_expect_arr_eq(pair->memory[memory] + 100, pair->source + 100, 50);
	rig_expect(pair->home, CONTEXT(1), RIG_SENT);
	rig_expect_nothing(pair->home);
	pair_close(pair);
}

Test(received, is_flushed_where_that_is_enough)
{
	commit_one(READ_DMP, "S R", "");
	commit_one(MHP, "S R", "");
}

Test(received, is_the_agents_where_that_is_not)
{
	commit_one(DMP, "S M", "F D K");
	commit_one(PAGE, "S M", "Y D K");
}

static void commit_where_all_persists(bool local, const char *sent)
{
	struct pair *pair = pair_open(&(struct pair_options){
		.home = {.local = local},
		.one_kind = true,
		.received = MHP,
	});
	struct pmv_handshake handshake = pair->from->mailbox.link.peer;

	handshake.received.persist = PMV_WSP;
	pmv_handshake_connect(pair->from, &handshake);
	pair_receive(pair, MHP, 0, 64);
	accepted(pair_send(pair, 0, 64, CONTEXT(1), FI_COMMIT));
	expect_sent(pair, sent);
	rig_expect_nothing(pair->home);
	pair_deliver(pair);
	rig_expect(pair->home, CONTEXT(1), RIG_SENT);
	rig_expect_nothing(pair->home);
	pair_close(pair);
}

Test(received, is_durable_with_its_completion_where_the_nic_persists)
{
	commit_where_all_persists(false, "S");
	commit_where_all_persists(true, "S R");
}

Test(received, commit_is_the_completion_of_the_flush)
{
	struct pair *pair = open_kind(MHP);
	const struct fake_post *read;

	pair_receive(pair, MHP, 0, 64);
	accepted(pair_send(pair, 0, 64, CONTEXT(1), FI_COMMIT | FI_REMOTE_CQ_DATA));
	expect_sent(pair, "Si R");
	read = pair_post(pair, 0);
	/* Of what is there as long as the connection is. */
	cr_expect_eq(read->op.key, pair->from->mailbox.link.peer.flush_key);
	cr_expect_eq(read->op.addr, pmv_handshake_flush_addr(&pair->from->mailbox.link.peer));
	cr_expect_eq(read->op.len, 1);
	cr_expect_not(read->op.flags & FI_FENCE);
	rig_expect_parts(pair->home, 2, CONTEXT(1), RIG_SENT);
	pair_close(pair);
}

Test(received, commit_fails_once_when_any_part_of_it_does)
{
	for (size_t part = 0; part < 2; part++) {
		struct pair *pair = open_kind(MHP);

		pair_send_and_lose(pair, MHP, part);
		pair_close(pair);
	}
}

Test(received, commit_without_room_for_its_flush_waits_for_it)
{
	struct pair *pair = open_kind(MHP);

	pair_send_without_room(pair, MHP, "R");
	pair_close(pair);
}

Test(received, commit_needs_no_agent)
{
	struct pair *pair = pair_open(&(struct pair_options){
		.no_agent = true,
		.one_kind = true,
		.received = MHP,
	});

	pair_receive(pair, MHP, 0, 64);
	pair_receive(pair, MHP, 64, 64);
	accepted(pair_send(pair, 0, 64, CONTEXT(1), FI_COMMIT));
	accepted(pair_send(pair, 64, 64, CONTEXT(2), FI_COMMIT | FI_FENCE));
	expect_sent(pair, "S R S R");
	pair_deliver(pair);
	rig_expect(pair->home, CONTEXT(1), RIG_SENT);
	rig_expect(pair->home, CONTEXT(2), RIG_SENT);
	/* Unless something else does that comes first. */
	accepted(pair_put(pair, DMP, 0, 64, CONTEXT(3), 0));
	refused(pair_send(pair, 0, 64, CONTEXT(4), FI_COMMIT | FI_FENCE), FI_EOPNOTSUPP);
	accepted(pair_send(pair, 0, 64, CONTEXT(4), FI_COMMIT));
	expect_sent(pair, "W S R");
	pair_close(pair);
}

Test(received, an_older_initiator_asks_the_agent_as_ever)
{
	struct pair *pair = open_kind(MHP);
	struct pmv_handshake handshake = pair->from->mailbox.link.peer;

	handshake.one_kind = false;
	pmv_handshake_connect(pair->from, &handshake);
	pair_receive(pair, MHP, 0, 64);
	accepted(pair_send(pair, 0, 64, CONTEXT(1), FI_COMMIT));
	expect_sent(pair, "S M");
	pair_round(pair);
	expect_done(pair, "D K");
	rig_expect(pair->home, CONTEXT(1), RIG_SENT);
	pair_close(pair);
}

Test(received, on_a_path_without_order_is_refused)
{
	struct pair *pair = open_kind(MHP);

	pair->from->mailbox.link.peer.relaxed = true;
	pair_receive(pair, MHP, 0, 64);
	refused(pair_send(pair, 0, 64, CONTEXT(1), FI_COMMIT), FI_EOPNOTSUPP);
	expect_sent(pair, "");
	pair_close(pair);
}

/* Fences */

static void expect_flushed_first(struct pair *pair, enum testcore_call before)
{
	pair_posted(pair);
	accepted(pair_send(pair, 0, 8, CONTEXT(2), FI_COMMIT | FI_FENCE));
	cr_assert_str_eq(pair_posted(pair), "R fS R", "behind call %d", before);
	pair_deliver(pair);
}

/* Whatever the call was, the next fenced one is held behind a READ. */
Test(fence, any_message_is_flushed_first_where_only_that_orders_them)
{
	struct pair *pair = open_kind(READ_DMP);

	for (size_t i = 0; i < 14; i++)
		pair_receive(pair, READ_DMP, 64 * i, 64);
	for (enum testcore_call call = TESTCORE_SEND; call <= TESTCORE_INJECTDATA; call++) {
		accepted(rig_call(pair->home, call, pair->source, 0, CONTEXT(1)));
		expect_flushed_first(pair, call);
	}
	accepted(pair_send(pair, 0, 8, CONTEXT(1), FI_FENCE));
	expect_flushed_first(pair, TESTCORE_SENDMSG);
	pair_close(pair);
}

Test(fence, flush_that_is_under_way_is_not_posted_twice)
{
	struct pair *pair = open_kind(READ_DMP);

	for (size_t i = 0; i < 4; i++)
		pair_receive(pair, READ_DMP, 64 * i, 64);
	accepted(pair_send(pair, 0, 64, CONTEXT(1), FI_COMMIT));
	accepted(pair_send(pair, 64, 64, CONTEXT(2), FI_COMMIT | FI_FENCE));
	expect_sent(pair, "S R fS R");
	/* A write behind a message that was committed follows it, too. */
	accepted(pair_put(pair, READ_DMP, 512, 64, CONTEXT(3), FI_COMMIT | FI_FENCE));
	expect_sent(pair, "fW R");
	/* What was refused was not sent. */
	pair->home->fake.room = 0;
	refused(pair_send(pair, 0, 64, CONTEXT(4), 0), FI_EAGAIN);
	pair->home->fake.room = -1;
	accepted(pair_send(pair, 128, 64, CONTEXT(4), FI_COMMIT | FI_FENCE));
	expect_sent(pair, "fS R");
	pair_close(pair);
}

/* What another thread does while a message is being posted. */
static void commit_fenced(struct fake *fake, const struct fake_post *sent, void *arg)
{
	struct pair *pair = arg;

	(void) sent;
	fake->on_post = NULL;
	accepted(pair_put(pair, READ_DMP, 512, 64, CONTEXT(9), FI_COMMIT | FI_FENCE));
}

Test(fence, sees_a_message_that_is_being_posted)
{
	for (int committed = 0; committed < 2; committed++) {
		struct pair *pair = open_kind(READ_DMP);

		pair_receive(pair, READ_DMP, 0, 64);
		pair->home->fake.on_post = commit_fenced;
		pair->home->fake.on_post_arg = pair;
		accepted(pair_send(pair, 0, 64, CONTEXT(1), committed ? FI_COMMIT : 0));
		expect_sent(pair, committed ? "R fW R S R" : "R fW R S");
		pair_close(pair);
	}
}

Test(fence, needs_no_flush_where_arrival_is_the_order)
{
	struct pair *pair = open_kind(MHP);

	pair_receive(pair, MHP, 0, 64);
	pair_receive(pair, MHP, 64, 64);
	accepted(pair_send(pair, 0, 64, CONTEXT(1), 0));
	accepted(pair_send(pair, 64, 64, CONTEXT(2), FI_COMMIT | FI_FENCE));
	expect_sent(pair, "S S R");
	/* Where a write's completion was enough it is so no longer. */
	accepted(rig_writemsg(pair->home, KEY_WSP, CONTEXT(3), FI_COMMIT | FI_FENCE));
	expect_sent(pair, "W R");
	accepted(rig_writemsg(pair->home, KEY_WSP, CONTEXT(4), FI_COMMIT));
	expect_sent(pair, "W");
	pair_close(pair);
}

Test(fence, covers_writes_before_a_message)
{
	struct pair *pair = open_kind(MHP);
	const struct fake_post *read;
	struct pmv_flush_message message;

	pair_receive(pair, MHP, 0, 64);
	pair_receive(pair, MHP, 64, 64);
	accepted(pair_put(pair, READ_DMP, 0, 64, CONTEXT(1), 0));
	accepted(pair_send(pair, 0, 64, CONTEXT(2), FI_COMMIT | FI_FENCE));
	expect_sent(pair, "W R fS R");
	pair_deliver(pair);
	/* What the agent has to see to is done before the message is posted. */
	accepted(pair_put(pair, DMP, 0, 64, CONTEXT(3), 0));
	accepted(pair_send(pair, 64, 64, CONTEXT(4), FI_COMMIT | FI_FENCE));
	expect_sent(pair, "W M");
	pair_expect_message(pair, 0, &message);
	cr_expect_eq(message.count, 1);
	cr_expect_not(message.messages, "the agent has nothing to do with those");
	pair_round(pair);
	cr_expect(pair_survives(pair, DMP, 0, 64));
	for (int i = 1; i <= 3; i++)
		rig_expect(pair->home, CONTEXT(i), i == 2 ? RIG_SENT : RIG_WRITTEN);
	rig_expect_nothing(pair->home);
	expect_sent(pair, "S R");
	read = pair_post(pair, 0);
	cr_expect_eq(read->op.key, pair->from->mailbox.link.peer.flush_key);
	cr_expect_eq(read->op.addr, pmv_handshake_flush_addr(&pair->from->mailbox.link.peer));
	pair_deliver(pair);
	rig_expect(pair->home, CONTEXT(4), RIG_SENT);
	pair_close(pair);
}

Test(fence, immediate_data_are_no_messages_to_wait_for)
{
	struct pair *pair = pair_open(&(struct pair_options){
		.home = {.imm_receives = true},
		.away = {.imm_receives = true},
		.one_kind = true,
		.received = MHP,
	});

	pair_receive(pair, MHP, 0, 64);
	pair_receive(pair, MHP, 64, 64);
	accepted(fi_inject_writedata(pair->home->ep, pair->source, 8, DATA, 0,
				     pair_addr(pair, MHP, 512), pair_key(pair, MHP)));
	accepted(pair_send(pair, 64, 64, CONTEXT(1), FI_COMMIT | FI_FENCE));
	expect_sent(pair, "Wi S R");
	pair_close(pair);
}

/* The promise is kept */

static void expect_not_received(struct pair *pair, const struct iovec *iov, size_t count)
{
	struct fid_ep *ep = pair->away->ep;
	struct fi_msg msg = {iov, NULL, count, 0, NULL, 0};

	if (count == 1)
		refused(fi_recv(ep, iov->iov_base, iov->iov_len, NULL, 0, NULL), FI_EINVAL);
	refused(fi_recvv(ep, iov, NULL, count, 0, NULL), FI_EINVAL);
	refused(fi_recvmsg(ep, &msg, 0), FI_EINVAL);
	cr_expect_eq(fake_receives(&pair->away->fake), 0);
	cr_expect_eq(pair->to->receives.posted, 0);
}

Test(promise, receives_elsewhere_are_refused)
{
	struct pair *pair = open_kind(MHP);
	char *memory = pair->memory[MHP];
	const struct iovec elsewhere[] = {
		{volatile_memory, 64},
		{pair->memory[DMP], 64},
		{pair->memory[PAGE], 64},
		{memory + PAIR_SIZE - 63, 64},
		{memory - 1, 2},
		{memory, SIZE_MAX},
		{NULL, 1},
	};
	const struct iovec good = {memory + 64, 64};

	for (size_t i = 0; i < sizeof(elsewhere) / sizeof(elsewhere[0]); i++) {
		expect_not_received(pair, &elsewhere[i], 1);
		expect_not_received(pair, (struct iovec[]){good, elsewhere[i]}, 2);
		expect_not_received(pair, (struct iovec[]){elsewhere[i], good}, 2);
	}
	/* All of one region, and nothing at all. */
	accepted(fi_recv(pair->away->ep, memory, PAIR_SIZE, NULL, 0, NULL));
	accepted(fi_recv(pair->away->ep, NULL, 0, NULL, 0, NULL));
	accepted(fi_recvv(pair->away->ep, (struct iovec[]){good, {NULL, 0}, good}, NULL, 3, 0,
			  NULL));
	cr_expect_eq(fake_receives(&pair->away->fake), 3);
	pair_close(pair);
}

Test(promise, other_memory_of_the_kind_will_do_while_it_is_registered)
{
	struct pair *pair = open_kind(PAGE);

	pair_receive(pair, PAGE_TOO, 0, 64);
	/* Also when the region that named the kind is closed. */
	pair_unregister(pair, PAGE);
	pair_receive(pair, PAGE_TOO, 64, 64);
	refused(fi_recv(pair->away->ep, pair->memory[PAGE], 64, NULL, 0, NULL), FI_EINVAL);
	pair_close(pair);
}

Test(promise, regions_side_by_side_are_as_one)
{
	struct pair *pair = open_kind(READ_DMP);
	struct fid_mr *mr[3];
	char *memory = aligned_alloc(4096, 3 * 4096);

	cr_assert_not_null(memory);
	for (int i = 0; i < 3; i++) {
		pmv_setting.domain = i == 2 ? PMV_PAGE : PMV_DMP;
		accepted(fi_mr_reg(pair->away->domain, memory + 4096 * i, 4096, FI_RECV, 0, 0,
				   FI_PMEM, &mr[i], NULL));
	}
	accepted(fi_recv(pair->away->ep, memory, 2 * 4096, NULL, 0, NULL));
	refused(fi_recv(pair->away->ep, memory, 2 * 4096 + 1, NULL, 0, NULL), FI_EINVAL);
	for (int i = 0; i < 3; i++)
		accepted(fi_close(&mr[i]->fid));
	pair_close(pair);
	free(memory);
}

/* Making it */

static int promise(struct rig *rig, struct fid_mr *mr, size_t len)
{
	return fi_setopt(&rig->ep->fid, FI_OPT_ENDPOINT, FI_OPT_PMEMVERBS_RECV_MR, &mr, len);
}

static struct fid_mr *region(struct rig *rig, uint64_t access, uint64_t flags)
{
	struct fid_mr *mr;

	pmv_setting.domain_declared = true;
	pmv_setting.domain = PMV_MHP;
	accepted(fi_mr_reg(rig->domain, volatile_memory, 2048, access, 0, 0, flags, &mr, NULL));
	return mr;
}

static struct pmv_handshake said_by(struct rig *rig)
{
	uint8_t buf[PMV_HANDSHAKE_SIZE];
	struct pmv_handshake handshake;

	accepted(pmv_mailbox_open(&pmv_to_ep(rig->ep)->mailbox));
	pmv_mailbox_handshake(&pmv_to_ep(rig->ep)->mailbox, buf);
	pmv_handshake_decode(buf, sizeof(buf), &handshake);
	return handshake;
}

Test(option, needs_persistent_memory_of_its_domain)
{
	struct rig *rig = rig_open(NULL), *other = rig_open(NULL);
	struct fid_mr *none, *sent, *foreign, *good;

	pmv_setting.agent = PMV_AGENT_PROGRESS;
	none = region(rig, FI_RECV | FI_REMOTE_WRITE, 0);
	sent = region(rig, FI_SEND, FI_PMEM);
	foreign = region(other, FI_RECV, FI_PMEM);
	good = region(rig, FI_RECV, FI_PMEM);
	refused(promise(rig, none, sizeof(none)), FI_EINVAL);
	refused(promise(rig, sent, sizeof(sent)), FI_EINVAL);
	refused(promise(rig, foreign, sizeof(foreign)), FI_EINVAL);
	refused(promise(rig, NULL, sizeof(good)), FI_EINVAL);
	refused(promise(rig, good, sizeof(good) - 1), FI_EINVAL);
	refused(promise(rig, good, 0), FI_EINVAL);
	/* What was refused was not promised. */
	accepted(fi_recv(rig->ep, volatile_memory + 2048, 8, NULL, 0, NULL));
	cr_expect_not(said_by(rig).one_kind);
	accepted(fi_close(&none->fid));
	accepted(fi_close(&sent->fid));
	accepted(fi_close(&foreign->fid));
	accepted(fi_close(&good->fid));
	rig_close(other);
	rig_close(rig);
}

Test(option, comes_too_late_behind_a_receive_or_a_connection)
{
	for (int late = 0; late < 3; late++) {
		struct rig *rig = rig_open(NULL);
		struct fid_mr *mr;
		struct pmv_handshake handshake;

		pmv_setting.agent = PMV_AGENT_PROGRESS;
		mr = region(rig, FI_RECV, FI_PMEM);
		if (late == 1)
			accepted(fi_recv(rig->ep, volatile_memory, 8, NULL, 0, NULL));
		if (late == 2)
			accepted(pmv_mailbox_open(&pmv_to_ep(rig->ep)->mailbox));
		cr_expect_eq(promise(rig, mr, sizeof(mr)), late ? -FI_EBUSY : 0);
		handshake = said_by(rig);
		cr_expect_eq(handshake.one_kind, !late);
		cr_expect_eq(handshake.received.persist, late ? PMV_NONE : PMV_MHP);
		cr_expect(handshake.messages);
		cr_expect_eq(fi_recv(rig->ep, volatile_memory + 2048, 8, NULL, 0, NULL),
			     late ? 0 : -FI_EINVAL);
		accepted(fi_close(&mr->fid));
		rig_close(rig);
	}
}

Test(option, says_whether_caches_are_in_between)
{
	for (int ddio = 0; ddio < 2; ddio++) {
		struct rig *rig = rig_open(NULL);
		struct fid_mr *mr;
		struct pmv_handshake handshake;

		pmv_setting.agent = PMV_AGENT_PROGRESS;
		pmv_setting.ddio_declared = true;
		pmv_setting.ddio = ddio;
		mr = region(rig, FI_RECV, FI_PMEM);
		accepted(promise(rig, mr, sizeof(mr)));
		handshake = said_by(rig);
		cr_expect(handshake.one_kind);
		cr_expect_eq(handshake.received.ddio, ddio != 0);
		accepted(fi_close(&mr->fid));
		rig_close(rig);
	}
}

Test(option, is_kept_without_an_agent)
{
	struct pmv_handshake handshake;
	struct fid_mr *mr;
	struct rig *rig;

	pmv_setting.agent = PMV_AGENT_OFF;
	rig = rig_open(NULL);
	mr = region(rig, FI_RECV, FI_PMEM);
	accepted(promise(rig, mr, sizeof(mr)));
	handshake = said_by(rig);
	cr_expect(handshake.one_kind);
	cr_expect_not(handshake.agent || handshake.messages);
	accepted(fi_recv(rig->ep, volatile_memory, 64, NULL, 0, NULL));
	refused(fi_recv(rig->ep, volatile_memory + 2000, 64, NULL, 0, NULL), FI_EINVAL);
	/* Nobody ever asks where that was. */
	cr_expect_eq(pmv_to_ep(rig->ep)->receives.count, 0);
	accepted(fi_close(&mr->fid));
	rig_close(rig);
}

/* has_files -- does a region of the domain page have a file opened, where an agent is or is not? */
static bool has_files(enum pmv_agent_mode agent)
{
	char path[] = "test_receive_tracker.XXXXXX";
	int fd = mkstemp(path);
	struct fid_mr *mr;
	struct rig *rig;
	bool has;
	void *at;

	cr_assert(fd >= 0 && !ftruncate(fd, 4096));
	at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	cr_assert_neq(at, MAP_FAILED);
	pmv_setting.agent = agent;
	pmv_setting.domain_declared = true;
	pmv_setting.domain = PMV_PAGE;
	rig = rig_open(NULL);
	accepted(fi_mr_reg(rig->domain, at, 4096, FI_REMOTE_WRITE, 0, 0, FI_PMEM, &mr, NULL));
	has = pmv_container_of(mr, struct pmv_mr, mr_fid)->files;
	accepted(fi_close(&mr->fid));
	rig_close(rig);
	munmap(at, 4096);
	close(fd);
	unlink(path);
	return has;
}

Test(files, are_opened_where_somebody_can_sync_them)
{
	if (!has_files(PMV_AGENT_PROGRESS))
		cr_skip_test("this directory is not on a disk");
	cr_expect_not(has_files(PMV_AGENT_OFF));
}

Test(option, is_not_of_shared_receives)
{
	/* Of what the fake core knows an event queue is bound as simply. */
	struct fid_ep core = {.fid = {.fclass = FI_CLASS_EQ}};
	struct pmv_ep srx = {
		.ep_fid = {.fid = {.fclass = FI_CLASS_SRX_CTX, .ops = &pmv_srx_fi_ops}},
		.engine = {.fid = &core},
	};

	for (int shared_first = 0; shared_first < 2; shared_first++) {
		struct rig *rig = rig_open(NULL);
		struct fid_mr *mr;

		pmv_setting.agent = PMV_AGENT_PROGRESS;
		mr = region(rig, FI_RECV, FI_PMEM);
		if (shared_first) {
			accepted(fi_ep_bind(rig->ep, &srx.ep_fid.fid, 0));
			refused(promise(rig, mr, sizeof(mr)), FI_EINVAL);
		} else {
			accepted(promise(rig, mr, sizeof(mr)));
			refused(fi_ep_bind(rig->ep, &srx.ep_fid.fid, 0), FI_EINVAL);
		}
		cr_expect_eq(pmv_to_ep(rig->ep)->srx, shared_first);
		cr_expect_eq(said_by(rig).one_kind, !shared_first);
		accepted(fi_close(&mr->fid));
		rig_close(rig);
	}
}
