/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rights.h -- what a client may do: its line in the file peers says it (FI_PMEMVERBS_KEYS)
 *
 *    may=get or may=put    only that
 *    below=DIRECTORY       its names are relative to this directory, and lead to nothing else
 *
 * A client with another right than these is refused: whoever has written that meant a limit.
 */
#ifndef CP_RIGHTS_H
#define CP_RIGHTS_H

#include <stdbool.h>
#include <stddef.h>

struct fid_ep;

struct cp_rights {
	bool get;
	bool put;
	char name[64];   /* of the client, in the file peers; "": without keys */
	char below[192]; /* "": everything that is served */
};

/* cp_rights_parse -- words with blanks in between; false: they are not understood, and why */
bool cp_rights_parse(struct cp_rights *rights, const char *words, char *why, size_t len);

/* cp_rights_of -- of who has connected; without keys, all of them.  False: none, and why. */
bool cp_rights_of(struct cp_rights *rights, struct fid_ep *ep, char *why, size_t len);

#endif /* CP_RIGHTS_H */
