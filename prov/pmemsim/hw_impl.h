/* SPDX-License-Identifier: BSD-2-Clause */
/* hw_impl.h -- what the files of the model of the hardware know of each other */
#ifndef PMEMSIM_HW_IMPL_H
#define PMEMSIM_HW_IMPL_H

#include "hw.h"

static inline bool hw_is_posted(const struct hw_request *request)
{
	return request->kind == HW_WRITE || request->kind == HW_SEND;
}

/* hw_is_extended -- of the answer only the target's own slots know, and a fence does not wait */
static inline bool hw_is_extended(const struct hw_request *request)
{
	return request->kind == HW_FLUSH || request->kind == HW_ATOMIC_WRITE;
}

/* hw_is_pending -- a byte is on its way out of the processor */
static inline bool hw_is_pending(const struct hw_memory *memory, size_t offset)
{
	return memory->is_pending[offset / HW_LINE] >> offset % HW_LINE & 1;
}

/* hw.c */
void hw_request_free(struct hw_request *request);
/* hw_receives_changed -- before one goes, after one has come */
void hw_receives_changed(struct hw *hw, struct hw_port *port);
/* hw_retire -- forget requests that are done at both ends */
void hw_retire(struct hw *hw, struct hw_port *port);
void hw_retire_all(struct hw *hw);
void hw_get_piece(const struct hw *hw, const struct hw_request *request, unsigned int piece,
		  size_t *offset, size_t *len);
/* hw_set_target -- where it goes; all of it is still to become visible there */
void hw_set_target(const struct hw *hw, struct hw_request *request, char *target, size_t len);
/* hw_enter -- the I/O controller has a request; hw_land -- a piece of it becomes visible */
void hw_enter(struct hw *hw, struct hw_request *request, unsigned int device);
void hw_land(struct hw *hw, struct hw_request *request, unsigned int piece);
/*
 * hw_push -- a PCIe read of that range returns: what the device wrote before it is
 * visible; without an order only as far as it overlaps
 */
void hw_push(struct hw *hw, unsigned int device, const char *addr, size_t len);

/* hw_memory.c */
/* hw_changed -- the caller's step changes that; an explorer looks nowhere else */
void hw_changed(struct hw *hw, const void *addr, size_t len);
/* hw_place -- bytes become visible, and in the memory controller if they bypass the cache */
void hw_place(struct hw *hw, char *to, const char *from, size_t len);
bool hw_overlap(const char *a, size_t a_len, const char *b, size_t b_len);
/* hw_push_buffers -- to the memory controller; without an order only what overlaps */
void hw_push_buffers(struct hw *hw, const char *addr, size_t len);
void hw_evict(struct hw *hw, struct hw_memory *memory, size_t line);
/* hw_drain_line -- no more of a line than was on its way out, as it was when it set out */
void hw_drain_line(struct hw *hw, struct hw_memory *memory, size_t line);
/* hw_page_len -- the last page of a region may be cut short */
size_t hw_page_len(const struct hw_memory *memory, size_t page);
/* hw_clean -- the page is on the medium, and the kernel knows of nothing else to do */
void hw_clean(struct hw *hw, struct hw_memory *memory, size_t page);

#endif /* PMEMSIM_HW_IMPL_H */
