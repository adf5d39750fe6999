/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rs_race.c -- what seldom happens: writes that reach a part of the targets, or come too late
 *
 * Clients here look at some of three targets only, so that each one's majority is known.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/steps.h"
#include "rs_client.h"

enum { A = 1, B = 2, C = 4 };

#define BLOCK 1U
#define EMPTY_MAX 10000 /* chains that find no buffer, before there is none */

static const struct options *opts, *impatient;

static void expect(bool is_so, const char *what)
{
	if (is_so)
		return;
	fprintf(stderr, "%s\n", what);
	exit(EXIT_FAILURE);
}

static void must(const struct rs_client *client, int ret)
{
	if (rs_failed(client, ret))
		exit(EXIT_FAILURE);
}

/* meet -- a client that knows these targets, and is connected */
static void meet(struct rs_client *client, unsigned int only)
{
	client->spins = false;
	must(client, rs_open(client, opts));
	expect(client->count == 3, "it takes three targets");
	client->only = only;
	must(client, rs_ask(client, RS_TAG, BLOCK, (unsigned int) __builtin_popcount(only), false));
}

/* write_at -- a record with this tag, to these targets */
static int write_at(const struct options *patience, unsigned int only, struct rs_tag tag,
		    const char *value)
{
	struct rs_client client = {0};
	int ret;

	meet(&client, only);
	client.opts = patience;
	client.record = (struct rs_record){.tag = tag, .block = BLOCK};
	memcpy(client.record.value, value, strlen(value));
	client.record.check = rs_check(&client.record);
	ret = rs_ask(&client, RS_WRITE, BLOCK, (unsigned int) __builtin_popcount(only), false);
	rs_close(&client);
	return ret;
}

/* expect_get -- from two of them */
static void expect_get(unsigned int only, const char *value)
{
	struct rs_client client = {0};

	meet(&client, only);
	must(&client, rs_get(&client, BLOCK));
	expect(!strcmp((const char *) client.record.value, value), "another value than the newest");
	rs_close(&client);
}

/* expect_has -- one target has this value, and says that its tag is durable or not */
static void expect_has(unsigned int number, const char *value, bool durable)
{
	struct rs_client client = {0};
	const struct rs_buffers *buffers;

	meet(&client, 1U << number);
	must(&client, rs_ask(&client, RS_READ, BLOCK, 1, false));
	buffers = client.replicas[number].buffers;
	expect(!strcmp((const char *) buffers->got.value, value), "the target has another value");
	expect(rs_less(&buffers->durable, &buffers->got.tag) != durable,
	       durable ? "its tag should be durable" : "its tag should not be durable");
	rs_close(&client);
}

/* run_step -- one step at one target */
static uint32_t run_step(struct rs_replica *replica, const struct fi_pmemverbs_step *step)
{
	struct fi_cq_data_entry entry;
	ssize_t ret;

	replica->steps[0] = *step;
	while ((ret = replica->ops->post(replica->conn.ep, replica->steps, 1, replica,
					 FI_COMPLETION)) == -FI_EAGAIN)
		conn_poll(&replica->conn, &entry, 1, 0);
	while (!ret && !(ret = conn_poll(&replica->conn, &entry, 1, 100)))
		;
	expect(ret == 1, "a chain of one step has failed");
	return replica->steps[0].status;
}

/* read_twice -- whoever reads after a read that has ended reads nothing older, whoever answers */
static void read_twice(void)
{
	write_at(opts, A | B | C, (struct rs_tag){1, 100}, "old");
	write_at(opts, A, (struct rs_tag){1, 101}, "new");
	expect_get(B | C, "old");
	expect_get(A | B, "new");
	expect_get(B | C, "new");
}

