/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cases_hostile.c -- a peer that writes to the agent's mailbox what no pmemverbs would; hostile.h
 * is the scene
 */
#include <dirent.h>
#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory/key.h"
#include "hostile.h"
#include "../common/stats.h"

/* Anything anywhere in the block, also in parts of slots */
static int write_noise(struct scene *scene)
{
	struct raw *raw = &scene->raw;
	uint64_t state = scene->fx->opts->seed;
	size_t at, len;
	int i;

	for (i = 0; i < 2000; i++) {
		state = state * 6364136223846793005ULL + 1442695040888963407ULL;
		len = 1 + (state >> 33) % (i % 10 ? 600 : PMV_BLOCK_SIZE - 1);
		at = (state >> 17) % (PMV_BLOCK_SIZE - len + 1);
		pattern_fill(raw->block + PMV_BLOCK_SIZE + at, len, state, at);
		if (raw_write(raw, at, len) || (i % 50 == 0 && raw_settle(raw)))
			return -1;
	}
	return raw_settle(raw) || raw_stays_silent(raw, "noise") ||
	       scene_flush_works(scene, "noise");
}

/* Noise with the number that is expected, so that only the check is wrong */
static int write_numbered_noise(struct scene *scene)
{
	struct raw *raw = &scene->raw;
	uint8_t bytes[PMV_MESSAGE_SIZE];
	uint64_t number = htole64(raw->sent + 1);
	uint16_t len;
	int i;

	for (i = 0; i < 300; i++) {
		pattern_fill(bytes, sizeof(bytes), i, 0);
		memcpy(bytes, &number, sizeof(number));
		/* any length, right and wrong ones */
		len = htole16((uint16_t) (i * 3));
		memcpy(bytes + 16, &len, sizeof(len));
		if (raw_put(raw, raw->sent + 1, bytes, sizeof(bytes)))
			return -1;
	}
	return raw_stays_silent(raw, "noise with a number") ||
	       scene_flush_works(scene, "numbered noise");
}

static int noise(struct scene *scene)
{
	return write_noise(scene) || write_numbered_noise(scene) ? -1 : 0;
}

static int hostile_noise(struct fx *fx)
{
	return hostile(fx, noise);
}

/* In a message of 56 bytes with one range */
static const struct edit edits[] = {
	{"no range, but the bytes of one", 20, 1, 0},
	{"2 ranges, and the bytes of one", 20, 1, 2},
	{"20 ranges, and the bytes of one", 20, 1, 20},
	{"21 ranges", 20, 1, 21},
	{"255 ranges", 20, 1, 255},
	{"a store without data", 21, 1, 2},
	{"no content, but the bytes of a flush", 18, 1, 0},
	{"an unknown content", 18, 1, 2},
	{"more, and a notice", 19, 3, 0x010180},
	{"more, and an order", 19, 3, 0x400180},
	{"an event without a place", 21, 1, 8},
	{"an unknown event", 21, 1, 0x38},
	{"a flag that nobody knows", 21, 1, 128},
	{"bytes of a flush that have to be zero", 22, 1, 1},
	{"messages and a notice", 21, 1, 5},
	{"messages and a store", 21, 1, 6},
	{"all flags", 21, 1, 255},
	{"bytes of a range that have to be zero", 52, 4, 0x80000000},
	{"length 0", 16, 2, 0},
	{"length 15", 16, 2, 15},
	{"length 19", 16, 2, 19},
	{"length 20", 16, 2, 20},
	{"length 31", 16, 2, 31},
	{"length 32", 16, 2, 32},
	{"length 55", 16, 2, 55},
	{"length 57", 16, 2, 57},
	{"length 512", 16, 2, 512},
	{"length 513", 16, 2, 513},
	{"length 65535", 16, 2, 65535},
};

/*
 * try_edit -- sealed well, it ends the connection, or with a length that can't be it is
 * no message; then the right one is taken, in the second case under the same number
 */
