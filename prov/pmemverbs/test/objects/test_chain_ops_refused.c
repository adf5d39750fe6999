/* SPDX-License-Identifier: BSD-2-Clause */
/* test_chain_ops_refused.c -- chains that are refused here or at the target, and that get lost */
#include "chain.h"

#include <string.h>

#include "agent/chain_message.h"
#include "objects/domain.h"

/* Refused by the target: nothing is touched, and what is behind is not reached */

static void is_refused(struct pair *pair, struct fi_pmemverbs_step step)
{
	struct fi_pmemverbs_step steps[] = {
		chain_at(pair, STEP(WRITE, .operand = "a", .len = 1), DMP, 0),
		step,
		chain_at(pair, STEP(WRITE, .operand = "c", .len = 1), DMP, 2),
	};
	static char before[PAIR_MEMORIES][PAIR_SIZE];

	pair->memory[DMP][0] = 'a';
	pair->memory[DMP][2] = 'b';
	for (int i = 0; i < PAIR_MEMORIES; i++)
		memcpy(before[i], pair->memory[i], PAIR_SIZE);
	chain_fail(pair, steps, 3, FI_EACCES);
	expect_status(steps[0], OK);
	expect_status(steps[1], REFUSED);
	expect_status(steps[2], NOT_REACHED);
	for (int i = 0; i < PAIR_MEMORIES; i++)
		cr_expect_eq(memcmp(before[i], pair->memory[i], PAIR_SIZE), 0, "memory %d", i);
}

Test(chain, stays_inside_of_regions)
{
	static const size_t ends[] = {PAIR_SIZE, PAIR_SIZE - 7, PAIR_SIZE + 1, SIZE_MAX - 3,
				      (size_t) -8};
	struct pair *pair = pair_open(NULL);
	uint64_t value = 0;

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		is_refused(pair, chain_at(pair, STEP(READ, .len = 8), DMP, ends[i]));
		is_refused(pair, chain_at(pair, STEP(WRITE, .len = 8, .operand = "12345678"), DMP,
					  ends[i]));
		is_refused(pair,
			   chain_at(pair,
				    STEP(CAS, .len = 8, .operand = &value, .expected = &value), DMP,
				    ends[i]));
		is_refused(pair, chain_at(pair, STEP(FETCH_ADD, .len = 8, .operand = &value), DMP,
					  ends[i]));
		is_refused(pair, chain_at(pair,
					  STEP(WRITE, .len = 8,
					       .from_addr = pair_addr(pair, DMP, ends[i]),
					       .from_key = pair_key(pair, DMP),
					       .flags = FI_PMEMVERBS_STEP_FROM_MEMORY),
					  DMP, 0));
		/* where the pointer is */
		is_refused(pair,
			   chain_at(pair, STEP(READ, .len = 8, .flags = FI_PMEMVERBS_STEP_INDIRECT),
				    DMP, ends[i]));
		/* where it points to */
		chain_set(pair, DMP, POINTER, pair_addr(pair, DMP, ends[i]));
		is_refused(pair,
			   chain_at(pair, STEP(READ, .len = 8, .flags = FI_PMEMVERBS_STEP_INDIRECT),
				    DMP, POINTER));
		is_refused(pair, chain_at(pair,
					  STEP(WRITE, .len = 8, .operand = "12345678",
					       .flags = FI_PMEMVERBS_STEP_INDIRECT),
					  DMP, POINTER));
	}
	/* A pair of pointer and bound whose second half is outside. */
	chain_set(pair, DMP, PAIR_SIZE - 8, pair_addr(pair, DMP, 0));
	is_refused(pair,
		   chain_at(pair,
			    STEP(READ, .len = 8,
				 .flags = FI_PMEMVERBS_STEP_INDIRECT | FI_PMEMVERBS_STEP_BOUNDED),
			    DMP, PAIR_SIZE - 8));
	/* The bound reaches beyond the end, and so does the length. */
	chain_set(pair, DMP, POINTER, pair_addr(pair, DMP, PAIR_SIZE - 4));
	chain_set(pair, DMP, POINTER + 8, UINT64_MAX);
	is_refused(pair,
		   chain_at(pair,
			    STEP(READ, .len = 8,
				 .flags = FI_PMEMVERBS_STEP_INDIRECT | FI_PMEMVERBS_STEP_BOUNDED),
			    DMP, POINTER));
	pair_close(pair);
}

