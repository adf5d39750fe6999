/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fi_pmem_rpc.h -- what the files of fi_pmem_rpc share: its options, and what both ends count
 *
 * fi_pmem_rpc.c has the options, count_server.c the server, count_client.c the client.
 */
#ifndef FI_PMEM_RPC_H
#define FI_PMEM_RPC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pmemrpc.h"

enum count_op {
	ADD = 1, /* to the client's counter, whose value is the reply */
	ADD_ALL, /* likewise, and to the counter of all clients */
	TOTAL,   /* the reply is the counter of all clients */
	LOOK,    /* the reply is the client's counter; it changes nothing */
};

#define WINDOW 32U

/* An argument is filled with the call's sequence, so that the server can see a torn one. */
static inline unsigned char count_pattern(uint64_t sequence, size_t i)
{
	return (unsigned char) (sequence * 31 + i * 7);
}

struct settings {
	const char *host;
	const char *port;
	const char *memory;
	const char *id;
	size_t ring;
	unsigned int clients;
	unsigned int threads;
	unsigned int pool;
	unsigned int throttle;
	unsigned int rate;
	unsigned int silence_ms;
	unsigned int rings_per_peer;
	unsigned int spin_us;
	unsigned int batch;
	unsigned int depth;
	bool measure;
	bool reply_only;
	bool reads; /* every third call looks */
	size_t size;
	uint64_t count;
	int timeout_ms;
	bool forget;
	bool replies;
	bool verbose;
	enum pmemrpc_transport transport;
	enum pmemrpc_flush flush;
};

/* count_serve, count_call -- be the server, or the client; the program's exit status */
int count_serve(const struct settings *settings);
int count_call(const struct settings *settings);

#endif /* FI_PMEM_RPC_H */
