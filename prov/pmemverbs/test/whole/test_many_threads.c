/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_many_threads.c -- many threads at once: each operation completes once, and
 * fences hold also where an endpoint is shared
 */
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/setting.h"
#include "test/support/pair.h"
#include "test/support/rig.h"

#define POSTERS 4
#define READERS 2
#define OPERATIONS 4000 /* of each poster */
#define TOTAL (POSTERS * OPERATIONS)

struct crowd {
	struct rig *rig;
	struct fid_ep *eps[POSTERS];
	uint64_t flags; /* of every commit */
	atomic_int completions[TOTAL];
	atomic_int told;   /* entries read, errors too */
	atomic_int errors; /* what should not have happened */
};

struct poster {
	struct crowd *crowd;
	pthread_t thread;
	int number;
};

/* Where the data of an operation comes from tells which it is. */
static char area[TOTAL][8];

static bool is_commit(int n)
{
	return n % 4 != 0;
}

static uint64_t key_of(int n)
{
	static const int order[] = {0, 1, 2, 0, 1, 1, 3, 1};

	switch (order[n % 8]) {
	case 0:
		return KEY_DMP;
	case 1:
		return KEY_MHP;
	case 2:
		return KEY_WSP;
	default:
		return KEY_NONE;
	}
}

static ssize_t post(struct crowd *crowd, struct fid_ep *ep, int n)
{
	struct iovec iov = {area[n], 8};
	struct fi_rma_iov rma_iov = {ADDR, 8, key_of(n)};
	struct fi_msg_rma msg = {&iov, NULL, 1, 0, &rma_iov, 1, CONTEXT(n), DATA};

	return fi_writemsg(ep, &msg, is_commit(n) ? FI_COMMIT | crowd->flags : 0);
}

static void *run_poster(void *arg)
{
	struct poster *poster = arg;
	struct crowd *crowd = poster->crowd;

	for (int i = 0; i < OPERATIONS; i++) {
		int n = poster->number * OPERATIONS + i;
		ssize_t ret;

		while ((ret = post(crowd, crowd->eps[poster->number], n)) == -FI_EAGAIN)
			sched_yield();
		if (ret)
			atomic_fetch_add(&crowd->errors, 1);
	}
	return NULL;
}

static void *run_reader(void *arg)
{
	struct crowd *crowd = arg;
	struct fi_cq_tagged_entry entries[7];
	ssize_t got;

	while (atomic_load(&crowd->told) < TOTAL) {
		got = fi_cq_read(crowd->rig->cq, entries, 7);
		for (ssize_t i = 0; i < got; i++) {
			ptrdiff_t n = ((char *) entries[i].op_context - (char *) CONTEXT(0)) / 16;

			if (n < 0 || n >= TOTAL || atomic_fetch_add(&crowd->completions[n], 1))
				atomic_fetch_add(&crowd->errors, 1);
			atomic_fetch_add(&crowd->told, 1);
		}
		if (got < 0 && got != -FI_EAGAIN)
			atomic_fetch_add(&crowd->errors, 1);
		if (got < 0)
			sched_yield();
	}
	return NULL;
}

/* crowd_run -- all of it, and what holds whatever the endpoints are */
static void crowd_run(struct crowd *crowd)
{
	struct poster posters[POSTERS];
	pthread_t readers[READERS];

	crowd->rig->fake.automatic = true;
	crowd->rig->fake.busy_every = 7;
	for (int i = 0; i < READERS; i++)
		cr_assert_eq(pthread_create(&readers[i], NULL, run_reader, crowd), 0);
	for (int i = 0; i < POSTERS; i++) {
		posters[i].crowd = crowd;
		posters[i].number = i;
		cr_assert_eq(pthread_create(&posters[i].thread, NULL, run_poster, &posters[i]), 0);
	}
	for (int i = 0; i < POSTERS; i++)
		pthread_join(posters[i].thread, NULL);
	for (int i = 0; i < READERS; i++)
		pthread_join(readers[i], NULL);
	cr_expect_eq(crowd->errors, 0);
	cr_expect_eq(crowd->told, TOTAL);
	for (int n = 0; n < TOTAL; n++)
		cr_assert_eq(crowd->completions[n], 1, "operation %d", n);
	rig_expect_nothing(crowd->rig);
	cr_expect_eq(fake_under_way(&crowd->rig->fake), 0);
}

static struct crowd *crowd_open(const struct rig_options *options, bool shared_ep)
{
	struct crowd *crowd = calloc(1, sizeof(*crowd));

