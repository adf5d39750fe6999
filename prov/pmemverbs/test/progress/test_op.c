/* SPDX-License-Identifier: BSD-2-Clause */
/* test_op.c -- where operations come from and go to, without any lock in the ordinary case */
#include <criterion/criterion.h>

#include <pthread.h>
#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "progress/op.h"

#define SIZE (sizeof(struct pmv_op) + 64)
#define MOST ((size_t) PMV_OP_APPLICATION)

static struct pmv_op_pool pool;

static void open_pool(void)
{
	cr_assert_eq(pmv_op_pool_init(&pool, SIZE), 0);
}

static void close_pool(void)
{
	pmv_op_pool_destroy(&pool);
}

TestSuite(op, .init = open_pool, .fini = close_pool);

static struct pmv_op_owner opened(void)
{
	struct pmv_op_owner owner = {0};

	cr_assert_eq(pmv_op_owner_open(&owner, &pool), 0);
	return owner;
}

/* take_all -- until none is left for an application; returns how many there were */
static size_t take_all(struct pmv_op_owner *owner, struct pmv_op **ops)
{
	size_t count = 0;

	while (count < MOST + 1 && (ops[count] = pmv_op_get(owner, PMV_OP_APPLICATION)))
		count++;
	return count;
}

static struct pmv_op **room(void)
{
	struct pmv_op **ops = calloc(MOST + 1, sizeof(*ops));

	cr_assert_not_null(ops);
	return ops;
}

Test(op, is_zero_again)
{
	struct pmv_op_owner owner = opened();
	struct pmv_op *op = pmv_op_get(&owner, PMV_OP_APPLICATION);
	char *behind = (char *) (op + 1);

	op->context = op;
	op->flags = 1;
	op->told.audience = PMV_TELL_ALL;
	op->told.single = op->told.ordinary = true;
	op->pending = 7;
	pmv_op_fail(op, FI_EIO, 5);
	behind[0] = behind[63] = 1;
	pmv_op_put(&pool, op);
	cr_assert_null(op->owner);
	cr_assert_eq(pmv_op_get(&owner, PMV_OP_APPLICATION), op);
	cr_expect_eq(op->owner, &owner);
	cr_expect_null(op->context);
	cr_expect_eq(op->flags, 0);
	cr_expect_eq(op->told.audience, PMV_TELL_NOBODY);
	cr_expect_not(op->told.single);
	cr_expect_not(op->told.ordinary);
	cr_expect_eq(op->pending, 1);
	cr_expect_eq(op->error, 0);
	cr_expect_eq(op->prov_errno, 0);
	cr_expect(op->comp.embedded);
	cr_expect_eq(behind[0] + behind[63], 0);
}

Test(op, are_never_handed_out_twice_and_some_are_kept)
{
	struct pmv_op_owner owner = opened();
	struct pmv_op **ops = room();
	size_t count = take_all(&owner, ops);

	cr_assert_eq(count, MOST);
	for (size_t i = 0; i < count; i++)
		cr_assert(pmv_is_op(&pool, ops[i]) && ops[i]->number == i + 1);
	for (size_t i = MOST; i < PMV_OP_OWN; i++)
		cr_assert_not_null(pmv_op_get(&owner, PMV_OP_OWN));
	cr_assert_null(pmv_op_get(&owner, PMV_OP_OWN));
	free(ops);
}

/* Whatever one endpoint has used, another one gets at least half of them. */
Test(op, of_one_endpoint_leave_half_for_others)
{
	struct pmv_op_owner owner = opened(), other = opened();
	struct pmv_op **ops = room();
	size_t count = take_all(&owner, ops);

	while (count)
		pmv_op_put(&pool, ops[--count]);
	cr_assert_geq(take_all(&other, ops), MOST / 2);
	free(ops);
}

