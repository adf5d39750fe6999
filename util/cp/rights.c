/* SPDX-License-Identifier: BSD-2-Clause */
/* rights.c -- what a client may do; rights.h has the words */
#include "rights.h"

#include <stdio.h>
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_ext_pmemverbs.h>

#define BELOW "below="

/* take -- one word; false: it is none, or there was such a one */
static bool take(struct cp_rights *rights, const char *word)
{
	bool all = rights->get && rights->put;

	if (!strcmp(word, "may=get") && all) {
		rights->put = false;
		return true;
	}
	if (!strcmp(word, "may=put") && all) {
		rights->get = false;
		return true;
	}
	if (strncmp(word, BELOW, strlen(BELOW)) || !word[strlen(BELOW)] || *rights->below)
		return false;
	snprintf(rights->below, sizeof(rights->below), "%s", word + strlen(BELOW));
	return true;
}

bool cp_rights_parse(struct cp_rights *rights, const char *words, char *why, size_t len)
{
	char copy[sizeof(((struct fi_pmemverbs_peer *) 0)->rights)], *rest, *word;

	*rights = (struct cp_rights){.get = true, .put = true};
	snprintf(copy, sizeof(copy), "%s", words);
	for (word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
		if (take(rights, word))
			continue;
		snprintf(why, len, "%s in the target's file peers is no right", word);
		return false;
	}
	return true;
}

bool cp_rights_of(struct cp_rights *rights, struct fid_ep *ep, char *why, size_t len)
{
	struct fi_pmemverbs_peer peer = {0};
	size_t optlen = sizeof(peer);
	int ret = fi_getopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_PMEMVERBS_PEER, &peer, &optlen);

	if (!ret || ret == -FI_ENODATA) {
		bool known = cp_rights_parse(rights, peer.rights, why, len);

		snprintf(rights->name, sizeof(rights->name), "%s", peer.name);
		return known;
	}
	snprintf(why, len, "its rights can't be told: %s", fi_strerror(-ret));
	return false;
}