	cr_assert_not_null(crowd);
	crowd->rig = rig_open(options);
	crowd->eps[0] = crowd->rig->ep;
	for (int i = 1; i < POSTERS; i++)
		crowd->eps[i] = shared_ep ? crowd->eps[0] : rig_ep(crowd->rig, crowd->rig->cq);
	return crowd;
}

static void crowd_close(struct crowd *crowd)
{
	for (int i = 1; i < POSTERS; i++) {
		if (crowd->eps[i] != crowd->eps[0])
			accepted(fi_close(&crowd->eps[i]->fid));
	}
	rig_close(crowd->rig);
	free(crowd);
}

/* The operation of the application that one of the core's is, or -1: a flush, a notice. */
static int operation_of(const struct fake_post *op)
{
	const char *buf = op->op.buf;

	return buf >= area[0] && buf < area[TOTAL] ? (int) ((buf - area[0]) / 8) : -1;
}

/*
 * What a thread wrote to DMP memory is flushed before its next fenced commit,
 * and the commit waits for that: one of the core's READs after the write, and
 * a fence after that READ, lie before the commit.
 */
static void expect_fences_hold(struct crowd *crowd)
{
	struct fake *fake = &crowd->rig->fake;
	/* The last write of each thread to DMP memory, of all READs, of all fences behind one. */
	size_t written[POSTERS] = {0}, read = 0, fenced = 0;

	for (size_t i = 0; i < fake->num_posts; i++) {
		const struct fake_post *op = rig_post(crowd->rig, i);
		int n = operation_of(op);

		if (op->op.what == (FI_RMA | FI_READ))
			read = i + 1;
		/* A fence makes all READs before it count. */
		if (op->op.flags & FI_FENCE)
			fenced = read;
		if (n < 0)
			continue;
		if (is_commit(n))
			cr_assert(written[n / OPERATIONS] <= fenced,
				  "operation %d, at %zu, is not fenced from the write at %zu", n, i,
				  written[n / OPERATIONS] - 1);
		if (key_of(n) == KEY_DMP)
			written[n / OPERATIONS] = i + 1;
	}
}

Test(threads, on_endpoints_of_their_own_complete_everything_once, .timeout = 120)
{
	struct crowd *crowd = crowd_open(NULL, false);

	crowd_run(crowd);
	crowd_close(crowd);
}

Test(threads, with_notices_complete_everything_once, .timeout = 120)
{
	struct crowd *crowd = crowd_open(NULL, false);

	crowd->flags = FI_IMMED | FI_FENCE;
	crowd_run(crowd);
	crowd_close(crowd);
}

Test(threads, on_a_short_cq_complete_everything_once, .timeout = 120)
{
	struct crowd *crowd = crowd_open(&(struct rig_options){.cq_size = 2}, false);

	crowd->flags = FI_FENCE;
	crowd_run(crowd);
	crowd_close(crowd);
}

Test(threads, on_one_endpoint_complete_everything_once, .timeout = 120)
{
	struct crowd *crowd = crowd_open(NULL, true);

	crowd->flags = FI_IMMED;
	crowd_run(crowd);
	crowd_close(crowd);
}

Test(threads, on_one_endpoint_keep_their_fences, .timeout = 120)
{
	struct crowd *crowd = crowd_open(NULL, true);

	crowd->flags = FI_FENCE;
	crowd_run(crowd);
	expect_fences_hold(crowd);
	crowd_close(crowd);
}

Test(threads, share_a_counter_that_counts_each_once, .timeout = 120)
{
	struct crowd *crowd = crowd_open(&(struct rig_options){.not_enabled = true}, false);
	struct fid_cntr *cntr = rig_cntr(crowd->rig);

	for (int i = 0; i < POSTERS; i++) {
		accepted(fi_ep_bind(crowd->eps[i], &cntr->fid, FI_WRITE));
		accepted(fi_enable(crowd->eps[i]));
	}
	crowd_run(crowd);
	cr_expect_eq(fi_cntr_read(cntr), TOTAL);
	cr_expect_eq(fi_cntr_readerr(cntr), 0);
	for (int i = 1; i < POSTERS; i++)
		accepted(fi_close(&crowd->eps[i]->fid));
	for (int i = 1; i < POSTERS; i++)
		crowd->eps[i] = crowd->eps[0];
	rig_close_ep(crowd->rig);
	accepted(fi_close(&cntr->fid));
	crowd_close(crowd);
}

/* Each plain write and each commit completes once, whatever flush it was covered by. */
static void cover_run(bool shared_ep)
{
	struct crowd *crowd;

	pmv_setting.commit_all = true;
	crowd = crowd_open(NULL, shared_ep);
	crowd_run(crowd);
	crowd_close(crowd);
}

Test(threads, whose_writes_are_covered_complete_everything_once, .timeout = 120)
{
	cover_run(false);
	cover_run(true);
}

