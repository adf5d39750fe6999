/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fio_proto.h -- what the ends of a connection tell each other when it is made
 *
 * Numbers are little-endian.
 */
#ifndef PMEM_FIO_PROTO_H
#define PMEM_FIO_PROTO_H

#include <stdint.h>

/* In the data of both sides, without a 0: who else connects is refused. */
#define FIO_HELLO "pmf1"
#define FIO_HELLO_LEN 4

/* The target's answer.  InfiniBand leaves 31 bytes of connection data to those above the provider.
 */
struct fio_lease {
	uint64_t addr;
	uint64_t key;
	uint64_t size;
	char hello[FIO_HELLO_LEN];
};

#define FIO_LEASE_LEN (3 * sizeof(uint64_t) + FIO_HELLO_LEN)

#endif /* PMEM_FIO_PROTO_H */
