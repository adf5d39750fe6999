/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * proto.h -- what fi_pmem_cp and fi_pmem_target say to each other
 *
 * Data go by RDMA writes (put) and reads (get), which the client makes.  All the rest
 * goes by messages of one kind, a request and its answer:
 *
 *   put NAME, size, time      the target makes a hidden file of that length, registers it, and
 *                             answers with its address and key, and with what an earlier,
 *                             interrupted copy has left there
 *   (the client writes the data and, with them, the state below)
 *   finish digest             the target compares it with that of its memory, and gives the
 *                             file its name
 *
 *   get NAME, size            size and time, address and key; the request's size is 0, or that of
 *                             a file that is compared with part of a device
 *   (the client reads the data)
 *   sum size                  the digest of so many bytes of the target's memory
 *
 * Many small files go in packs (pack.h), which the client writes into memory that it is lent:
 *
 *   room                      address and key of the room for packs
 *   offer committed           a pack of so many records without data, at the room's start: the
 *                             target makes the directories, and its answer's text has a character
 *                             for each record (sink.h): which files it wants
 *   store addr, committed     a pack of so many records, so far behind the room's start: the
 *                             target makes the files
 *
 *   list NAME                 a pack of so many records (committed) of what is below a directory,
 *                             which the client reads; without a restart, those that follow
 *
 * The answer to an offer or store comes when all of it is durable.  Before it comes a message for
 * each record that has failed.  Two packs may be under way.
 *
 * Numbers are little-endian; digests are XXH3's of 128 bits, in its canonical form.
 */
#ifndef CP_PROTO_H
#define CP_PROTO_H

#include <stddef.h>
#include <stdint.h>

#define CP_DEFAULT_PORT "7475"

/*
 * In the connection data of both sides: who else connects is refused.  All versions keep it.  Both
 * sides use the highest version that they have in common.
 */
#define CP_MAGIC "pmemcp"
#ifndef CP_HIGHEST /* versions; the step versions_tcp builds later ones */
#define CP_LOWEST 2
#define CP_HIGHEST 2
#endif
struct cp_hello {
	char magic[6]; /* CP_MAGIC */
	uint8_t lowest;
	uint8_t highest;
};

/* Why a directory is not copied, at either end. */
#define CP_IS_DIRECTORY "it is a directory (--recursive)"

enum cp_type {
	CP_PUT = 1,
	CP_FINISH,
	CP_GET,
	CP_SUM,
	CP_ALIVE,  /* no answer: the sender is still at work; committed: it has done so much */
	CP_ANSWER, /* to the oldest request without one */
	CP_ROOM,
	CP_OFFER,
	CP_STORE,
	CP_LIST,
	CP_FAILED, /* the record with the number sequence: status and text say why */
};

enum cp_flags {
	CP_RESTART = 1,  /* put: do not go on from what is there */
	CP_IN_PLACE = 2, /* answer to put: a device, which has no state and no hidden file */
	CP_DAMAGED = 4,  /* answer to put: what was there is not what its state says */
	CP_TIMES = 8,    /* the new file has the source's time of its last change */
	CP_MODES = 16,   /* it has the source's permissions */
	CP_READING = 32, /* room: for lists, which the client reads */
};

#define CP_DIGEST 16
#define CP_TEXT 1024

struct cp_message {
	uint32_t type;
	uint32_t status; /* answer: 0 or an errno, and then text has the reason */
	uint64_t flags;
	uint64_t size;
	uint64_t mtime; /* of the source, in nanoseconds */
	uint64_t mode;  /* its permissions */
	uint64_t committed;
	uint64_t sequence;
	uint64_t addr;
	uint64_t key;
	uint8_t digest[CP_DIGEST];
	char text[CP_TEXT]; /* a name or a reason; ends with a 0 */
};

/*
 * The state of a copy, on a page behind the data of the hidden file: so much of this source is
 * durable.  It is written in turn to eight places.  A power failure may tear the ones that
 * are being written, one for each batch and the last one, but never the newest that is durable.
 */
#define CP_STATE_MAGIC 0x31657461747363ULL
#define CP_STATE_PAGE 4096
#define CP_STATES 8
#define CP_STATE_PLACE (CP_STATE_PAGE / CP_STATES)

struct cp_state {
	uint64_t magic;
	uint64_t sequence; /* the highest one counts */
	uint64_t size;
	uint64_t mtime;
	uint64_t committed;
	uint8_t digest[CP_DIGEST]; /* of the part that is committed */
	uint64_t check;            /* XXH3 of 64 bits of what is above */
};

/* So many commits of a put may be under way. */
#define CP_BATCHES 4

/* cp_state_at -- where the state page is in the hidden file of a copy */
static inline uint64_t cp_state_at(uint64_t size)
{
	return (size + CP_STATE_PAGE - 1) / CP_STATE_PAGE * CP_STATE_PAGE;
}

/* What one client may open while it is connected; an honest one needs three for a file. */
#define CP_MAX_OPENS 64

/* No file is larger: so sums of sizes do not overflow. */
#define CP_MAX_SIZE (UINT64_C(1) << 62)

/* Ours. */
extern const struct cp_hello cp_hello;

/* Who has sent these connection data? */
enum cp_peer {
	CP_PEER_STRANGE,
	CP_PEER_OTHER, /* of no version of ours */
	CP_PEER_OURS,
};
enum cp_peer cp_peer_of(const void *data, size_t len);

/* cp_message_swap -- between this machine's numbers and those on the wire */
void cp_message_swap(struct cp_message *message);

/* cp_printable -- what a peer has sent may be anything: no control character is left */
void cp_printable(char *text);

/* cp_state_encode -- as it is written, with its check */
void cp_state_encode(struct cp_state *wire, const struct cp_state *state);

/* cp_state_newest -- of a state page: 0, or -1 if there is none for this source */
int cp_state_newest(struct cp_state *state, const void *page, uint64_t size, uint64_t mtime);

#endif /* CP_PROTO_H */