static int try_edit(struct scene *scene, const struct edit *edit)
{
	struct pmv_flush_message message = {.count = 1,
					    .ranges = {scene_range(scene->open, 0, 64)}};
	struct raw *raw = &scene->raw;
	uint8_t bytes[PMV_MESSAGE_SIZE];
	uint64_t value = htole64(edit->value);
	size_t len = edit->size == 2 ? edit->value : 56;
	int ret;

	memset(bytes, 0, sizeof(bytes));
	message.envelope.number = raw->sent + 1;
	message_encode(bytes, &message, &raw->message_out);
	memcpy(bytes + edit->at, &value, edit->size);
	raw_seal(raw, bytes, len < sizeof(bytes) ? len : sizeof(bytes));
	if (raw_put(raw, message.envelope.number, bytes, sizeof(bytes)))
		return -1;
	if (len < sizeof(struct pmv_envelope) || len > PMV_MESSAGE_SIZE)
		ret = raw_stays_silent(raw, edit->what);
	else
		ret = raw_answers(raw, edit->what, ++raw->sent, PMV_FAULT_MESSAGE) ||
		      scene_is_ended(scene, edit->what);
	return ret || scene_flush_works(scene, edit->what) ? -1 : 0;
}

/* Numbers of messages that were never sent; some of them were, for all that the agent knows */
static int message_numbers(struct scene *scene)
{
	static const struct {
		uint64_t number;
		enum pmv_fault fault;
	} tries[] = {
		{UINT64_MAX, PMV_FAULT_MESSAGE},
		{UINT64_MAX - 1, PMV_FAULT_MESSAGE},
		{1000000, PMV_FAULT_MESSAGE},
		{0, PMV_FAULT_NONE},
		{5, PMV_FAULT_NONE},
		{4, PMV_FAULT_MESSAGE},
		{5, PMV_FAULT_NONE},
		{0, PMV_FAULT_MESSAGE},
		{1000000, PMV_FAULT_MESSAGE},
	};
	struct raw *raw = &scene->raw;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(tries); i++) {
		struct pmv_flush_message message = {.messages = true, .data = tries[i].number};

		if (raw_send(raw, &message) ||
		    raw_answers(raw, "a number of messages", raw->sent, tries[i].fault) ||
		    scene_flush_works(scene, "a number of messages"))
			return -1;
	}
	return 0;
}

static int hostile_messages(struct fx *fx)
{
	return hostile(fx, message_numbers);
}

/* A store whose data are fewer or more than its range says, or whose range is huge */
static int try_store_lengths(struct scene *scene)
{
	static const uint64_t lens[] = {0, 63, 65, 4096, UINT32_MAX, UINT64_MAX, UINT64_MAX - 63};
	struct raw *raw = &scene->raw;
	uint8_t bytes[PMV_MESSAGE_SIZE];
	struct pmv_flush_message message;
	uint64_t wrong;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(lens); i++) {
		message = (struct pmv_flush_message){
			.envelope.number = ++raw->sent,
			.count = 1,
			.ranges = {scene_range(scene->open, 0, 64)},
		};
		memset(bytes, 0xbb, sizeof(bytes));
		message_carry(&message, bytes);
		message_encode(bytes, &message, &raw->message_out);
		wrong = htole64(lens[i]);
		memcpy(bytes + 40, &wrong, sizeof(wrong));
		raw_seal(raw, bytes, 120);
		if (raw_put(raw, message.envelope.number, bytes, 120) ||
		    raw_answers(raw, "a store of another length", message.envelope.number,
				PMV_FAULT_MESSAGE) ||
		    scene_is_ended(scene, "a store of another length"))
			return -1;
	}
	return 0;
}

static int nonsense(struct scene *scene)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(edits); i++) {
		if (try_edit(scene, &edits[i]))
			return -1;
	}
	return try_store_lengths(scene) || scene_flush_works(scene, "nonsense") ? -1 : 0;
}

static int hostile_nonsense(struct fx *fx)
{
	return hostile(fx, nonsense);
}

/* try_range -- alone and among good ranges, to be flushed and to be stored to */
static int try_range(struct scene *scene, const char *what, struct pmv_range range)
{
	struct pmv_flush_message message = {.count = 1, .ranges = {range}};
	struct raw *raw = &scene->raw;
	uint8_t data[64];

	memset(data, 0xbb, sizeof(data));
	if (raw_send(raw, &message) || raw_answers(raw, what, raw->sent, PMV_FAULT_ACCESS))
		return -1;
	message.count = 3;
	message.ranges[0] = scene_range(scene->open, 0, 100);
	message.ranges[1] = range;
	message.ranges[2] = scene_range(scene->open, 100, 64);
	if (raw_send(raw, &message) || raw_answers(raw, what, raw->sent, PMV_FAULT_ACCESS))
		return -1;
	/* what a store is behind is not durable: no byte of it */
	message_carry(&message, data);
	if (raw_send(raw, &message) || raw_answers(raw, what, raw->sent, PMV_FAULT_ACCESS))
		return -1;
	if (range.len > sizeof(data))
		return 0;
	message.count = 2;
	message_carry(&message, data);
	return raw_send(raw, &message) || raw_answers(raw, what, raw->sent, PMV_FAULT_ACCESS) ? -1
											      : 0;
}