/* with_use -- the region lets peers do only that */
static void with_use(struct pair *pair, enum pair_memory memory, unsigned use)
{
	pmv_container_of(pair->mr[memory], struct pmv_mr, mr_fid)->region->attr.use = use;
}

Test(chain, needs_the_right_access)
{
	struct pair *pair = pair_open(NULL);
	uint64_t value = 0;
	struct fi_pmemverbs_step cas =
		chain_at(pair, STEP(CAS, .len = 8, .operand = &value, .expected = &value), MHP, 0);

	with_use(pair, MHP, PMV_REGION_PMEM | PMV_REGION_REMOTE);
	is_refused(pair, cas);
	is_refused(pair, chain_at(pair, STEP(READ, .len = 8), MHP, 0));
	is_refused(pair, chain_at(pair, STEP(FETCH_ADD, .len = 8, .operand = &value), MHP, 0));
	is_refused(pair, chain_at(pair, STEP(READ, .len = 8, .flags = FI_PMEMVERBS_STEP_INDIRECT),
				  MHP, 0));
	is_refused(pair, chain_at(pair,
				  STEP(WRITE, .len = 8, .from_addr = pair_addr(pair, MHP, 0),
				       .from_key = pair_key(pair, MHP),
				       .flags = FI_PMEMVERBS_STEP_FROM_MEMORY),
				  DMP, 0));
	with_use(pair, MHP, PMV_REGION_PMEM | PMV_REGION_READ);
	is_refused(pair, cas);
	is_refused(pair, chain_at(pair, STEP(WRITE, .len = 4, .operand = "1234"), MHP, 0));
	pair_close(pair);
}

Test(chain, needs_a_region)
{
	struct pair *pair = pair_open(NULL);
	struct fi_pmemverbs_step gone = chain_at(pair, STEP(READ, .len = 8), MHP, 0);
	struct fi_pmemverbs_step to = chain_at(
		pair, STEP(READ, .len = 8, .flags = FI_PMEMVERBS_STEP_INDIRECT), DMP, POINTER);

	to.to_key = gone.key;
	chain_set(pair, DMP, POINTER, pair_addr(pair, MHP, 0));
	pair_unregister(pair, MHP);
	is_refused(pair, gone);
	is_refused(pair, to);
	gone.flags = to.flags |= FI_PMEMVERBS_STEP_COMMIT;
	is_refused(pair, to);
	pair_close(pair);
}

Test(chain, needs_a_buffer_of_the_list)
{
	struct pair *pair = pair_open(NULL);
	struct fi_pmemverbs_list *list = chain_list(pair, MHP, 2, 1);
	struct fi_pmemverbs_step allocate = STEP(ALLOCATE, .key = list->key, .list = list->number,
						 .operand = pair->source, .len = CHAIN_BUFFER + 1);
	struct fi_pmemverbs_step give =
		STEP(FREE, .key = list->key, .list = list->number, .addr = list->addr);

	is_refused(pair, allocate);
	allocate.len = 8;
	allocate.list++;
	is_refused(pair, allocate);
	allocate.list--;
	allocate.key = pair_key(pair, DMP);
	is_refused(pair, allocate);
	is_refused(pair, give); /* it is free */
	give.addr += CHAIN_BUFFER + 1;
	is_refused(pair, give);
	give.addr += CHAIN_BUFFER - 1;
	is_refused(pair, give);
	give.addr -= 3 * CHAIN_BUFFER;
	is_refused(pair, give);
	give.addr += 2 * CHAIN_BUFFER;
	give.list++;
	is_refused(pair, give);
	cr_expect_eq(chain_ops(pair)->list_num_free(list), 1);
	/* The list outlives its region, and another one may get its key. */
	pmv_container_of(pair->mr[MHP], struct pmv_mr, mr_fid)->region->serial++;
	allocate.key = list->key;
	give.list--;
	is_refused(pair, allocate);
	is_refused(pair, give);
	pair_unregister(pair, MHP);
	is_refused(pair, allocate);
	is_refused(pair, give);
	accepted(chain_ops(pair)->list_close(list));
	is_refused(pair, allocate);
	pair_close(pair);
}

