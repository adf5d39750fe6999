/* SPDX-License-Identifier: BSD-2-Clause */
/* test_key.c -- what travels in a key, and that nothing else is taken for it */
#include <criterion/criterion.h>
#include <inttypes.h>

#include "test/support/dice.h"
#include "memory/key.h"

#define NUM_FLAGS 7
#define FUZZ_ROUNDS 2000000

/* The layout that key.h draws; peers of other versions rely on it. */
#define TAG (UINT64_C(0x3d) << 58)
#define TAG_MASK (UINT64_C(0x3f) << 58)
#define PERSIST_SHIFT 32
#define FLAGS_SHIFT 35
#define LIFE_SHIFT 42
#define LIFE UINT16_C(0xa5c3)

static const uint32_t core_keys[] = {0, 1, 0x7fffffff, 0x80000000, 0xdeadbeef, UINT32_MAX};

#define NUM_CORE_KEYS (sizeof(core_keys) / sizeof(core_keys[0]))

static struct pmv_attr attr_of(enum pmv_persist persist, unsigned flags)
{
	return (struct pmv_attr){
		.persist = persist,
		.pmem = flags & 1,
		.ddio = flags & 2,
		.uncached = flags & 4,
		.relaxed = flags & 8,
		.readable = flags & 16,
		.writable = flags & 32,
		.events = flags & 64,
		.life = LIFE,
	};
}

static bool same(const struct pmv_attr *a, const struct pmv_attr *b)
{
	return a->persist == b->persist && a->pmem == b->pmem && a->ddio == b->ddio &&
	       a->uncached == b->uncached && a->relaxed == b->relaxed &&
	       a->readable == b->readable && a->writable == b->writable && a->events == b->events &&
	       a->life == b->life && a->flushable == b->flushable &&
	       a->atomic_write == b->atomic_write;
}

static void expect_refused(uint64_t key)
{
	const struct pmv_attr untouched = attr_of(PMV_WSP, 0x2a);
	struct pmv_attr attr = untouched;

	cr_assert(!pmv_key_unpack(key, &attr), "0x%016" PRIx64 " was taken for a key of ours", key);
	cr_assert(same(&attr, &untouched), "0x%016" PRIx64 " changed the attributes", key);
}

Test(key, all_attributes_survive_the_round_trip)
{
	for (int persist = PMV_NONE; persist <= PMV_WSP; persist++) {
		for (unsigned flags = 0; flags < 1U << NUM_FLAGS; flags++) {
			for (size_t i = 0; i < NUM_CORE_KEYS; i++) {
				struct pmv_attr in = attr_of((enum pmv_persist) persist, flags);
				struct pmv_attr out = attr_of(PMV_NONE, ~flags);
				uint64_t key = pmv_key_pack(core_keys[i], &in);

				cr_assert(pmv_key_unpack(key, &out));
				cr_assert(same(&in, &out), "persist %d, flags %#x", persist, flags);
				cr_assert_eq(pmv_key_core(key), core_keys[i]);
			}
		}
	}
}

Test(key, layout_is_the_one_that_other_versions_know)
{
	for (int persist = PMV_NONE; persist <= PMV_WSP; persist++) {
		for (unsigned flags = 0; flags < 1U << NUM_FLAGS; flags++) {
			struct pmv_attr attr = attr_of((enum pmv_persist) persist, flags);

			cr_assert_eq(pmv_key_pack(0x12345678, &attr),
				     TAG | (uint64_t) LIFE << LIFE_SHIFT |
					     (uint64_t) flags << FLAGS_SHIFT |
					     (uint64_t) persist << PERSIST_SHIFT | 0x12345678);
		}
	}
}

/* Two more values of what persists. */
Test(key, flushable_memory_is_adr)
{
	struct pmv_attr in = attr_of(PMV_DMP, 0x23), out = attr_of(PMV_NONE, 0);
	uint64_t key;

	in.flushable = true;
	key = pmv_key_pack(0x12345678, &in);
	cr_assert_eq(key >> PERSIST_SHIFT & 7, 5U);
	cr_assert(pmv_key_unpack(key, &out));
	cr_expect(same(&in, &out));
	in.atomic_write = true;
	key = pmv_key_pack(0x12345678, &in);
	cr_assert_eq(key >> PERSIST_SHIFT & 7, 6U);
	cr_assert(pmv_key_unpack(key, &out));
	cr_expect(same(&in, &out));
	expect_refused(key | UINT64_C(7) << PERSIST_SHIFT);
}

