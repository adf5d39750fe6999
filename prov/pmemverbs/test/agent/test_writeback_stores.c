/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_writeback_stores.c -- data of fenced requests in one batch: what is drained before they are
 * stored
 *
 * F: a range is flushed.  S: data are stored, which a flush follows.  D: what was flushed is
 * durable.
 */
#include "test/support/pair.h"

#include <string.h>

static const char data[] = "some data that a request takes along";

/* Where a request's data go. */
struct place {
	size_t offset;
	size_t len;
	bool fenced;
};

#define FENCED(offset, len)                                                                        \
	{                                                                                          \
		offset, len, true                                                                  \
	}
#define LOOSE(offset, len)                                                                         \
	{                                                                                          \
		offset, len, false                                                                 \
	}

static struct pmv_flush_message append(struct pair *pair, size_t record, struct place tail)
{
	struct pmv_flush_message message = {
		.count = 2,
		.ranges = {pair_range(pair, DMP, record, 64),
			   pair_range(pair, DMP, tail.offset, tail.len)},
		.ordered = tail.fenced,
	};

	message_carry(&message, data);
	return message;
}

/* expect_stores -- of requests that arrive together, each of which names a range, too */
static void expect_stores(const struct place *places, size_t count, const char *what)
{
	struct pair *pair = pair_open(NULL);

	for (size_t i = 0; i < count; i++) {
		struct pmv_flush_message message = append(pair, 4096 + 512 * i, places[i]);

		pair_tell(pair, &message);
	}
	pair_serve(pair);
	expect_done(pair, what);
	pair_expect_ack(pair, count, PMV_FAULT_NONE);
	pair_close(pair);
}

#define EXPECT_STORES(what, ...)                                                                   \
	expect_stores((const struct place[]){__VA_ARGS__},                                         \
		      sizeof((const struct place[]){__VA_ARGS__}) / sizeof(struct place), what)

/* A record and the log's tail, which is one word: all records, then all tails. */
Test(writeback_stores, appends_that_arrive_together_take_two_drains)
{
	EXPECT_STORES("F F F F D S F S F S F S F D K", FENCED(0, 8), FENCED(0, 8), FENCED(0, 8),
		      FENCED(0, 8));
	EXPECT_STORES("F F F D S F S F S F D K", FENCED(64, 4), FENCED(64, 4), FENCED(64, 8));
}

/* The earlier data might be lost, and the later ones found. */
Test(writeback_stores, data_elsewhere_wait_for_earlier_data)
{
	EXPECT_STORES("F F D S F D S F D K", FENCED(0, 8), FENCED(8, 8));
	EXPECT_STORES("F F D S F D S F D K", FENCED(0, 8), FENCED(64, 8));
	EXPECT_STORES("F F F D S F D S F D S F D K", FENCED(0, 8), FENCED(64, 8), FENCED(0, 8));
}

/* A part of the earlier data stays what it is. */
Test(writeback_stores, data_that_do_not_cover_earlier_data_wait_for_them)
{
	EXPECT_STORES("F F D S F D S F D K", FENCED(0, 8), FENCED(0, 4));
	EXPECT_STORES("F F D S F D S F D K", FENCED(0, 8), FENCED(4, 4));
	EXPECT_STORES("F F D S F D S F D K", FENCED(0, 4), FENCED(2, 4));
	EXPECT_STORES("F F D S F D S F D K", FENCED(2, 4), FENCED(0, 4));
}

/* They might be torn, with what was there before the earlier data. */
Test(writeback_stores, data_that_are_not_one_word_wait_for_earlier_data)
{
	EXPECT_STORES("F F D S F D S F D K", FENCED(0, 16), FENCED(0, 16));
	EXPECT_STORES("F F D S F D S F D K", FENCED(4, 8), FENCED(4, 8));
	EXPECT_STORES("F F D S F D S F D K", FENCED(4, 4), FENCED(4, 8));
	/* Nor are these one store. */
	EXPECT_STORES("F F D S F D S F D K", FENCED(0, 3), FENCED(0, 3));
	EXPECT_STORES("F F D S F D S F D K", FENCED(1, 4), FENCED(1, 4));
}

/* Data without a fence wait for nothing, and what is fenced behind them waits for all. */
Test(writeback_stores, data_without_a_fence_count_as_earlier_data)
{
	EXPECT_STORES("F F S F S F D K", LOOSE(0, 8), LOOSE(64, 8));
	EXPECT_STORES("F F F D S F S F D S F D K", FENCED(0, 8), LOOSE(64, 8), FENCED(64, 8));
	EXPECT_STORES("F F F D S F S F S F D K", FENCED(0, 8), LOOSE(0, 8), FENCED(0, 8));
	EXPECT_STORES("F F F F D S F S F S F D S F D K", FENCED(0, 8), LOOSE(64, 8), LOOSE(0, 8),
		      FENCED(0, 8));
}

/* Nothing is promised between connections. */
Test(writeback_stores, connections_do_not_wait_for_one_another)
{
	enum { OTHERS = 3 };
	struct pair *pair = pair_open(NULL);
	struct pmv_flush_message message = append(pair, 4096, (struct place) FENCED(0, 8));
	struct pmv_ep *eps[OTHERS];

	pair_tell(pair, &message);
	for (size_t i = 0; i < OTHERS; i++) {
		struct pmv_mailbox *mailbox;

		eps[i] = pair_join(pair);
		mailbox = &eps[i]->mailbox;
		message = append(pair, 4096 + 512 * i, (struct place) FENCED(64 * (i + 1), 8));
		message.envelope.number = 1;
		message_encode(mailbox->link.block + PMV_MESSAGE_SIZE, &message,
			       &mailbox->receiver.message_in);
	}
	pair_serve(pair);
	expect_done(pair, "F F F F D S F S F S F S F D K");
	for (size_t i = 0; i < OTHERS; i++) {
		cr_expect_eq(eps[i]->mailbox.receiver.posted_acks, 1, "connection %d", (int) i);
		accepted(fi_close(&eps[i]->ep_fid.fid));
	}
	pair_close(pair);
}

/* Nothing is stored behind what can't be made durable, also if it would replace what is there. */
Test(writeback_stores, tails_end_where_a_record_is_lost)
{
	struct pair *pair = pair_open(NULL);
	struct pmv_flush_message message = append(pair, 4096, (struct place) FENCED(0, 8));

	pair_tell(pair, &message);
	message.ranges[0] = (struct pmv_range){0, 8, 0xdead};
	memset(message_data(&message), 'x', 8);
	pair_tell(pair, &message);
	message = append(pair, 8192, (struct place) FENCED(0, 8));
	memset(message_data(&message), 'y', 8);
	message.envelope.unacked = 2;
	pair_tell(pair, &message);
	pair_serve(pair);
	pair_expect_ack(pair, 1, PMV_FAULT_NONE);
	pair_expect_ack(pair, 2, PMV_FAULT_ACCESS);
	pair_expect_ack(pair, 3, PMV_FAULT_IO);
	cr_expect_eq(memcmp(pair->memory[DMP], data, 8), 0);
	pair_close(pair);
}
