/* SPDX-License-Identifier: BSD-2-Clause */
/* hw_memory.c -- what is visible, what is on its way to the medium, and what is there */
#include "hw.h"

#include <stdlib.h>
#include <string.h>

#include "hw_impl.h"
#include "testcore/fid.h"

struct hw_memory *hw_memory(struct hw *hw, char *base, size_t len, enum hw_domain domain)
{
	struct hw_memory *memory = &hw->memories[hw->num_memories++];

	if (hw->num_memories > HW_MAX_MEMORIES || len % HW_LINE || (uintptr_t) base % HW_LINE)
		abort();
	*memory = (struct hw_memory){.base = base, .len = len, .domain = domain};
	if (domain != HW_DMP && domain != HW_PAGED)
		return memory;
	memory->durable = testcore_need(malloc(len));
	memcpy(memory->durable, base, len);
	memory->pending = testcore_need(calloc(1, len));
	memory->is_buffered = testcore_need(calloc(1, len / HW_LINE));
	memory->is_pending = testcore_need(calloc(len / HW_LINE, sizeof(uint64_t)));
	if (domain == HW_PAGED) {
		memory->placed = testcore_need(malloc(len));
		memcpy(memory->placed, base, len);
		memory->touched = testcore_need(calloc(1, (len + HW_PAGE - 1) / HW_PAGE));
	}
	if (domain == HW_PAGED && hw->rules.disk_cache) {
		memory->written = testcore_need(calloc(1, len));
		memory->is_written = testcore_need(calloc(1, (len + HW_PAGE - 1) / HW_PAGE));
	}
	return memory;
}

struct hw_memory *hw_memory_of(struct hw *hw, const char *addr)
{
	for (unsigned int i = 0; i < hw->num_memories; i++) {
		struct hw_memory *memory = &hw->memories[i];

		if (addr >= memory->base && addr < memory->base + memory->len)
			return memory;
	}
	return NULL;
}

void hw_changed(struct hw *hw, const void *addr, size_t len)
{
	if (hw->changed)
		hw->changed(addr, len);
}

/* Lines and pages */

static void write_back(struct hw *hw, struct hw_memory *memory, size_t offset, size_t len)
{
	memcpy(memory->durable + offset, memory->base + offset, len);
	hw_changed(hw, memory->durable + offset, len);
}

/* settle -- nothing of a line is on its way out any more */
static void settle(struct hw *hw, struct hw_memory *memory, size_t line)
{
	memory->is_pending[line] = 0;
	hw_changed(hw, &memory->is_pending[line], sizeof(uint64_t));
	memset(memory->pending + line * HW_LINE, 0, HW_LINE);
	hw_changed(hw, memory->pending + line * HW_LINE, HW_LINE);
}

void hw_evict(struct hw *hw, struct hw_memory *memory, size_t line)
{
	write_back(hw, memory, line * HW_LINE, HW_LINE);
	memory->is_buffered[line] = 0;
	hw_changed(hw, &memory->is_buffered[line], 1);
	settle(hw, memory, line);
}

void hw_drain_line(struct hw *hw, struct hw_memory *memory, size_t line)
{
	for (size_t i = line * HW_LINE; i < (line + 1) * HW_LINE; i++) {
		if (hw_is_pending(memory, i))
			memory->durable[i] = memory->pending[i];
	}
	hw_changed(hw, memory->durable + line * HW_LINE, HW_LINE);
	settle(hw, memory, line);
}

size_t hw_page_len(const struct hw_memory *memory, size_t page)
{
	size_t left = memory->len - page * HW_PAGE;

	return left < HW_PAGE ? left : HW_PAGE;
}

/* take_for_clean -- the kernel does, whatever is on the medium */
static void take_for_clean(struct hw *hw, struct hw_memory *memory, size_t page)
{
	size_t offset = page * HW_PAGE, len = hw_page_len(memory, page);

	memcpy(memory->placed + offset, memory->base + offset, len);
	hw_changed(hw, memory->placed + offset, len);
	memory->touched[page] = 0;
	hw_changed(hw, &memory->touched[page], 1);
}

