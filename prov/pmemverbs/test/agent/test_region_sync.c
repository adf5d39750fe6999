/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_region_sync.c -- what is written side by side, and flushed once
 *
 * The linker replaces what file.c says of files: `files` of a region are a number here.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <criterion/criterion.h>
#include <rdma/fi_errno.h>

#include "agent/flush.h"
#include "agent/region.h"

#define PAGE 4096
#define REGIONS 4

/* Of regions with such a number one sync does for all, if it is of the same hundred. */
static const struct pmv_files *number_of_file(uintptr_t number)
{
	return (const struct pmv_files *) number;
}

#define OTHER_FS number_of_file(7)
#define NOT_OURS number_of_file(0)

bool __wrap_pmv_files_find(const struct pmv_files *files, const void *addr, size_t *len,
			   struct pmv_file_part *part);
bool __wrap_pmv_files_cover(const struct pmv_files *files);
enum pmv_file_state __wrap_pmv_files_state(const struct pmv_files *files);
void *__wrap_pmv_files_map(const struct pmv_files *files, const void *addr, size_t *len);
uint64_t __wrap_pmv_files_disk(const struct pmv_files *files);

static char memory[REGIONS][2 * PAGE];
static struct pmv_regions regions;
static struct pmv_region *made[REGIONS];

static size_t piece_at(const void *addr, size_t *len)
{
	size_t at = (size_t) ((const char *) addr - memory[0]);

	/* As if each page were a mapping of its own. */
	if (*len > PAGE - at % PAGE)
		*len = PAGE - at % PAGE;
	return at;
}

bool __wrap_pmv_files_find(const struct pmv_files *files, const void *addr, size_t *len,
			   struct pmv_file_part *part)
{
	size_t at = piece_at(addr, len);

	*part = (struct pmv_file_part){
		.dev = 1, .ino = (uintptr_t) files / 100, .fd = 5, .offset = at};
	return part->ino;
}

bool __wrap_pmv_files_cover(const struct pmv_files *files)
{
	return files != NOT_OURS;
}

enum pmv_file_state __wrap_pmv_files_state(const struct pmv_files *files)
{
	(void) files;
	return PMV_FILE_HERE;
}

void *__wrap_pmv_files_map(const struct pmv_files *files, const void *addr, size_t *len)
{
	(void) files;
	piece_at(addr, len);
	return (void *) addr;
}

uint64_t __wrap_pmv_files_disk(const struct pmv_files *files)
{
	(void) files;
	return 1;
}

/* What was called: a letter and the page's number. */
static char calls[200];
static char fails[24]; /* the call that does */
static int error = -EIO;
static bool keeps_out;

static int note(char what, size_t at)
{
	char call[24];

	snprintf(call, sizeof(call), "%c%zu ", what, at / PAGE);
	strcat(calls, call);
	return strcmp(call, fails) ? 0 : error;
}

/* check_locks -- nobody else may sync any of these regions now: they would not hear of an error */
static void check_locks(void)
{
	for (int i = 0; i < 2 && keeps_out; i++)
		cr_expect_eq(pthread_mutex_trylock(&made[i]->syncing), EBUSY, "%d", i);
}

static int note_sync(void *addr, size_t len)
{
	(void) len;
	check_locks();
	return note('s', (size_t) ((char *) addr - memory[0]));
}

static int note_start(int fd, uint64_t offset, size_t len)
{
	check_locks();
	cr_expect_eq(fd, 5);
	cr_expect_leq(len, PAGE);
	return note('w', offset);
}

static int note_await(int fd, uint64_t offset, size_t len)
{
	check_locks();
	cr_expect_eq(fd, 5);
	cr_expect_leq(len, PAGE);
	return note('a', offset);
}

static const struct pmv_flush_ops recorder = {
	.sync = note_sync, .start = note_start, .await = note_await};

static void add(int index, const struct pmv_files *files)
{
	struct iovec iov = {memory[index], sizeof(memory[index])};

	made[index] = pmv_region_add(&regions, &(struct pmv_region_attr){
						       .key = (uint32_t) index + 1,
						       .persist = PMV_PAGE,
						       .use = PMV_REGION_REMOTE,
						       .iov = &iov,
						       .iov_count = 1,
						       .files = files,
					       });
	cr_assert_not_null(made[index]);
}