/* come_late -- a smaller tag replaces nothing; of equal numbers the writer decides */
static void come_late(void)
{
	expect(!write_at(opts, A, (struct rs_tag){UINT64_MAX, 100}, "late"), "a late write failed");
	expect_has(0, "new", true);
	write_at(opts, A | B, (struct rs_tag){5, 200}, "five");
	write_at(opts, A | B, (struct rs_tag){4, 200}, "four");
	expect_get(A | B, "five");
	write_at(opts, A | B, (struct rs_tag){6, 200}, "six");
	expect_get(A | B, "six");
}

/* forget -- these targets say of no tag that it is durable */
static void forget(unsigned int only)
{
	static const struct rs_tag none;
	struct rs_client client = {0};

	meet(&client, only);
	for (unsigned int i = 0; i < client.count; i++) {
		const struct kv_lease *lease = &client.replicas[i].buffers->lease;
		uint64_t slot = lease->index + BLOCK * sizeof(struct rs_slot);

		if (only & 1U << i)
			run_step(&client.replicas[i],
				 &STEP(WRITE, .addr = slot + offsetof(struct rs_slot, durable),
				       .key = lease->key, .len = sizeof(none), .operand = &none));
	}
	rs_close(&client);
}

/* forget_durable -- what may not be durable is not believed, even if all have it */
static void forget_durable(void)
{
	forget(A | B);
	expect_has(0, "six", false);
	expect_get(A | B, "six");
	expect_has(0, "six", true);
	expect_has(1, "six", true);
}

/* lack_majority -- nobody decides alone: what can't come need not be waited for long */
static void lack_majority(void)
{
	struct rs_client client = {0};

	meet(&client, A);
	client.opts = impatient;
	expect(rs_get(&client, BLOCK) == -FI_ETIMEDOUT, "one of three was enough to read");
	expect(rs_put(&client, BLOCK) == -FI_ETIMEDOUT, "one of three was enough to write");
	rs_close(&client);
}

/* lack_buffers -- a target without a buffer has not answered */
static void lack_buffers(void)
{
	uint64_t taken[RS_SPARE + 1];
	struct rs_client client = {0};
	struct rs_replica *replica;
	unsigned int count = 0, empty = 0;
	uint32_t list;

	meet(&client, A);
	replica = &client.replicas[0];
	list = (uint32_t) replica->buffers->lease.list;
	/* A buffer that was given back may have to wait for chains that are under way. */
	while (count < RS_SPARE && empty < EMPTY_MAX) {
		if (run_step(replica, &STEP(ALLOCATE, .key = replica->buffers->lease.key,
					    .list = list, .result = &taken[count])))
			empty++;
		else
			count++;
	}
	expect(count == RS_SPARE, "there was not each buffer to be had");
	forget(A);
	expect(write_at(impatient, A, (struct rs_tag){1, 300}, "more") == -FI_ETIMEDOUT,
	       "a write without a buffer was acknowledged");
	/* Nor has it marked the older one that is there. */
	expect_has(0, "six", false);
	expect(!write_at(opts, A, (struct rs_tag){1, 100}, "late"),
	       "it needs no buffer to be late");
	while (count)
		run_step(replica, &STEP(FREE, .key = replica->buffers->lease.key, .list = list,
					.addr = taken[--count]));
	expect_has(0, "six", false);
	rs_close(&client);
}

int main(int argc, char **argv)
{
	static const struct program program = {
		.name = "rs_race",
		.summary = "What seldom happens, at three targets.",
		.letters = "Po",
		.hosts = true,
		.operations = "late: only a write that comes too late, to the first target",
	};
	struct options options = {0}, hasty;

	if (!options_parse(&options, &program, argc, argv))
		return options.status;
	hasty = options;
	hasty.timeout = 1;
	opts = &options;
	impatient = &hasty;
	if (options.nops)
		return write_at(opts, A, (struct rs_tag){0, 1}, "late") ? EXIT_FAILURE
									: EXIT_SUCCESS;
	read_twice();
	come_late();
	forget_durable();
	lack_majority();
	lack_buffers();
	return EXIT_SUCCESS;
}