/* leave_cache -- a page of a disk's cache is on the medium, or newer contents are */
static void leave_cache(struct hw *hw, struct hw_memory *memory, size_t page)
{
	if (!memory->is_written || !memory->is_written[page])
		return;
	memset(memory->written + page * HW_PAGE, 0, hw_page_len(memory, page));
	hw_changed(hw, memory->written + page * HW_PAGE, hw_page_len(memory, page));
	memory->is_written[page] = 0;
	hw_changed(hw, &memory->is_written[page], 1);
}

void hw_clean(struct hw *hw, struct hw_memory *memory, size_t page)
{
	leave_cache(hw, memory, page);
	write_back(hw, memory, page * HW_PAGE, hw_page_len(memory, page));
	take_for_clean(hw, memory, page);
}

/* What devices write */

void hw_place(struct hw *hw, char *to, const char *from, size_t len)
{
	struct hw_memory *memory = hw_memory_of(hw, to);

	memcpy(to, from, len);
	hw_changed(hw, to, len);
	if (!memory)
		return;
	if (memory->domain == HW_PAGED) {
		memcpy(memory->placed + (to - memory->base), from, len);
		hw_changed(hw, memory->placed + (to - memory->base), len);
	}
	if (memory->domain != HW_DMP || hw->rules.ddio)
		return;
	if (hw->rules.buffered) {
		memory->is_buffered[(to - memory->base) / HW_LINE] = 1;
		hw_changed(hw, &memory->is_buffered[(to - memory->base) / HW_LINE], 1);
		return;
	}
	memcpy(memory->durable + (to - memory->base), from, len);
	hw_changed(hw, memory->durable + (to - memory->base), len);
	/* What is on its way out merges with it. */
	for (size_t i = to - memory->base; i < (size_t) (to - memory->base) + len; i++) {
		if (hw_is_pending(memory, i))
			memory->pending[i] = memory->base[i];
	}
	hw_changed(hw, memory->pending + (to - memory->base), len);
}

bool hw_overlap(const char *a, size_t a_len, const char *b, size_t b_len)
{
	return a < b + b_len && b < a + a_len;
}

void hw_push_buffers(struct hw *hw, const char *addr, size_t len)
{
	for (unsigned int i = 0; i < hw->num_memories; i++) {
		struct hw_memory *memory = &hw->memories[i];

		for (size_t line = 0; memory->is_buffered && line < memory->len / HW_LINE; line++) {
			if (memory->is_buffered[line] &&
			    (!hw->rules.relaxed ||
			     hw_overlap(memory->base + line * HW_LINE, HW_LINE, addr, len)))
				hw_evict(hw, memory, line);
		}
	}
}

/* The target's processor */

/* set_out -- bytes leave the processor as they are, until the fence at the latest */
static void set_out(struct hw *hw, struct hw_memory *memory, size_t offset, size_t len)
{
	size_t first = offset / HW_LINE, last = (offset + len - 1) / HW_LINE;

	memcpy(memory->pending + offset, memory->base + offset, len);
	hw_changed(hw, memory->pending + offset, len);
	for (size_t i = offset; i < offset + len; i++)
		memory->is_pending[i / HW_LINE] |= UINT64_C(1) << i % HW_LINE;
	hw_changed(hw, &memory->is_pending[first], (last - first + 1) * sizeof(uint64_t));
}

void hw_flush(struct hw *hw, const void *addr, size_t len)
{
	struct hw_memory *memory = hw_memory_of(hw, addr);
	size_t offset, first, last;

	if (!memory || memory->domain != HW_DMP || !len)
		return;
	offset = (const char *) addr - memory->base;
	first = offset / HW_LINE;
	last = (offset + len - 1) / HW_LINE;
	set_out(hw, memory, first * HW_LINE, (last - first + 1) * HW_LINE);
}