/* Refused by the call */

static void call_refused(struct pair *pair, struct fi_pmemverbs_step step, int err)
{
	refused(chain_post(pair, &step, 1, CONTEXT(1)), err);
	expect_sent(pair, "");
}

Test(chain, call_refuses_what_makes_no_sense)
{
	struct pair *pair = pair_open(NULL);
	uint64_t value[8] = {0};
	struct fi_pmemverbs_step good = chain_at(pair, STEP(READ, .len = 8), DMP, 0), bad;
	struct fi_pmemverbs_step cas =
		chain_at(pair, STEP(CAS, .len = 8, .operand = value, .expected = value), DMP, 0);
	struct fi_pmemverbs_step many[17];

	for (int i = 0; i < 17; i++)
		many[i] = good;
	refused(chain_post(pair, many, 0, CONTEXT(1)), FI_EINVAL);
	refused(chain_post(pair, many, 17, CONTEXT(1)), FI_EINVAL);
	refused(chain_ops(pair)->post(pair->home->ep, many, 1, NULL, FI_COMMIT), FI_EBADFLAGS);
#define BAD(from, change) (bad = (from), (void) (change), call_refused(pair, bad, FI_EINVAL))
	BAD(good, bad.kind = 0);
	BAD(good, bad.kind = 7);
	BAD(good, bad.kind = 257);
	BAD(good, bad.flags = 1 << 9);
	BAD(good, bad.flags = 1ULL << 40);
	BAD(good, bad.flags = FI_PMEMVERBS_STEP_BOUNDED);
	BAD(good, bad.flags = FI_PMEMVERBS_STEP_FROM_WORD);
	BAD(good, bad.to = 1);
	BAD(good, (bad.to = 4, bad.flags = FI_PMEMVERBS_STEP_REDIRECT));
	BAD(good, (bad.len = 33, bad.flags = FI_PMEMVERBS_STEP_REDIRECT));
	BAD(good, (bad.len = 32, bad.to = 1, bad.flags = FI_PMEMVERBS_STEP_REDIRECT));
	BAD(good, bad.compare = 1);
	BAD(good, bad.compare_mask = value);
	BAD(cas, bad.compare = 6);
	BAD(cas, bad.compare = 256);
	BAD(cas, bad.len = 0);
	BAD(cas, bad.len = 33);
	BAD(cas, bad.operand = NULL);
	BAD(cas, bad.expected = NULL);
	BAD(cas, bad.flags = FI_PMEMVERBS_STEP_BOUNDED | FI_PMEMVERBS_STEP_INDIRECT);
	BAD(cas, bad.flags = FI_PMEMVERBS_STEP_FROM_WORD | FI_PMEMVERBS_STEP_FROM_MEMORY);
	BAD(cas, (bad.kind = FI_PMEMVERBS_STEP_FETCH_ADD, bad.len = 4));
	BAD(cas, (bad.kind = FI_PMEMVERBS_STEP_WRITE, bad.operand = NULL));
#undef BAD
	rig_expect_nothing(pair->home);
	pair_close(pair);
}

/* 452 bytes of steps and operands, and 960 of results. */
Test(chain, has_a_size)
{
	struct pair *pair = pair_open(NULL);
	char result[960];
	struct fi_pmemverbs_step write =
		chain_at(pair, STEP(WRITE, .operand = pair->source, .len = 452 - 24), DMP, 0);
	struct fi_pmemverbs_step reads[2] = {
		chain_at(pair, STEP(READ, .result = result, .len = 959), DMP, 0),
		chain_at(pair, STEP(READ, .len = 1), DMP, 0),
	};

	chain_run(pair, &write, 1);
	cr_expect_eq(memcmp(pair->memory[DMP], pair->source, 452 - 24), 0);
	expect_sent(pair, "M");
	write.len++;
	call_refused(pair, write, FI_EMSGSIZE);
	chain_run(pair, reads, 2);
	cr_expect_eq(memcmp(pair->memory[DMP], result, 959), 0);
	expect_sent(pair, "M");
	reads[1].len = 2;
	refused(chain_post(pair, reads, 2, CONTEXT(1)), FI_EMSGSIZE);
	reads[0].len = 961;
	call_refused(pair, reads[0], FI_EMSGSIZE);
	pair_close(pair);
}

