/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * peer.h -- a peer that knows the connection's secret and keeps to no rules
 *
 * What it sends is sealed, so it is looked into; all else is up to the fuzzer.  It cannot know
 * addresses and keys, which differ from run to run, so the input has the number of a memory for
 * a range's key, and an offset for its address.
 */
#ifndef FUZZ_PEER_H
#define FUZZ_PEER_H

#include "input.h"
#include "pmemverbs/test/support/pair.h"

/* Behind the memories of a pair, in a range's key: one that peers may only read. */
#define PEER_LOCKED PAIR_MEMORIES
#define PEER_NOWHERE 7 /* this one and all behind it: a key that nobody has given */

struct peer {
	struct pair *pair;
	struct fid_mr *locked_mr;
	char *locked;
};

/* peer_open -- the endpoints of options are connected; peer_close -- and nothing is left */
void peer_open(struct peer *peer, const struct pair_options *options);
void peer_close(struct peer *peer);

/* peer_translate -- of a range as the input has it, the one that is sent */
void peer_translate(const struct peer *peer, struct pmv_range *range);

#endif /* FUZZ_PEER_H */