Test(key, persistence_domains_keep_their_numbers)
{
	cr_assert_eq(PMV_NONE, 0);
	cr_assert_eq(PMV_PAGE, 1);
	cr_assert_eq(PMV_DMP, 2);
	cr_assert_eq(PMV_MHP, 3);
	cr_assert_eq(PMV_WSP, 4);
}

Test(key, plain_core_keys_carry_nothing)
{
	uint64_t state = 1;

	for (size_t i = 0; i < NUM_CORE_KEYS; i++)
		expect_refused(core_keys[i]);
	for (int i = 0; i < FUZZ_ROUNDS; i++)
		expect_refused(dice_bits(&state) & UINT32_MAX);
}

Test(key, other_tags_carry_nothing)
{
	struct pmv_attr attr = attr_of(PMV_MHP, 0x31);
	uint64_t key = pmv_key_pack(42, &attr);

	for (uint64_t tag = 0; tag <= 0x3f; tag++) {
		if (tag != TAG >> 58)
			expect_refused((key & ~TAG_MASK) | tag << 58);
	}
}

/* A key without the tag is a plain peer's, and no number is asked of it. */
Test(key, fits_the_life_that_it_has_and_no_other)
{
	struct pmv_attr attr = attr_of(PMV_MHP, 0x31);
	uint64_t key = pmv_key_pack(42, &attr);

	cr_assert_eq(pmv_key_start(LIFE), key >> LIFE_SHIFT);
	for (unsigned int life = 0; life <= UINT16_MAX; life++) {
		cr_assert_eq(pmv_key_fits(key, pmv_key_start((uint16_t) life)), life == LIFE);
		cr_assert(pmv_key_fits(42, pmv_key_start((uint16_t) life)));
		cr_assert(pmv_key_fits(key & ~TAG_MASK, pmv_key_start((uint16_t) life)));
	}
	cr_assert(pmv_key_fits(key, 0), "the peer's is unknown");
}

Test(key, unknown_persistence_domains_are_refused)
{
	for (uint64_t persist = PMV_WSP + 3; persist <= 7; persist++) {
		for (uint64_t flags = 0; flags < 1U << NUM_FLAGS; flags++)
			expect_refused(TAG | flags << FLAGS_SHIFT | persist << PERSIST_SHIFT | 42);
	}
}

/* Says by itself, from the layout, whether a key is one of ours. */
static bool is_ours(uint64_t key)
{
	return (key & TAG_MASK) == TAG && (key >> PERSIST_SHIFT & 7) <= PMV_WSP + 2;
}

/* Whatever is accepted packs to the same key again: no bit was ignored. */
static void try_key(uint64_t key, int *ours)
{
	struct pmv_attr attr;

	if (!is_ours(key)) {
		expect_refused(key);
		return;
	}
	++*ours;
	cr_assert(pmv_key_unpack(key, &attr), "0x%016" PRIx64, key);
	cr_assert_eq(pmv_key_pack((uint32_t) pmv_key_core(key), &attr), key, "0x%016" PRIx64, key);
}

Test(key, random_keys_are_ours_only_if_every_bit_is_understood)
{
	uint64_t state = 20240229;
	int ours = 0;

	for (int i = 0; i < FUZZ_ROUNDS; i++) {
		uint64_t random = dice_bits(&state);

		try_key(random, &ours);
		/* The tag alone would refuse nearly all. */
		try_key((random & ~TAG_MASK) | TAG, &ours);
	}
	cr_assert_gt(ours, FUZZ_ROUNDS / 2);
}

Test(key, one_flipped_bit_of_the_tag_is_noticed)
{
	uint64_t state = 7;

	for (int i = 0; i < 1000; i++) {
		struct pmv_attr attr =
			attr_of((enum pmv_persist)(dice_bits(&state) % (PMV_WSP + 1)),
				(unsigned) dice_bits(&state));
		uint64_t key = pmv_key_pack((uint32_t) dice_bits(&state), &attr);

		for (uint64_t left = TAG_MASK; left; left &= left - 1)
			expect_refused(key ^ (left & -left));
	}
}