void hw_drain(struct hw *hw)
{
	for (unsigned int i = 0; i < hw->num_memories; i++) {
		struct hw_memory *memory = &hw->memories[i];

		if (memory->domain != HW_DMP)
			continue;
		for (size_t line = 0; line < memory->len / HW_LINE; line++) {
			if (memory->is_pending[line])
				hw_drain_line(hw, memory, line);
		}
	}
}

/* pages_of -- the first page of a range of a file and the one behind its last; NULL: no file */
static struct hw_memory *pages_of(struct hw *hw, const char *addr, size_t len, size_t *first,
				  size_t *end)
{
	struct hw_memory *memory = hw_memory_of(hw, addr);

	if (!memory || memory->domain != HW_PAGED || !len)
		return NULL;
	*first = (addr - memory->base) / HW_PAGE;
	*end = (addr - memory->base + len - 1) / HW_PAGE + 1;
	return memory;
}

void hw_touch(struct hw *hw, void *addr, size_t len)
{
	size_t page, end;
	struct hw_memory *memory = pages_of(hw, addr, len, &page, &end);

	for (; memory && page < end; page++) {
		memory->touched[page] = 1;
		hw_changed(hw, &memory->touched[page], 1);
	}
}

/*
 * Past the caches: visible at once, and on its way until the fence; what else the
 * line holds is not.  A page gets dirty.
 */
void hw_store(struct hw *hw, void *to, const void *from, size_t len)
{
	struct hw_memory *memory = hw_memory_of(hw, to);

	memcpy(to, from, len);
	hw_changed(hw, to, len);
	if (memory && memory->domain == HW_DMP && len)
		set_out(hw, memory, (char *) to - memory->base, len);
	hw_touch(hw, to, len);
}

/* is_dirty -- the kernel knows it, because the page was touched or stored to */
static bool is_dirty(const struct hw_memory *memory, size_t page)
{
	size_t at = page * HW_PAGE;

	return memory->touched[page] ||
	       memcmp(memory->base + at, memory->placed + at, hw_page_len(memory, page));
}

/* empty_cache -- of all that it has of a file */
static void empty_cache(struct hw *hw, unsigned int file)
{
	for (unsigned int i = 0; i < hw->num_memories; i++) {
		struct hw_memory *memory = &hw->memories[i];

		if (!memory->is_written || memory->file != file)
			continue;
		for (size_t page = 0; page * HW_PAGE < memory->len; page++) {
			size_t at = page * HW_PAGE, len = hw_page_len(memory, page);

			if (!memory->is_written[page])
				continue;
			memcpy(memory->durable + at, memory->written + at, len);
			hw_changed(hw, memory->durable + at, len);
			leave_cache(hw, memory, page);
		}
	}
}

void hw_sync(struct hw *hw, void *addr, size_t len)
{
	size_t page, end;
	struct hw_memory *memory = pages_of(hw, addr, len, &page, &end);

	if (memory)
		empty_cache(hw, memory->file);
	for (; memory && page < end; page++) {
		if (is_dirty(memory, page))
			hw_clean(hw, memory, page);
	}
}

void hw_write_out(struct hw *hw, void *addr, size_t len)
{
	size_t page, end;
	struct hw_memory *memory = pages_of(hw, addr, len, &page, &end);

	for (; memory && page < end; page++) {
		size_t at = page * HW_PAGE;

		if (!is_dirty(memory, page))
			continue;
		memcpy(memory->written + at, memory->base + at, hw_page_len(memory, page));
		hw_changed(hw, memory->written + at, hw_page_len(memory, page));
		memory->is_written[page] = 1;
		hw_changed(hw, &memory->is_written[page], 1);
		take_for_clean(hw, memory, page);
	}
}

void hw_sync_failing(struct hw *hw, void *addr, size_t len)
{
	size_t page, end;
	struct hw_memory *memory = pages_of(hw, addr, len, &page, &end);

	for (; memory && page < end; page++)
		take_for_clean(hw, memory, page);
}
