/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ring.h -- the entries of a client's log
 *
 * The ring is a sequence of bytes that wraps around.  A position counts bytes since the
 * identity was new and never wraps: position % size is the place.  An entry begins at a
 * multiple of 64:
 *
 *   8 bytes   the word: length of the body (24 bits, low), checksum (40 bits)
 *   4         op           } the body
 *   4         waiting: how many calls before it have no reply yet, as its client knows }
 *   ...       argument     }
 *   ...       up to the next multiple of 64: anything
 *
 * Entries that are sent, as messages, go into cells: a ring is as many of them as fit, all of
 * one size, and each entry has one, whatever its length.  It begins with it and does not
 * wrap.  Messages are received in the order of the cells.
 *
 * The checksum is a hash of the body, its length, the call's sequence and position, and the
 * ring's key.  So the word makes exactly one call valid, at one place: what is torn, what an
 * earlier lap has left, and what was written on an earlier connection (the key is
 * new for each) is not valid, but for one chance in 2^40.
 *
 * Pure functions.  The peer may write to the ring at any time: it is read once.
 */
#ifndef RPC_RING_H
#define RPC_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RPC_ALIGN 64U
#define RPC_WORD 8U
#define RPC_BODY_HEAD 8U
/* Entries up to this length share writes: of so many bytes pmemverbs makes one message. */
#define RPC_SHORT 384U

struct rpc_ring {
	unsigned char *base;
	size_t size; /* a multiple of RPC_ALIGN, and of the cell's size */
	uint64_t key;
	size_t cell; /* 0: entries follow one another */
};

/* Where the next call goes, or comes from. */
struct rpc_place {
	uint64_t sequence;
	uint64_t position;
};

/*
 * One write of an entry.  The last one tells the server, and may commit the entry.  Then fenced
 * means that everything before is durable.
 */
struct rpc_piece {
	size_t offset;
	size_t len;
	bool commit;
	bool fence;
};

#define RPC_MAX_PIECES 2

/* rpc_footprint -- what an entry with so long an argument takes of the ring */
static inline size_t rpc_footprint(const struct rpc_ring *ring, size_t argument_len)
{
	size_t len = RPC_WORD + RPC_BODY_HEAD + argument_len;

	return ring->cell ? ring->cell : (len + RPC_ALIGN - 1) / RPC_ALIGN * RPC_ALIGN;
}

/* rpc_argument_max -- of a ring: the entry fills it, or its cell */
static inline size_t rpc_argument_max(const struct rpc_ring *ring)
{
	return (ring->cell ? ring->cell : ring->size) - RPC_WORD - RPC_BODY_HEAD;
}

/*
 * rpc_cell_size -- of a ring's cells, for such arguments; 0: each of `window` calls has one, and
 * arguments are as long as that allows.  Returns 0 if no cell fits.
 */
size_t rpc_cell_size(size_t ring_size, size_t window, uint64_t argument_max);

/* rpc_cell_count -- no more than there can be calls without a reply */
static inline size_t rpc_cell_count(size_t ring_size, size_t window, size_t cell)
{
	return ring_size / cell < window ? ring_size / cell : window;
}

/* rpc_ring_is_short -- may it share a write with others? */
static inline bool rpc_ring_is_short(size_t ring_size, uint64_t position, size_t argument_len)
{
	size_t len = RPC_WORD + RPC_BODY_HEAD + argument_len;

	return len <= RPC_SHORT && len <= ring_size - position % ring_size;
}

/* What is in front of the argument, little endian. */
struct rpc_body_head {
	uint32_t op;
	uint32_t waiting; /* so many calls before this one have no reply yet */
};

_Static_assert(sizeof(struct rpc_body_head) == RPC_BODY_HEAD, "head of a body");

/*
 * rpc_ring_write -- an entry into the client's copy of the ring, of an operation, when so many
 * calls before it have no reply; the argument fits
 */
void rpc_ring_write(const struct rpc_ring *ring, struct rpc_place place, uint32_t op,
		    uint32_t waiting, const void *argument, size_t argument_len);

/* rpc_ring_seal -- the word of an entry again, after the key has changed */
void rpc_ring_seal(const struct rpc_ring *ring, struct rpc_place place, size_t argument_len);

/*
 * rpc_ring_plan -- how an entry is written to the server; returns how many pieces.  One, whatever
 * its length, if it does not wrap: if that is torn its checksum tells.  Else the word comes last.
 */
unsigned int rpc_ring_plan(size_t ring_size, uint64_t position, size_t argument_len,
			   struct rpc_piece pieces[RPC_MAX_PIECES]);

/*
 * rpc_ring_read -- is the entry of this call there?  Copies the body first, and checks the copy.
 * body has room for a ring.  Returns the length of the body, or 0: no valid entry.
 */
size_t rpc_ring_read(const struct rpc_ring *ring, struct rpc_place place, unsigned char *body);

/* rpc_checksum -- in checksum.c: the word of a body */
uint64_t rpc_checksum(uint64_t key, struct rpc_place place, const void *body, size_t len);

#endif /* RPC_RING_H */
