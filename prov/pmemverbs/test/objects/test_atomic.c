/* SPDX-License-Identifier: BSD-2-Clause */
/* test_atomic.c -- atomics: how operands reach the core, and commits of atomics */
#include <stdlib.h>
#include <string.h>

#include "engine/atomic.h"
#include "test/support/rig.h"

#define FETCHED (FI_ATOMIC | FI_READ)

static uint64_t operand = UINT64_C(0x1122334455667788);
static uint64_t comparand = UINT64_C(0x99aabbccddeeff00);
static uint64_t result;

/* A version of libfabric that never comes: the core takes operands by value. */
static const struct rig_options by_value = {.values_until = UINT32_MAX};

/* The calls, with and without a message. */

static ssize_t fetch(struct rig *rig, bool as_msg)
{
	struct fi_ioc ioc = {&operand, 1}, result_ioc = {&result, 1};
	struct fi_rma_ioc rma_ioc = {ADDR, 1, KEY_MHP};
	struct fi_msg_atomic msg = {&ioc, NULL,      1,      0,          &rma_ioc,
				    1,    FI_UINT64, FI_SUM, CONTEXT(1), 0};

	if (as_msg)
		return fi_fetch_atomicmsg(rig->ep, &msg, &result_ioc, NULL, 1, 0);
	return fi_fetch_atomic(rig->ep, &operand, 1, NULL, &result, NULL, 0, ADDR, KEY_MHP,
			       FI_UINT64, FI_SUM, CONTEXT(1));
}

static ssize_t compare(struct rig *rig, bool as_msg, uint64_t flags)
{
	struct fi_ioc ioc = {&operand, 1}, result_ioc = {&result, 1}, compare_ioc = {&comparand, 1};
	struct fi_rma_ioc rma_ioc = {ADDR, 1, KEY_MHP};
	struct fi_msg_atomic msg = {&ioc, NULL,      1,        0,          &rma_ioc,
				    1,    FI_UINT64, FI_CSWAP, CONTEXT(1), DATA};

	if (as_msg)
		return fi_compare_atomicmsg(rig->ep, &msg, &compare_ioc, NULL, 1, &result_ioc, NULL,
					    1, flags);
	return fi_compare_atomic(rig->ep, &operand, 1, NULL, &comparand, NULL, &result, NULL, 0,
				 ADDR, KEY_MHP, FI_UINT64, FI_CSWAP, CONTEXT(1));
}

static ssize_t plain_atomic(struct rig *rig, uint64_t flags)
{
	struct fi_ioc ioc = {&operand, 1};
	struct fi_rma_ioc rma_ioc = {ADDR, 1, KEY_MHP};
	struct fi_msg_atomic msg = {&ioc,       NULL, 1, 0, &rma_ioc, 1, FI_UINT64, FI_ATOMIC_WRITE,
				    CONTEXT(1), DATA};

	return fi_atomicmsg(rig->ep, &msg, flags);
}

Test(atomics, operands_are_pointers_for_cores_that_follow_the_manual)
{
	for (int as_msg = 0; as_msg < 2; as_msg++) {
		struct rig *rig = rig_open(NULL);

		accepted(fetch(rig, as_msg));
		cr_expect_eq(rig_post(rig, 0)->op.call, TESTCORE_FETCH_ATOMICMSG);
		cr_expect_eq(rig_post(rig, 0)->op.buf, &operand);
		cr_expect_eq(rig_post(rig, 0)->op.dest, 0);
		cr_expect_eq(rig_post(rig, 0)->op.result, &result);
		accepted(compare(rig, as_msg, 0));
		cr_expect_eq(rig_post(rig, 1)->op.call, TESTCORE_COMPARE_ATOMICMSG);
		cr_expect_eq(rig_post(rig, 1)->op.buf, &operand);
		cr_expect_eq(rig_post(rig, 1)->op.compare, &comparand);
		cr_expect_eq(rig_post(rig, 1)->op.result, &result);
		for (size_t i = 0; i < 2; i++) {
			cr_expect_eq(rig_post(rig, i)->op.key, CORE_KEY_MHP);
			cr_expect_eq(rig_post(rig, i)->op.addr, ADDR);
			cr_expect_eq(rig_post(rig, i)->op.context, CONTEXT(1));
		}
		rig_close(rig);
	}
}

