/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hw.h -- a model of the hardware between an initiator and a medium
 *
 * A request goes from the send queue over the wire into the buffer of the
 * target's NIC, from there in pieces through the I/O controller to the last-level
 * cache or the memory controller, and from there to what a power failure leaves.
 * Every step on this way is one that somebody chooses: hw_steps says which ones
 * the rules allow now, hw_take takes one.  README.md has the rules and where they
 * come from.
 *
 * Target memory is the program's own: what it holds is what is globally visible.
 * What has left the volatile part of the path is kept beside it, in `durable`.
 *
 * Everything is allocated with malloc, so that an explorer can put it where it
 * takes snapshots.
 */
#ifndef PMEMSIM_HW_H
#define PMEMSIM_HW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HW_LINE 64
#define HW_PAGE 4096
#define HW_MAX_PORTS 16
#define HW_MAX_MEMORIES 8
#define HW_MAX_QUEUE 64

/* What survives a power failure. */
enum hw_domain {
	HW_VOLATILE,
	HW_DMP,   /* what has reached the memory controller */
	HW_MHP,   /* the caches, too */
	HW_WSP,   /* the I/O controller and the NIC's buffers, too */
	HW_PAGED, /* what the kernel has written to a file */
};

struct hw_rules {
	bool ddio;    /* inbound data lands in the cache */
	bool relaxed; /* the I/O controller keeps no order among writes */
	/*
	 * Without DDIO: what is visible may wait before the memory controller, line
	 * by line, until it is pushed.
	 */
	bool buffered;
	/*
	 * The disk has a cache that a power failure empties: what was written is in a file only
	 * behind a sync of any of its pages.
	 */
	bool disk_cache;
	/*
	 * The answer of a FLUSH or an ATOMIC WRITE may be lost.  The target gives it again, unless
	 * it has carried out so many READs, atomics, FLUSHes and ATOMIC WRITEs since: then nothing
	 * ever comes.  0: no answer is lost.
	 */
	unsigned int slots;
	bool local;           /* a posted request completes once it was handed over (iWARP) */
	unsigned int granule; /* a write becomes visible in pieces of so many bytes: 8 or 64 */
};

enum hw_kind {
	HW_WRITE,  /* posted */
	HW_SEND,   /* posted, into the next receive */
	HW_READ,   /* non-posted */
	HW_ATOMIC, /* non-posted: fetches 8 bytes and stores others there */
	HW_FLUSH,  /* non-posted, but no fence waits for it: makes a range visible, or persistent */
	HW_ATOMIC_WRITE, /* non-posted, and no fence is sure to wait for it: 8 aligned bytes */
};

enum hw_stage {
	HW_QUEUED,  /* in the send queue, or on the wire */
	HW_ARRIVED, /* in the buffer of the target's NIC */
	HW_LEFT,    /* in the I/O controller, as far as it is not visible yet */
	HW_DONE,
};

/* Adds, swaps or whatever it is that an atomic does; NULL: it stores the operand. */
typedef uint64_t (*hw_update)(uint64_t old, uint64_t operand, uint64_t compare);

struct hw_request {
	enum hw_kind kind;
	enum hw_stage stage;
	bool fence;     /* not sent before earlier non-posted ones have completed */
	bool delivered; /* posted: it completes when it, and all before it, is visible */
	bool persists;  /* FLUSH: its type is persistent, and not global */
	bool fetched;   /* atomic: it has read, and stores in a step of its own */
	bool responded; /* non-posted: the response is back */
	bool lost;      /* ... or it was lost */
	bool notifies;  /* the target's CQ gets an entry, behind the data */
	bool noticed;
	bool reported; /* success makes an entry in the sender's CQ */
	bool quiet;    /* nor does an error */
	int err;       /* it can't be carried out at the target: positive errno */
	uint64_t what; /* FI_RMA | FI_WRITE, ...: for entries */
	uint64_t imm;
	void *context;
	char *target; /* where in the target's memory */
	size_t len;
	uint64_t left; /* a bit for each piece that is not visible yet */
	unsigned int pieces;
	char *payload; /* what is sent, or what was read */
	char *result;  /* where the response goes at home */
	hw_update update;
	uint64_t compare;
	void *receive_context;
	bool receive_quiet;
	int note; /* whoever posts it may put a number here, for telling what happened */
};

struct hw_receive {
	char *buf;
	size_t len;
	void *context;
	bool quiet; /* what it receives makes no entry */
};

struct hw_port;

/* A completion, for whoever has the port's CQs. */
struct hw_event {
	bool receive;
	int err;
	uint64_t what;
	uint64_t imm;
	size_t len;
	void *context;
};

struct hw_port {
	struct hw_port *peer;
	unsigned int number;
	unsigned int device; /* the NIC that it belongs to */
	bool dead;
	unsigned int room;   /* of the send queue */
	unsigned int posted; /* requests that are not completed */
	unsigned int count;
	struct hw_request *queue[HW_MAX_QUEUE];
	unsigned int completed; /* so many in front have */
	unsigned int num_receives;
	struct hw_receive receives[HW_MAX_QUEUE];
	void *owner;
};