Test(chain, needs_an_agent_and_order)
{
	struct pair *pair = pair_open(&(struct pair_options){.no_agent = true});
	struct fi_pmemverbs_step step = chain_at(pair, STEP(READ, .len = 8), DMP, 0);
	void *ops;

	call_refused(pair, step, FI_EOPNOTSUPP);
	pair_close(pair);
	pair = pair_open(NULL);
	pmv_setting.relaxed = true;
	call_refused(pair, step, FI_EOPNOTSUPP);
	pmv_setting.relaxed = false;
	pair->from->mailbox.link.peer.relaxed = true;
	call_refused(pair, step, FI_EOPNOTSUPP);
	pair->from->mailbox.link.peer.relaxed = false;
	pmv_setting.commit_all = true;
	refused(fi_open_ops(&pair->home->ep->fid, FI_PMEMVERBS_CHAIN_OPS, 0, &ops, NULL),
		FI_EOPNOTSUPP);
	pmv_setting.commit_all = false;
	refused(fi_open_ops(&pair->home->ep->fid, FI_PMEMVERBS_CHAIN_OPS, 1, &ops, NULL),
		FI_EBADFLAGS);
	refused(fi_open_ops(&pair->home->ep->fid, "something", 0, &ops, NULL), FI_ENOSYS);
	accepted(fi_open_ops(&pair->home->domain->fid, FI_PMEMVERBS_CHAIN_OPS, 0, &ops, NULL));
	pair_close(pair);
}

/* Under way */

Test(chain, closes_the_endpoint_until_it_has_ended)
{
	struct pair *pair = pair_open(NULL);
	struct fi_pmemverbs_step steps[9];

	for (int i = 0; i < 9; i++)
		steps[i] = chain_at(pair, STEP(READ, .len = 8), DMP, 8 * i);
	for (int i = 0; i < 8; i++)
		accepted(chain_post(pair, &steps[i], 1, CONTEXT(1 + i)));
	/* There are 8 slots for replies. */
	refused(chain_post(pair, &steps[8], 1, CONTEXT(9)), FI_EAGAIN);
	refused(pair_put(pair, DMP, 0, 8, CONTEXT(10), 0), FI_EAGAIN);
	pair_round(pair);
	rig_expect_each(pair->home, 1, 8, RIG_WRITTEN);
	accepted(chain_post(pair, &steps[8], 1, CONTEXT(1)));
	pair_round(pair);
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	accepted(pair_put(pair, DMP, 0, 8, CONTEXT(10), 0));
	pair_round(pair);
	pair_close(pair);
}

/* Nobody here knows where a chain reads and writes. */
Test(chain, is_passed_by_no_write)
{
	struct pair *pair = pair_open(NULL);
	struct fi_pmemverbs_step step = chain_at(pair, STEP(READ, .len = 8), DMP, 0);
	int passes = 1;

	accepted(fi_setopt(&pair->home->ep->fid, FI_OPT_ENDPOINT, FI_OPT_PMEMVERBS_WRITES_PASS,
			   &passes, sizeof(passes)));
	accepted(chain_post(pair, &step, 1, CONTEXT(1)));
	refused(pair_put(pair, MHP, 4096, 8, CONTEXT(2), 0), FI_EAGAIN);
	pair_round(pair);
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	accepted(pair_put(pair, MHP, 4096, 8, CONTEXT(2), 0));
	pair_deliver(pair);
	pair_close(pair);
}

Test(chain, waits_for_room)
{
	struct pair *pair = pair_open(NULL);
	struct fi_pmemverbs_step step = chain_at(pair, STEP(READ, .len = 300), DMP, 0);

	pair->home->fake.room = 0;
	accepted(chain_post(pair, &step, 1, CONTEXT(1)));
	expect_sent(pair, "");
	pair->home->fake.room = -1;
	rig_expect_nothing(pair->home);
	expect_sent(pair, "M");
	/* Neither the reply nor the acknowledgement can be posted, then only the reply. */
	for (int room = 0; room < 2; room++) {
		pair->away->fake.room = room;
		pair_round(pair);
		rig_expect_nothing(pair->home);
	}
	pair->away->fake.room = -1;
	pair_serve(pair);
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	expect_status(step, OK);
	pair_close(pair);
}

