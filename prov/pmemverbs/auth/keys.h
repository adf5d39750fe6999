/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * keys.h -- the directory of FI_PMEMVERBS_KEYS: who this process is, and whom it knows
 *
 *    key      the secret key, in base64; nobody but its owner may read it
 *    peers    a line a peer: PUBLICKEY NAME [ADDRESS[/PREFIX] ...] [RIGHT=VALUE ...]
 *             a link-local address may name its interface: ADDRESS%INTERFACE
 *             # begins a comment
 *
 * A peer with addresses may connect to us from these only.  Of a target that we connect to, the
 * line whose addresses hold the destination says which key it has to prove: the one with the
 * longest prefix.  If there is none, the line without addresses does.  If several lines fit
 * equally, none does.
 */
#ifndef PMV_KEYS_H
#define PMV_KEYS_H

#include <stddef.h>
#include <stdint.h>

#include <net/if.h>
#include <sys/socket.h>

#include "auth/noise.h"

#define PMV_KEYS_NAME 64 /* of a peer, with its end */
#define PMV_KEYS_RIGHTS 192
#define PMV_KEYS_TEXT 45 /* a key in base64, with its end */

/* So many bytes of a sentence that says why. */
#define PMV_KEYS_WHY 384

struct pmv_keys_net {
	sa_family_t family;
	unsigned int bits;
	uint8_t addr[16];
	char link[IF_NAMESIZE]; /* behind this interface of ours only; "": any */
};

struct pmv_keys_peer {
	uint8_t key[PMV_NOISE_KEY];
	char name[PMV_KEYS_NAME];
	char rights[PMV_KEYS_RIGHTS]; /* words with a blank in between, for applications */
	struct pmv_keys_net *nets;
	size_t count; /* 0: anywhere */
};

struct pmv_keys {
	struct pmv_noise_pair own;
	struct pmv_keys_peer *peers;
	size_t count;
};

/* pmv_keys_read_own -- only the file `key` of the directory; 0 or a negative errno, and why */
int pmv_keys_read_own(const char *dir, struct pmv_noise_pair *own, char why[PMV_KEYS_WHY]);

/*
 * pmv_keys_load -- both files, if either has changed since *keys was loaded (NULL: never).  If
 * there is anything wrong with them, *keys is NULL afterwards: then nobody is known.
 */
struct pmv_keys_seen {
	struct {
		uint64_t device, inode, size;
		int64_t modified_ns, changed_ns;
	} files[2];
};
int pmv_keys_load(const char *dir, struct pmv_keys **keys, struct pmv_keys_seen *seen,
		  char why[PMV_KEYS_WHY]);
void pmv_keys_free(struct pmv_keys *keys);

/* pmv_keys_find -- who has this key, and may connect from there; or NULL, and why */
const struct pmv_keys_peer *pmv_keys_find(const struct pmv_keys *keys,
					  const uint8_t key[PMV_NOISE_KEY],
					  const struct sockaddr *from, char why[PMV_KEYS_WHY]);

/* pmv_keys_target -- who has to be there; or NULL, and why */
const struct pmv_keys_peer *pmv_keys_target(const struct pmv_keys *keys, const struct sockaddr *to,
					    char why[PMV_KEYS_WHY]);

/* pmv_keys_draw -- a new pair; libsodium has been started */
void pmv_keys_draw(struct pmv_noise_pair *pair);

/* pmv_keys_text -- a key in base64 */
void pmv_keys_text(char text[PMV_KEYS_TEXT], const uint8_t key[PMV_NOISE_KEY]);

#endif /* PMV_KEYS_H */