static int ranges(struct scene *scene)
{
	struct remote *open = scene->open;
	uint32_t key = (uint32_t) pmv_key_core(open->key);
	const struct {
		const char *what;
		struct pmv_range range;
	} bad[] = {
		{"a range behind the end", scene_range(open, open->len, 1)},
		{"a range that ends behind the end", scene_range(open, open->len - 63, 64)},
		{"a region and a byte more", scene_range(open, 0, open->len + 1)},
		{"an empty range behind the end", scene_range(open, open->len + 1, 0)},
		{"a range that wraps around", scene_range(open, 8, UINT64_MAX - 4)},
		{"a range of all memory", scene_range(open, 0, UINT64_MAX)},
		{"a range in front of the region", scene_range(open, -1ULL, 1)},
		{"a range that begins in front of it", scene_range(open, -8ULL, 16)},
		{"a range that ends at the end of all", {UINT64_MAX, 1, key}},
		{"a range across the end of all", {UINT64_MAX - 3, 60, key}},
		{"an unknown key", {open->addr, 64, key ^ 0x5a5a00}},
		{"key 0xffffffff", {open->addr, 64, UINT32_MAX}},
		{"memory not for writing", scene_range(scene->readonly, 0, 64)},
		{"memory of another purpose", scene_range(scene->secret, 0, 64)},
		{"the mailbox itself", {scene->raw.theirs.addr, 64, scene->raw.theirs.key}},
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		if (try_range(scene, bad[i].what, bad[i].range))
			return -1;
	}
	return scene_flush_works(scene, "bad ranges") || scene_is_untouched(scene) ? -1 : 0;
}

static int hostile_ranges(struct fx *fx)
{
	return hostile(fx, ranges);
}

/* store -- 64 bytes of a pattern, to where they may be stored */
static int store(struct scene *scene, size_t offset, uint64_t seed)
{
	struct pmv_flush_message message = {
		.count = 1,
		.ranges = {scene_range(scene->open, offset, 64)},
	};
	uint8_t data[64];

	pattern_fill(data, sizeof(data), seed, offset);
	message_carry(&message, data);
	remote_expect(scene->open, offset, 64, seed);
	return raw_send(&scene->raw, &message) ||
			       raw_answers(&scene->raw, "a store", scene->raw.sent, PMV_FAULT_NONE)
		       ? -1
		       : 0;
}

/* again -- the slot of that number once more, with what was sent last in it */
static int again(struct raw *raw, uint64_t number, const char *what)
{
	return raw_write(raw, number % PMV_SLOTS * PMV_MESSAGE_SIZE, PMV_MESSAGE_SIZE) ||
			       raw_settle(raw) || raw_stays_silent(raw, what)
		       ? -1
		       : 0;
}

/* try_numbers -- none of them is the next */
static int try_numbers(struct scene *scene)
{
	struct raw *raw = &scene->raw;
	const uint64_t numbers[] = {
		0,
		raw->sent - 1,
		raw->sent,
		raw->sent + 2,
		raw->sent + 63,
		raw->sent + 64,
		raw->sent + 65,
		raw->sent + 1 + (1ULL << 32),
		UINT64_MAX,
	};
	struct pmv_flush_message message = {.count = 1};
	uint8_t bytes[PMV_MESSAGE_SIZE], data[64];
	struct pmv_seal other;
	size_t i, len;

	memset(data, 0xbb, sizeof(data));
	message.ranges[0] = scene_range(scene->open, 8192, sizeof(data));
	message_carry(&message, data);
	for (i = 0; i < ARRAY_SIZE(numbers); i++) {
		message.envelope.number = numbers[i];
		len = message_encode(bytes, &message, &raw->message_out);
		/* in its own slot, if it has had its turn, and in the one that the agent looks into
		 */
		if ((numbers[i] <= raw->sent && raw_put(raw, numbers[i], bytes, len)) ||
		    raw_put(raw, raw->sent + 1, bytes, len) ||
		    raw_stays_silent(raw, "a number that is not the next"))
			return -1;
	}
	/* sealed by somebody who does not know all of the secret */
	other = pmv_seal(raw->secret, raw->theirs.secret ^ 1, PMV_SEALED_MESSAGE);
	message.envelope.number = raw->sent + 1;
	len = message_encode(bytes, &message, &other);
	return raw_put(raw, message.envelope.number, bytes, len) ||
			       raw_stays_silent(raw, "another secret")
		       ? -1
		       : 0;
}

