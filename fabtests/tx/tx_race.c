/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tx_race.c -- what seldom happens: transactions that meet, and clients that die between two chains
 *
 * The target counts its buffers when it ends.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/steps.h"
#include "../kv/kv_chain.h"
#include "tx_chain.h"

enum { X, Y, Z };

static const struct options *opts;

static void expect(bool is_so, const char *what)
{
	if (is_so)
		return;
	fprintf(stderr, "%s\n", what);
	exit(EXIT_FAILURE);
}

static void must(const struct tx_client *client, int ret)
{
	if (ret)
		fprintf(stderr, "%s\n", client->link.error.text);
	expect(!ret, "that should have succeeded");
}

static void meet(struct tx_client *client)
{
	must(client, tx_connect(client, opts, &tx_chains));
	tx_begin(client);
}

static void read_key(struct tx_client *client, uint64_t key, const char *value)
{
	struct tx_access *access;

	must(client, tx_read(client, key, &access));
	expect(!strcmp((const char *) access->record.value, value), "another value than the last");
}

/* change -- read a key that has a value, and write another one */
static void change(struct tx_client *client, uint64_t key, const char *from, const char *to)
{
	struct tx_access *access;

	read_key(client, key, from);
	access = &client->accesses[client->count - 1];
	access->writes = true;
	memcpy(access->record.value, to, strlen(to) + 1);
}

/* has -- all three, in one transaction of a new client */
static void has(const char *x, const char *y, const char *z)
{
	struct tx_client client = {0};

	meet(&client);
	read_key(&client, X, x);
	read_key(&client, Y, y);
	read_key(&client, Z, z);
	must(&client, tx_commit(&client));
	tx_disconnect(&client);
}

static void set(uint64_t key, const char *from, const char *to)
{
	struct tx_client client = {0};

	meet(&client);
	change(&client, key, from, to);
	must(&client, tx_commit(&client));
	tx_disconnect(&client);
}

/* read_stale -- what was read is not the last version when the transaction wants to commit */
static void read_stale(void)
{
	struct tx_client client = {0}, only_reads = {0};

	meet(&client);
	meet(&only_reads);
	change(&client, X, "", "late");
	read_key(&only_reads, X, "");
	read_key(&only_reads, Y, "");
	set(X, "", "a");
	expect(tx_commit(&client) == -FI_EAGAIN, "an update of an old version");
	expect(tx_commit(&only_reads) == -FI_EAGAIN, "an old version was read");
	tx_disconnect(&client);
	tx_disconnect(&only_reads);
	has("a", "", "");
}

/* read_by_younger -- who has a greater stamp has read the version that is there */
static void read_by_younger(void)
{
	struct tx_client older = {0}, younger = {0};
	struct fi_pmemverbs_step step;

	meet(&older);
	meet(&younger);
	change(&older, X, "a", "late");
	read_key(&older, Y, "");
	must(&older, tx_prepare(&older));
	/* Its validation comes late. */
	must(&older, kv_run(&older.link, tx_make_undo(&older)));
	read_key(&younger, X, "a");
	must(&younger, tx_commit(&younger));
	tx_make_prepare(&older);
	step = older.link.steps[older.accesses[0].step];
	older.link.steps[0] = step;
	older.link.steps[0].flags = 0;
	must(&older, kv_run(&older.link, 1));
	expect(older.link.steps[0].status == FI_PMEMVERBS_STEP_FAILED,
	       "a version in front of one that was read");
	/* And who only reads need not be the youngest. */
	tx_begin(&older);
	read_key(&older, X, "a");
	older.accesses[0].slot.pr = (struct rs_tag){0};
	must(&older, tx_prepare(&older));
	tx_disconnect(&older);
	tx_disconnect(&younger);
}

/* write_skew -- each reads what the other one writes */
static void write_skew(void)
{
	struct tx_client first = {0}, second = {0};

	meet(&first);
	meet(&second);
	read_key(&first, X, "a");
	change(&first, Y, "", "b");
	change(&second, X, "a", "late");
	read_key(&second, Y, "");
	must(&first, tx_prepare(&first));
	expect(tx_prepare(&second) == -FI_EAGAIN, "both can commit");
	must(&first, tx_install(&first));
	tx_disconnect(&first);
	tx_disconnect(&second);
	has("a", "b", "");
}

/* put_back -- a transaction that can't commit leaves the keys as they were */
static void put_back(void)
{
	struct tx_client client = {0};

	meet(&client);
	change(&client, X, "a", "late");
	change(&client, Y, "b", "late");
	change(&client, Z, "", "late");
	set(Z, "", "c");
	expect(tx_commit(&client) == -FI_EAGAIN, "an update of an old version");
	for (unsigned int key = X; key <= Z; key++) {
		must(&client, tx_look(&client, &client.accesses[key]));
		expect(!memcmp(&client.accesses[key].slot.pw, &client.accesses[key].slot.committed,
			       sizeof(struct rs_tag)),
		       "a key is prepared still");
	}
	tx_disconnect(&client);
	has("a", "b", "c");
}