Test(op, of_a_closed_endpoint_are_used_by_the_next)
{
	struct pmv_op_owner owner = opened(), next;
	struct pmv_op *early = pmv_op_get(&owner, PMV_OP_APPLICATION);
	struct pmv_op *late = pmv_op_get(&owner, PMV_OP_APPLICATION);

	pmv_op_put(&pool, early);
	pmv_op_owner_close(&owner);
	next = opened();
	cr_expect_eq(pmv_op_get(&next, PMV_OP_APPLICATION), early);
	pmv_op_put(&pool, late);
	cr_expect_eq(pmv_op_get(&next, PMV_OP_APPLICATION), late);
	cr_expect_eq(pool.used, 2 * SIZE);
}

/* The core may complete one later. */
Test(op, of_acknowledgements_is_free_after_the_last_one_of_a_closed_endpoint)
{
	for (int under_way = 0; under_way < 2; under_way++) {
		struct pmv_op_owner owner = opened(), next;
		struct pmv_op *acks = pmv_op_get(&owner, PMV_OP_OWN);
		struct pmv_op_list list;

		owner.acks = acks;
		acks->pending += under_way;
		cr_expect_eq(pmv_op_acks(&owner), under_way);
		list = pmv_op_abandon(&owner);
		cr_expect(STAILQ_EMPTY(&list));
		pmv_op_owner_close(&owner);
		next = opened();
		if (under_way) {
			cr_expect_neq(pmv_op_get(&next, PMV_OP_OWN), acks);
			cr_expect_not(pmv_op_done(&pool, acks, 0, 0));
		}
		cr_expect_eq(pmv_op_get(&next, PMV_OP_OWN), acks);
		pmv_op_put(&pool, acks);
		pmv_op_owner_close(&next);
	}
}

#define THREADS 4
#define ROUNDS 20000

static struct pmv_op_owner shared;

/* Who else has taken it meanwhile has written his own number there. */
static void *take_and_put(void *arg)
{
	for (int i = 0; i < ROUNDS; i++) {
		struct pmv_op *ops[3];

		for (size_t j = 0; j < 3; j++) {
			ops[j] = pmv_op_get(&shared, PMV_OP_APPLICATION);
			if (!ops[j] || ops[j]->context)
				return arg;
			ops[j]->context = arg;
		}
		for (size_t j = 0; j < 3; j++) {
			if (ops[j]->context != arg)
				return arg;
			ops[j]->context = NULL;
			pmv_op_put(&pool, ops[j]);
		}
	}
	return NULL;
}

Test(op, are_taken_by_several_threads)
{
	pthread_t threads[THREADS];
	int self[THREADS];

	shared = opened();
	for (size_t i = 0; i < THREADS; i++)
		cr_assert_eq(pthread_create(&threads[i], NULL, take_and_put, &self[i]), 0);
	for (size_t i = 0; i < THREADS; i++) {
		void *wrong;

		cr_assert_eq(pthread_join(threads[i], &wrong), 0);
		cr_expect_null(wrong, "one was handed out twice");
	}
	cr_expect_leq(pool.used, THREADS * 3 * SIZE);
}

static int ended;

static void note_end(struct pmv_op_owner *owner, struct pmv_op *op)
{
	(void) owner, (void) op;
	ended++;
}

/* The owner of an ordinary one hears of its failure only. */
Test(op, tells_its_owner)
{
	struct pmv_op_owner owner = opened();

	owner.ended = note_end;
	for (int ordinary = 0; ordinary < 2; ordinary++) {
		for (int err = 0; err < 2; err++) {
			struct pmv_op *op = pmv_op_get(&owner, PMV_OP_APPLICATION);

			op->told.audience = PMV_TELL_ALL;
			op->context = &owner;
			op->flags = 3;
			op->told.ordinary = ordinary;
			ended = 0;
			cr_assert(pmv_op_done(&pool, op, err * FI_EIO, err));
			cr_expect_eq(ended, !ordinary || err);
			cr_expect_eq(op->comp.is_error, err);
			cr_expect_eq(op->comp.ok.op_context, &owner);
			cr_expect_eq(op->comp.ok.flags, 3);
			pmv_op_put(&pool, op);
		}
	}
}