/* out_of_turn -- the next but one comes first, and has to wait for its turn */
static int out_of_turn(struct scene *scene)
{
	struct pmv_flush_message message = {.count = 1,
					    .ranges = {scene_range(scene->open, 0, 64)}};
	struct raw *raw = &scene->raw;
	uint8_t bytes[PMV_MESSAGE_SIZE];
	struct pmv_ack ack = {0};
	uint64_t number;

	for (number = raw->sent + 2; number > raw->sent; number--) {
		message.envelope.number = number;
		if (raw_put(raw, number, bytes,
			    message_encode(bytes, &message, &raw->message_out)) ||
		    (number > raw->sent + 1 && raw_stays_silent(raw, "a message out of turn")))
			return -1;
	}
	raw->sent += 2;
	/* one acknowledgement for both, or one for each */
	while (ack.done < raw->sent && raw_take_ack(raw, RAW_ANSWER_MS, &ack)) {
		if (expect(scene->fx, !ack.fault, "out of turn: fault %d", ack.fault))
			return -1;
	}
	return expect(scene->fx, ack.done == raw->sent, "messages out of turn are not served");
}

static int replays(struct scene *scene)
{
	struct raw *raw = &scene->raw;
	uint64_t first, seed = 77;
	int i;

	for (i = 0; i < 3; i++) {
		if (store(scene, 512, seed++))
			return -1;
		first = raw->sent;
		/* newer data, which the older message must not undo */
		if (store(scene, 512, seed++) || again(raw, first, "a replay") ||
		    again(raw, raw->sent, "a replay of the last one") || scene_is_untouched(scene))
			return -1;
	}
	/* the ring has gone round: the slot is that of the next one */
	while (raw->sent % PMV_SLOTS != (first + PMV_SLOTS - 1) % PMV_SLOTS) {
		if (store(scene, 1024 + raw->sent % PMV_SLOTS * 64, seed++))
			return -1;
	}
	return again(raw, first, "a replay in the next one's slot") || try_numbers(scene) ||
			       scene_flush_works(scene, "wrong numbers") || out_of_turn(scene) ||
			       scene_is_untouched(scene)
		       ? -1
		       : 0;
}

static int hostile_replays(struct fx *fx)
{
	return hostile(fx, replays);
}

/*
 * Ten thousand messages, whether they are acknowledged or not.  Those that are
 * overwritten in time are lost, and the peer has only itself to blame.
 */
static int flood(struct scene *scene)
{
	struct raw *raw = &scene->raw;
	struct pmv_flush_message message = {.count = PMV_MAX_RANGES};
	unsigned int i;
	size_t len;

	for (i = 0; i < PMV_MAX_RANGES; i++)
		message.ranges[i] = scene_range(scene->open, i * 3000, 3000);
	for (i = 0; i < 10000; i++) {
		message.envelope.number = ++raw->sent;
		/* now and then one that is refused, and one with a notice */
		message.ranges[3].key = i % 7 ? message.ranges[2].key : 0x5a5a00;
		message.notify = i % 3 == 0;
		len = message_encode(raw_slot(raw, message.envelope.number), &message,
				     &raw->message_out);
		if (raw_write(raw, message.envelope.number % PMV_SLOTS * PMV_MESSAGE_SIZE, len))
			return -1;
	}
	return raw_settle(raw) || scene_is_untouched(scene) ? -1 : 0;
}

static int hostile_flood(struct fx *fx)
{
	return hostile(fx, flood);
}