/* Somebody reads the CQ while another closes endpoints with commits under way. */

struct churn {
	struct rig *rig;
	atomic_bool done;
	atomic_int told;
};

static void *run_churn_reader(void *arg)
{
	struct churn *churn = arg;
	struct fi_cq_tagged_entry entry;
	bool done;

	do {
		struct fi_cq_err_entry error = {0};
		ssize_t ret;

		done = atomic_load(&churn->done);
		while ((ret = fi_cq_read(churn->rig->cq, &entry, 1)) != -FI_EAGAIN) {
			if (ret == 1 || fi_cq_readerr(churn->rig->cq, &error, 0) == 1)
				atomic_fetch_add(&churn->told, 1);
		}
	} while (!done);
	return NULL;
}

static void churn_run(uint64_t flags)
{
	enum { ROUNDS = 100, COMMITS = 20 };

	for (int way = FAKE_CLOSE_CANCELS; way <= FAKE_CLOSE_FORGETS; way++) {
		struct churn churn = {.rig = rig_open(&(struct rig_options){.cq_size = 4})};
		struct rig *rig = churn.rig;
		pthread_t readers[READERS];

		rig->fake.on_close = (enum fake_on_close) way;
		rig->fake.busy_every = 5;
		for (int i = 0; i < READERS; i++)
			cr_assert_eq(pthread_create(&readers[i], NULL, run_churn_reader, &churn),
				     0);
		for (int round = 0; round < ROUNDS; round++) {
			size_t first = rig->fake.num_posts;

			for (int i = 0; i < COMMITS; i++) {
				while (rig_writemsg(rig, KEY_MHP, CONTEXT(i), flags))
					sched_yield();
			}
			fake_complete(&rig->fake, COMMITS / 2);
			rig_close_ep(rig);
			for (size_t n = first; n < rig->fake.num_posts; n++) {
				if (rig->fake.posts[n].state == FAKE_FORGOTTEN)
					fake_report(&rig->fake, n, FI_ECANCELED);
			}
			rig->ep = rig_ep(rig, rig->cq);
		}
		atomic_store(&churn.done, true);
		for (int i = 0; i < READERS; i++)
			pthread_join(readers[i], NULL);
		cr_expect_eq(churn.told, ROUNDS * COMMITS, "%d", churn.told);
		rig_close(rig);
	}
}

Test(threads, may_read_while_endpoints_are_closed, .timeout = 120)
{
	churn_run(FI_COMMIT);
}

Test(threads, may_read_while_endpoints_with_covered_writes_are_closed, .timeout = 120)
{
	pmv_setting.commit_all = true;
	churn_run(0);
}

/* Messages of threads that share an endpoint */

#define SENDERS 3
#define PER_THREAD 400
#define ALL (SENDERS * PER_THREAD)

static atomic_int sent;

static void take_one(struct pair *pair)
{
	struct fi_cq_tagged_entry entry;
	ssize_t ret = fi_cq_read(pair->home->cq, &entry, 1);

	cr_assert_neq(ret, -FI_EAVAIL);
	if (ret == 1)
		atomic_fetch_add(&sent, 1);
}

static void *send_many(void *arg)
{
	struct pair *pair = arg;

	for (int i = 0; i < PER_THREAD; i++) {
		while (pair_send(pair, 0, 8, CONTEXT(i), i % 5 ? 0 : FI_COMMIT) == -FI_EAGAIN)
			take_one(pair);
		take_one(pair);
	}
	return NULL;
}

Test(threads, that_send_are_counted, .timeout = 60)
{
	struct pair *pair = pair_open(&(struct pair_options){
		.thread = true,
		.automatic = true,
		/* All of them are kept one by one, so none is flushed before it is used. */
		.away = {.rx_size = ALL},
	});
	pthread_t threads[SENDERS];

	pair->forgets_events = true;
	for (size_t i = 0; i <= ALL; i++)
		pair_receive(pair, DMP, 8 * i, 8);
	for (int i = 0; i < SENDERS; i++)
		pthread_create(&threads[i], NULL, send_many, pair);
	for (int i = 0; i < SENDERS; i++)
		pthread_join(threads[i], NULL);
	cr_expect_eq(atomic_load(&pair->from->initiator.sends), ALL);
	accepted(pair_send(pair, 0, 8, CONTEXT(0), FI_COMMIT));
	while (atomic_load(&sent) < ALL + 1)
		take_one(pair);
	rig_expect_nothing(pair->home);
	for (size_t i = 0; i <= ALL; i++)
		cr_assert_arr_eq(pair->durable[DMP] + 8 * i, pair->source, 8);
	pair_close(pair);
}