struct hw_memory {
	char *base;
	size_t len;
	enum hw_domain domain;
	char *durable;        /* what a power failure leaves: DMP and PAGED */
	char *pending;        /* what is on its way out of the processor ... */
	uint8_t *is_buffered; /* lines that devices wrote and nothing has pushed, a byte for each */
	uint64_t *is_pending; /* ... which bytes these are, a bit for each, a word for each line */
	char *placed; /* PAGED: what devices have made of it, of which the kernel knows nothing */
	uint8_t *touched; /* PAGED: the kernel takes the page for dirty, a byte for each */
	/* With a disk's cache: what is there alone, and of which pages; and the file that it is of.
	 */
	char *written;
	uint8_t *is_written;
	unsigned int file;
};

struct hw {
	struct hw_rules rules;
	unsigned int num_ports;
	struct hw_port *ports[HW_MAX_PORTS];
	unsigned int num_memories;
	struct hw_memory memories[HW_MAX_MEMORIES];
	/* Requests with pieces in the I/O controller, in the order in which they entered it. */
	unsigned int num_left;
	struct hw_request *left[HW_MAX_QUEUE * 2];
	unsigned int left_device[HW_MAX_QUEUE * 2];
	void (*complete)(struct hw_port *port, const struct hw_event *event);
	/* Called with all memory that a step changes, the model's own structures included. */
	void (*changed)(const void *addr, size_t len);
	/* How a lost connection may end; see hw_kill. */
	bool may_die;
};

enum hw_step_kind {
	HW_ARRIVE,    /* a request reaches the target's NIC */
	HW_LEAVE,     /* a posted request leaves it for the I/O controller */
	HW_EXECUTE,   /* a non-posted request is carried out; piece 1: its answer is lost */
	HW_REPEAT,    /* ... and given again */
	HW_LAND,      /* a piece becomes visible */
	HW_NOTICE,    /* the target's CQ gets an entry */
	HW_EVICT,     /* a cache line goes to the memory controller */
	HW_DRAIN,     /* what the processor flushed or stored past the cache goes there */
	HW_WRITEBACK, /* the kernel writes a page back, for reasons of its own */
	HW_DIE,       /* a connection is lost, and with it what has not arrived */
};

struct hw_step {
	uint8_t kind;   /* enum hw_step_kind */
	uint8_t at;     /* port or memory */
	uint16_t index; /* request in its queue, line or page */
	uint16_t piece;
};

#define HW_MAX_STEPS 512

struct hw *hw_new(const struct hw_rules *rules);
void hw_free(struct hw *hw);

struct hw_port *hw_port(struct hw *hw, unsigned int device, unsigned int room);
void hw_connect(struct hw_port *one, struct hw_port *other);

/* hw_port_close -- what is under way from there is lost */
void hw_port_close(struct hw *hw, struct hw_port *port);

/* hw_memory -- what is at these addresses survives as far as the domain says */
struct hw_memory *hw_memory(struct hw *hw, char *base, size_t len, enum hw_domain domain);
struct hw_memory *hw_memory_of(struct hw *hw, const char *addr);

/* hw_post -- the model keeps the request; false: no room */
bool hw_post(struct hw *hw, struct hw_port *port, const struct hw_request *request,
	     const char *payload);
bool hw_receive(struct hw *hw, struct hw_port *port, const struct hw_receive *receive);

/* hw_steps -- all that may happen now; returns how many, at most HW_MAX_STEPS */
size_t hw_steps(struct hw *hw, struct hw_step *steps);

/*
 * hw_free_step -- a step that may as well be taken at once: whatever else happens
 * can happen after it just as well, and nobody can tell.  False: there is none.
 */
bool hw_free_step(struct hw *hw, struct hw_step *step);
void hw_take(struct hw *hw, struct hw_step step);

/*
 * hw_completable -- so many completions of a port's requests may be there for
 * whoever looks; hw_complete makes the first one be there.  These are no steps:
 * nobody can tell when a completion came that was not looked for.
 */
size_t hw_completable(struct hw *hw, struct hw_port *port);
void hw_complete(struct hw *hw, struct hw_port *port);

/* hw_kill -- the connection is lost: what has not arrived never will */
void hw_kill(struct hw *hw, struct hw_port *port);

/* What the target's processor does. */
void hw_flush(struct hw *hw, const void *addr, size_t len);
void hw_drain(struct hw *hw);
void hw_store(struct hw *hw, void *to, const void *from, size_t len);
void hw_touch(struct hw *hw, void *addr, size_t len);
void hw_sync(struct hw *hw, void *addr, size_t len);

/* hw_write_out -- the same, but the pages are in the disk's cache */
void hw_write_out(struct hw *hw, void *addr, size_t len);

/* hw_sync_failing -- nothing is written, and the kernel takes the pages for clean from now on */
void hw_sync_failing(struct hw *hw, void *addr, size_t len);

/*
 * hw_image -- copy what a power failure now would leave of a range; of volatile
 * memory: what is visible
 */
void hw_image(struct hw *hw, const char *addr, size_t len, char *image);

/* hw_describe -- a step in words, before it is taken */
void hw_describe(struct hw *hw, struct hw_step step, char *buf, size_t len);

#endif /* PMEMSIM_HW_H */