Test(atomics, operands_are_values_for_cores_that_take_them_so)
{
	for (int as_msg = 0; as_msg < 2; as_msg++) {
		struct rig *rig = rig_open(&by_value);

		accepted(fetch(rig, as_msg));
		cr_expect_eq(rig_post(rig, 0)->op.dest, operand);
		cr_expect_eq(rig_post(rig, 0)->op.result, &result);
		accepted(compare(rig, as_msg, 0));
		cr_expect_eq(rig_post(rig, 1)->op.dest, operand);
		cr_expect_eq((uintptr_t) rig_post(rig, 1)->op.compare, comparand);
		cr_expect_eq(rig_post(rig, 1)->op.result, &result);
		/* Atomics that return nothing never did that. */
		accepted(plain_atomic(rig, 0));
		cr_expect_eq(rig_post(rig, 2)->op.buf, &operand);
		cr_expect_eq(rig_post(rig, 2)->op.dest, 0);
		rig_close(rig);
	}
}

/* Also those that the core is going to refuse. */
Test(atomics, no_more_is_read_of_an_operand_than_there_is)
{
	static const struct {
		enum fi_datatype datatype;
		size_t size;
	} types[] = {
		{FI_UINT8, 1}, {FI_INT16, 2},  {FI_UINT32, 4},
		{FI_FLOAT, 4}, {FI_DOUBLE, 8}, {FI_INT64, 8},
	};

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		struct rig *rig = rig_open(&by_value);
		/* At the end of an allocation, where a sanitizer watches. */
		unsigned char *value = malloc(types[i].size);
		uint64_t expected = 0;

		memset(value, 0x5a, types[i].size);
		memset(&expected, 0x5a, types[i].size);
		accepted(fi_fetch_atomic(rig->ep, value, 1, NULL, &result, NULL, 0, ADDR, KEY_MHP,
					 types[i].datatype, FI_SUM, CONTEXT(1)));
		cr_expect_eq(rig_post(rig, 0)->op.dest, expected, "datatype %d", types[i].datatype);
		free(value);
		rig_close(rig);
	}
}

Test(atomics, are_committed_like_writes)
{
	struct rig *rig = rig_open(NULL);

	accepted(plain_atomic(rig, FI_COMMIT));
	expect_posted(rig, "A R");
	cr_expect_neq(rig_post(rig, 0)->op.context, CONTEXT(1));
	cr_expect_eq(rig_post(rig, 1)->op.addr, ADDR);
	cr_expect_eq(rig_post(rig, 1)->op.key, CORE_KEY_MHP);
	rig_expect_parts(rig, 2, CONTEXT(1), FI_ATOMIC | FI_WRITE);

	accepted(rig_fetch(rig, KEY_MHP, CONTEXT(2), FI_COMMIT));
	accepted(compare(rig, true, FI_COMMIT));
	expect_posted(rig, "A R A R");
	fake_complete(&rig->fake, 4);
	rig_expect(rig, CONTEXT(2), FETCHED);
	rig_expect(rig, CONTEXT(1), FETCHED);
	rig_expect_nothing(rig);
	rig_close(rig);
}

/* The core's atomics carry no immediate data. */
Test(atomics, notice_of_a_commit_is_always_a_write_of_its_own)
{
	const uint64_t keys[] = {KEY_MHP, KEY_WSP};
	static const char *const posted[] = {"A R fW0i", "A fW0i"};

	for (size_t i = 0; i < 2; i++) {
		struct rig *rig = rig_open(NULL);
		int parts = i ? 2 : 3;

		accepted(rig_fetch(rig, keys[i], CONTEXT(1), FI_COMMIT | FI_IMMED));
		expect_posted(rig, posted[i]);
		cr_expect_eq(rig_post(rig, (size_t) parts - 1)->op.data, DATA);
		rig_expect_parts(rig, parts, CONTEXT(1), FETCHED);
		rig_close(rig);
	}
}