/* One that is too long for the acknowledgement. */
Test(chain, whose_reply_was_overwritten_fails)
{
	struct pair *pair = pair_open(NULL);
	char result[300] = "before..";
	struct fi_pmemverbs_step step =
		chain_at(pair, STEP(READ, .len = 300, .result = result), DMP, 0);

	for (size_t at = 0; at < 16 + 4 + 300; at++) {
		accepted(chain_post(pair, &step, 1, CONTEXT(1)));
		pair_round(pair);
		pair->from->mailbox.link.block[PMV_REPLIES_AT + at] ^= 1;
		rig_expect_error(pair->home, CONTEXT(1), RIG_WRITTEN, FI_EIO);
		expect_status(step, UNKNOWN);
		cr_expect_str_eq(result, "before..");
	}
	pair_close(pair);
}

/* The peer can seal what it likes. */
Test(chain, whose_reply_makes_no_sense_fails)
{
	struct pair *pair = pair_open(NULL);
	struct fi_pmemverbs_list *list = chain_list(pair, DMP, 4, 4);
	uint64_t result = 5;
	struct fi_pmemverbs_step read =
		chain_at(pair, STEP(READ, .len = 8, .result = &result), DMP, 0);
	struct fi_pmemverbs_step allocate =
		STEP(ALLOCATE, .key = list->key, .list = list->number, .operand = pair->source,
		     .len = CHAIN_BUFFER, .result = &result);
	const struct {
		struct fi_pmemverbs_step step;
		uint8_t status;
		uint16_t done;
		int more;
	} rows[] = {{read, PMV_CHAIN_NOT_REACHED + 1, 8, 0},
		    {read, PMV_CHAIN_OK, 9, 0},
		    {read, PMV_CHAIN_OK, 16, 0},
		    {read, PMV_CHAIN_OK, 8, 8},
		    {read, PMV_CHAIN_OK, 8, -8},
		    {read, PMV_CHAIN_OK, 8, -16},
		    {allocate, PMV_CHAIN_OK, 9, 0},
		    {allocate, PMV_CHAIN_OK, CHAIN_BUFFER, 0}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct fi_pmemverbs_step step = rows[i].step;

		accepted(chain_post(pair, &step, 1, CONTEXT(1)));
		pair_round(pair);
		chain_lie(pair,
			  (struct pmv_reply_step){.done = rows[i].done, .status = rows[i].status},
			  rows[i].more);
		rig_expect_error(pair->home, CONTEXT(1), RIG_WRITTEN, FI_EIO);
		expect_status(step, UNKNOWN);
		cr_expect_eq(result, 5);
	}
	accepted(chain_ops(pair)->list_close(list));
	pair_close(pair);
}

Test(chain, of_a_lost_connection_has_no_results)
{
	struct pair *pair = pair_open(NULL);
	char result[9] = "before..";
	struct fi_pmemverbs_step step =
		chain_at(pair, STEP(READ, .len = 8, .result = result), DMP, 0);

	accepted(chain_post(pair, &step, 1, CONTEXT(1)));
	fake_fail_all(&pair->home->fake, FI_EIO, 5);
	rig_expect_error(pair->home, CONTEXT(1), RIG_WRITTEN, FI_EIO);
	expect_status(step, UNKNOWN);
	cr_expect_str_eq(result, "before..");
	pair_close(pair);
}

/* Its endpoint is closed: nobody writes to the application's memory any more. */
Test(chain, of_a_closed_endpoint_has_no_results)
{
	struct pair *pair = pair_open(NULL);
	struct fi_pmemverbs_step step = chain_at(pair, STEP(READ, .len = 8), DMP, 0);

	accepted(chain_post(pair, &step, 1, CONTEXT(1)));
	pair_deliver(pair);
	rig_close_ep(pair->home);
	expect_status(step, UNKNOWN);
	pair_close(pair);
}
