/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * versions.h -- which version of a protocol two ends use
 *
 * Each end says the lowest and the highest version that it speaks, where every version has them.
 * Both use the highest one that they have in common.
 */
#ifndef UTIL_VERSIONS_H
#define UTIL_VERSIONS_H

struct versions {
	unsigned int lowest;
	unsigned int highest;
};

/* versions_common -- 0: there is none, or what the peer says is no range */
static inline unsigned int versions_common(struct versions own, struct versions peer)
{
	unsigned int lowest = own.lowest > peer.lowest ? own.lowest : peer.lowest;
	unsigned int highest = own.highest < peer.highest ? own.highest : peer.highest;

	return peer.lowest && peer.lowest <= peer.highest && lowest <= highest ? highest : 0;
}

#endif /* UTIL_VERSIONS_H */