Test(atomics, fail_once_like_writes)
{
	struct rig *rig = rig_open(NULL);

	accepted(rig_fetch(rig, KEY_MHP, CONTEXT(1), FI_COMMIT));
	fake_fail_all(&rig->fake, FI_EACCES, 5);
	rig_expect_error(rig, CONTEXT(1), FETCHED, FI_EACCES);
	rig_expect_nothing(rig);
	rig_close(rig);
}

Test(atomics, without_operands_to_compare_are_refused)
{
	struct fi_ioc ioc = {&operand, 1}, result_ioc = {&result, 1};
	struct fi_rma_ioc rma_ioc = {ADDR, 1, KEY_MHP};
	struct fi_msg_atomic msg = {&ioc, NULL,      1,        0,          &rma_ioc,
				    1,    FI_UINT64, FI_CSWAP, CONTEXT(1), 0};
	struct rig *rig = rig_open(NULL);

	refused(fi_compare_atomicmsg(rig->ep, &msg, NULL, NULL, 0, &result_ioc, NULL, 1, 0),
		FI_EINVAL);
	refused(fi_compare_atomicmsg(rig->ep, &msg, NULL, NULL, 0, &result_ioc, NULL, 1, FI_COMMIT),
		FI_EINVAL);
	expect_posted(rig, "");
	rig_expect_nothing(rig);
	rig_close(rig);
}

Test(atomics, of_too_many_ranges_are_refused)
{
	struct fi_ioc ioc = {&operand, 1};
	struct fi_rma_ioc rma_ioc[64] = {{ADDR, 1, KEY_MHP}};
	struct fi_msg_atomic msg = {&ioc,       NULL, 1, 0, rma_ioc, 64, FI_UINT64, FI_ATOMIC_WRITE,
				    CONTEXT(1), 0};
	struct rig *rig = rig_open(NULL);

	refused(fi_atomicmsg(rig->ep, &msg, 0), FI_EINVAL);
	refused(fi_atomicmsg(rig->ep, &msg, FI_COMMIT), FI_EINVAL);
	expect_posted(rig, "");
	rig_close(rig);
}

/* Sizes, and the table of the calls */

Test(atomics, know_the_size_of_every_operand)
{
	static const struct {
		enum fi_datatype type;
		size_t size;
	} rows[] = {
		{FI_INT8, 1},
		{FI_UINT8, 1},
		{FI_INT16, 2},
		{FI_UINT16, 2},
		{FI_INT32, 4},
		{FI_UINT32, 4},
		{FI_FLOAT, 4},
		{FI_INT64, 8},
		{FI_UINT64, 8},
		{FI_DOUBLE, 8},
		{FI_FLOAT_COMPLEX, 2 * sizeof(float)},
		{FI_DOUBLE_COMPLEX, 2 * sizeof(double)},
		{FI_LONG_DOUBLE, sizeof(long double)},
		{FI_LONG_DOUBLE_COMPLEX, 2 * sizeof(long double)},
		{(enum fi_datatype) FI_DATATYPE_LAST, 2 * sizeof(long double)},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		cr_expect_eq(pmv_operand_size(rows[i].type), rows[i].size, "type %d",
			     (int) rows[i].type);
}

/* A later libfabric may have more functions than there is room for: the copy ends where the room
 * does, and says so. */
Test(atomics, tables_are_copied_as_far_as_there_is_room)
{
	struct {
		size_t size;
		size_t functions[7];
	} below = {sizeof(below), {1, 2, 3, 4, 5, 6, 7}};
	struct {
		size_t size;
		size_t functions[3];
		size_t behind;
	} above = {.behind = 99};
	const size_t room = offsetof(__typeof__(above), behind);

	pmv_table_copy(&above, room, &below);
	cr_expect_eq(above.size, room);
	cr_expect_eq(memcmp(above.functions, below.functions, sizeof(above.functions)), 0);
	cr_expect_eq(above.behind, 99);

	below.size = 2 * sizeof(size_t);
	above.functions[1] = 98;
	pmv_table_copy(&above, room, &below);
	cr_expect_eq(above.size, below.size);
	cr_expect_eq(above.functions[1], 98, "what the table does not have is left alone");
}