/* Acknowledged messages that each give a notice, to an application that takes none */
static int notice_flood(struct scene *scene)
{
	struct control_msg idle = {.command = CTL_IDLE, .arg = {3000}};
	struct pmv_flush_message message = {.count = 1, .notify = true};
	struct raw *raw = &scene->raw;
	uint64_t end = now_ns() + 2000000000ULL;
	unsigned int before = scene->steady.commits;
	struct pmv_ack ack;
	int ret = 0;

	message.ranges[0] = scene_range(scene->open, 0, 64);
	if (target_begin(raw->target, &idle, NULL))
		return -1;
	while (!ret && now_ns() < end && raw->sent < 20000) {
		/* one slot at a time: a full ring of requests that the agent may leave there */
		ret = raw_send(raw, &message);
		if (!ret && !raw_take_ack(raw, 300, &ack))
			break;
	}
	if (target_finish(raw->target, &idle, NULL, 0) || ret)
		return -1;
	return expect(scene->fx, scene->steady.commits > before,
		      "the other connection has waited for the one that floods");
}

static int hostile_notices(struct fx *fx)
{
	return hostile(fx, notice_flood);
}

/* sleeps_of_agent -- how often the target's thread slept; -1: it is not on this machine */
static long sleeps_of_agent(pid_t pid)
{
	char path[300], line[128], name[32] = "";
	struct dirent *entry;
	long sleeps = -1, count;
	DIR *tasks;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/task", (int) pid);
	tasks = opendir(path);
	while (tasks && sleeps < 0 && (entry = readdir(tasks))) {
		snprintf(path, sizeof(path), "/proc/%d/task/%s/status", (int) pid, entry->d_name);
		file = fopen(path, "r");
		while (file && fgets(line, sizeof(line), file)) {
			if (sscanf(line, "Name: %31s", name) == 1)
				continue;
			if (sscanf(line, "voluntary_ctxt_switches: %ld", &count) == 1 &&
			    !strcmp(name, "pmemverbs"))
				sleeps = count;
		}
		if (file)
			fclose(file);
	}
	if (tasks)
		closedir(tasks);
	return sleeps;
}

/* The number that is expected and nothing else: it may be a request that has arrived in part */
static int part_of_request(struct scene *scene)
{
	struct raw *raw = &scene->raw;
	uint64_t number = htole64(raw->sent + 1);
	long before;

	if (raw_put(raw, raw->sent + 1, (uint8_t *) &number, sizeof(number)))
		return -1;
	/* Whoever takes it for work never sleeps again. */
	before = sleeps_of_agent(raw->target->pid);
	while (before >= 0 && sleeps_of_agent(raw->target->pid) < before + 50) {
		if (is_late(scene->fx))
			return failed(scene->fx, "the agent does not sleep any more");
		pause_ms(1);
	}
	return scene_flush_works(scene, "a part of a request");
}

static int hostile_part(struct fx *fx)
{
	return hostile(fx, part_of_request);
}

/* Much at once, again and again; meanwhile somebody connects and goes away */
static int greed(struct scene *scene)
{
	struct raw *raw = &scene->raw;
	struct pmv_flush_message message = {.count = PMV_MAX_RANGES};
	struct remote *big = served_region(scene->steady.link, 16 << 20);
	unsigned int i;
	struct pmv_ack ack = {0};

	if (!big)
		return -1;
	for (i = 0; i < PMV_MAX_RANGES; i++)
		message.ranges[i] = scene_range(big, 0, big->len);
	for (i = 0; i < 4; i++) {
		if (raw_send(raw, &message))
			return -1;
	}
	if (!served_link(scene->fx, NULL))
		return -1;
	while (ack.done < raw->sent && raw_take_ack(raw, 6 * RAW_ANSWER_MS, &ack)) {
		if (expect(scene->fx, !ack.fault, "greed: fault %d", ack.fault))
			return -1;
	}
	return expect(scene->fx, ack.done == raw->sent, "large requests are not served") ||
			       scene_flush_works(scene, "greed")
		       ? -1
		       : 0;
}

static int hostile_greed(struct fx *fx)
{
	return hostile(fx, greed);
}

const struct test_case hostile_cases[] = {
	{"hostile_noise", hostile_noise},
	{"hostile_nonsense", hostile_nonsense},
	{"hostile_ranges", hostile_ranges},
	{"hostile_replays", hostile_replays},
	{"hostile_flood", hostile_flood},
	{"hostile_notices", hostile_notices},
	{"hostile_hellos", hostile_hellos},
	{"hostile_messages", hostile_messages},
	{"hostile_part", hostile_part},
	{"hostile_greed", hostile_greed},
	{NULL, NULL},
};
