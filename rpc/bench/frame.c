/* SPDX-License-Identifier: BSD-2-Clause */
/* frame.c -- frames, and where they lie; design_link.h says how they are used */
#include <string.h>

#include "design.h"

static size_t round_up(size_t len, size_t to)
{
	return (len + to - 1) / to * to;
}

void layout_make(struct layout *layout, const struct settings *settings)
{
	const size_t head = sizeof(struct frame) + sizeof(uint64_t);
	size_t rings;

	layout->slots = settings->in_flight;
	/* FaSST posts them by half of them. */
	layout->receives = settings->design->messages ? 2 * layout->slots : layout->slots;
	rings = layout->receives;
	layout->request_len =
		round_up(head + settings->batch * item_len(settings->request_max), 64);
	layout->reply_len = round_up(head + settings->batch * item_len(settings->reply_max), 64);
	layout->replies = rings * layout->request_len;
	layout->flags = layout->replies + rings * layout->reply_len;
	layout->area_len = round_up(layout->flags + layout->slots + sizeof(uint64_t), 4096);
}

void frame_seal(struct frame *frame, uint32_t number)
{
	uint64_t end = number;

	memcpy((char *) frame + frame->len, &end, sizeof(end));
	/* Last: RFP's clients look at it at any time. */
	__atomic_store_n(&frame->number, number, __ATOMIC_RELEASE);
}

bool link_arrived(const struct frame *frame, uint32_t number, size_t max)
{
	const uint64_t *end;
	uint32_t len;

	if (__atomic_load_n(&frame->number, __ATOMIC_ACQUIRE) != number)
		return false;
	len = __atomic_load_n(&frame->len, __ATOMIC_ACQUIRE);
	if (len < sizeof(*frame) || len % sizeof(*end) || len + sizeof(*end) > max)
		return false;
	end = (const uint64_t *) ((const char *) frame + len);
	return __atomic_load_n(end, __ATOMIC_ACQUIRE) == number;
}

struct item *frame_next(const struct frame *frame, const struct item *item)
{
	const char *end = (const char *) frame + frame->len;
	const char *next =
		item ? (const char *) item + item_len(item->len) : (const char *) (frame + 1);
	const struct item *found = (const struct item *) next;

	if (next + sizeof(*found) > end || item_len(found->len) > (size_t) (end - next))
		return NULL;
	return (struct item *) (uintptr_t) found;
}

const struct design *design_find(const char *name)
{
	static const struct design *const all[] = {&design_darpc,   &design_fasst, &design_octopus,
						   &design_farm,    &design_l5,    &design_rfp,
						   &design_scalerpc};

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		if (!strcmp(all[i]->name, name))
			return all[i];
	}
	return NULL;
}