static void setup(void)
{
	pmv_regions_init(&regions);
	pmv_flush = &recorder;
}

TestSuite(region_sync, .init = setup);

/* sync_first -- a byte in each of so many regions, the last one first */
static void sync_first(int count)
{
	struct pmv_sync_range ranges[REGIONS];

	for (int i = 0; i < count; i++)
		ranges[i] = (struct pmv_sync_range){made[count - 1 - i], 8, 1};
	pmv_regions_sync(ranges, (size_t) count);
}

Test(region_sync, two_regions_of_a_file_are_flushed_once)
{
	add(0, number_of_file(101));
	add(1, number_of_file(102));
	keeps_out = true;
	sync_first(2);
	cr_expect_str_eq(calls, "w0 w2 a0 a2 s0 ");
	cr_expect_eq(pthread_mutex_trylock(&made[0]->syncing), 0);
	cr_expect_eq(pthread_mutex_trylock(&made[1]->syncing), 0);
}

Test(region_sync, ranges_of_a_region_are_flushed_once)
{
	add(0, number_of_file(101));
	pmv_regions_sync((struct pmv_sync_range[]){{made[0], 0, 8}, {made[0], PAGE, 8}}, 2);
	cr_expect_str_eq(calls, "w0 w1 a0 a1 s0 ");
}

Test(region_sync, two_files_are_flushed_each)
{
	add(0, number_of_file(101));
	add(1, number_of_file(202));
	add(2, number_of_file(103));
	sync_first(3);
	cr_expect_str_eq(calls, "w0 w2 w4 a0 a2 a4 s0 s2 ");
}

Test(region_sync, one_range_is_only_synced)
{
	add(0, number_of_file(101));
	pmv_regions_sync(&(struct pmv_sync_range){made[0], PAGE - 4, 8}, 1);
	cr_expect_str_eq(calls, "s0 s1 ");
}

Test(region_sync, other_file_systems_may_flush_only_what_they_are_asked_for)
{
	add(0, OTHER_FS);
	add(1, OTHER_FS);
	add(2, NOT_OURS);
	sync_first(3);
	cr_expect_str_eq(calls, "s0 s2 s4 ");
}

Test(region_sync, each_is_synced_where_the_kernel_had_no_memory_to_start)
{
	add(0, number_of_file(101));
	add(1, number_of_file(102));
	strcpy(fails, "w0 ");
	error = -ENOMEM;
	sync_first(2);
	cr_expect_str_eq(calls, "w0 w2 s0 s2 ");
	cr_expect_not(pmv_region_is_lost(made[0]));
}

/* The kernel may have dropped them, and say nothing of that later. */
Test(region_sync, pages_that_can_not_be_written_are_lost)
{
	static const char *const begun[] = {"w0 ", "a0 "};

	for (size_t i = 0; i < 2; i++) {
		pmv_regions_init(&regions);
		add(0, number_of_file(101));
		add(1, number_of_file(102));
		add(2, number_of_file(203));
		strcpy(fails, begun[i]);
		calls[0] = '\0';
		sync_first(3);
		cr_expect_str_eq(calls, i ? "w0 w2 w4 a0 a2 a4 s4 " : "w0 w2 w4 a2 a4 s4 ");
		cr_expect(pmv_region_is_lost(made[0]));
		cr_expect(pmv_region_is_lost(made[1]), "they may have been its pages, too");
		cr_expect_not(pmv_region_is_lost(made[2]));
		pmv_regions_destroy(&regions);
	}
	pmv_regions_init(&regions);
}

Test(region_sync, flush_that_fails_loses_all_of_its_file)
{
	add(0, number_of_file(101));
	add(1, number_of_file(102));
	add(2, number_of_file(203));
	strcpy(fails, "s0 ");
	sync_first(3);
	cr_expect(pmv_region_is_lost(made[0]));
	cr_expect(pmv_region_is_lost(made[1]), "nothing else has flushed it");
	cr_expect_not(pmv_region_is_lost(made[2]));
}

Test(region_sync, what_is_lost_is_not_synced)
{
	add(0, number_of_file(101));
	add(1, number_of_file(102));
	atomic_store(&made[0]->lost, PMV_LOST_SYNC);
	sync_first(2);
	cr_expect_str_eq(calls, "w2 a2 s2 ");
}