/* abandon -- who dies when he is prepared keeps nobody out; who is slow does not commit then */
static void abandon(bool dies)
{
	struct tx_client client = {0};

	meet(&client);
	change(&client, X, "a", "late");
	change(&client, Y, "b", "late");
	must(&client, tx_prepare(&client));
	if (dies)
		tx_disconnect(&client);
	has("a", "b", "c");
	if (!dies) {
		expect(tx_install(&client) == -FI_EAGAIN, "he was stopped, and has committed");
		tx_disconnect(&client);
	}
	set(X, "a", "again");
	set(X, "again", "a");
}

/* clear_late -- who has found that a transaction is over puts back nothing of a later one */
static void clear_late(void)
{
	struct tx_client client = {0}, other = {0};
	struct rs_tag over;

	meet(&client);
	meet(&other);
	change(&client, X, "a", "late");
	must(&client, tx_prepare(&client));
	over = client.stamp;
	must(&client, kv_run(&client.link, tx_make_undo(&client)));
	must(&client, tx_prepare(&client));
	must(&other, kv_run(&other.link, tx_make_clear(&other, X, &over)));
	expect(other.link.steps[1].status == FI_PMEMVERBS_STEP_FAILED, "a later one was put back");
	must(&client, kv_run(&client.link, tx_make_undo(&client)));
	tx_disconnect(&client);
	tx_disconnect(&other);
}

/* halfway -- slots have swung, and that may not be durable: others may not read it, nor stop it */
static void halfway(void)
{
	struct fi_pmemverbs_step rest[FI_PMEMVERBS_CHAIN_STEPS];
	struct tx_client client = {0}, other = {0};
	struct tx_access *seen = &other.accesses[0];
	struct options impatient = *opts;
	struct tx_running was;
	unsigned int written;
	size_t count;

	impatient.timeout = 1;
	meet(&client);
	meet(&other);
	change(&client, X, "a", "new");
	change(&client, Y, "b", "new");
	must(&client, tx_prepare(&client));
	must(&client, tx_send(&client, &written));
	count = tx_make_install(&client);
	memcpy(rest, client.link.steps, sizeof(rest));
	must(&client, kv_run(&client.link, 1 + written));
	*seen = (struct tx_access){.key = X};
	other.count = 1;
	must(&other, tx_look(&other, seen));
	expect(!strcmp((const char *) seen->record.value, "new"), "it has not swung");
	expect(tx_prepare(&other) == -FI_EAGAIN, "what may be lost was read");
	must(&other, kv_run(&other.link, tx_make_stop(&other, &client.stamp, &was)));
	expect(other.link.steps[0].status == FI_PMEMVERBS_STEP_FAILED && was.busy,
	       "a commit was stopped that had begun");
	other.link.opts = &impatient;
	tx_begin(&other);
	expect(tx_read(&other, X, &seen) == -FI_ETIMEDOUT, "what may be lost was read");
	expect(!memcmp(&seen->slot.pw, &client.stamp, sizeof(client.stamp)),
	       "a key of a commit that had begun was put back");
	count -= 1 + written;
	memcpy(client.link.steps, rest + 1 + written, count * sizeof(*rest));
	client.link.steps[0].flags &= ~CONDITIONAL;
	must(&client, kv_run(&client.link, count));
	tx_disconnect(&client);
	tx_disconnect(&other);
	has("new", "new", "c");
}

/* last_stamp -- nobody can write behind it, and whoever tries is told so */
static void last_stamp(void)
{
	struct tx_client client = {0};

	meet(&client);
	change(&client, X, "new", "last");
	client.stamp.number = UINT64_MAX - 1;
	must(&client, tx_commit(&client));
	tx_disconnect(&client);
	meet(&client);
	change(&client, X, "last", "late");
	expect(tx_commit(&client) == -FI_EOVERFLOW, "a stamp behind the last one");
	tx_disconnect(&client);
}

/* swing_one -- of three slots, durably: the target completes the commit when it starts */
static void swing_one(unsigned int which)
{
	struct tx_client client = {0};
	struct fi_pmemverbs_step *steps = client.link.steps;
	struct tx_access *access;
	unsigned int written;

	meet(&client);
	for (unsigned int key = X; key <= Z; key++) {
		must(&client, tx_read(&client, key, &access));
		access->writes = true;
		snprintf((char *) access->record.value, TX_VALUE, "swung%u", which);
	}
	must(&client, tx_prepare(&client));
	must(&client, tx_send(&client, &written));
	tx_make_install(&client);
	steps[1] = steps[1 + which];
	steps[1].flags |= FI_PMEMVERBS_STEP_COMMIT;
	steps[2] = STEP(READ, .addr = client.link.buffers->lease.index,
			.key = client.link.buffers->lease.key, .flags = FI_PMEMVERBS_STEP_COMMIT);
	must(&client, kv_run(&client.link, 3));
	expect(!steps[1].status, "it has not swung");
	tx_disconnect(&client);
}

int main(int argc, char **argv)
{
	static const struct program program = {.name = "tx_race",
					       .summary = "Transactions that meet.",
					       .letters = "Po",
					       .operations =
						       "0, 1 or 2: only swing a slot, of three"};
	struct options options = {0};

	if (!options_parse(&options, &program, argc, argv))
		return options.status;
	opts = &options;
	if (options.nops) {
		swing_one((unsigned int) atoi(options.ops[0]));
		return EXIT_SUCCESS;
	}
	read_stale();
	read_by_younger();
	write_skew();
	put_back();
	abandon(true);
	abandon(false);
	clear_late();
	halfway();
	last_stamp();
	return EXIT_SUCCESS;
}
