/* SPDX-License-Identifier: BSD-2-Clause */
/* hello.c -- the hello in CM data; hello.h says where it goes */
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "hello.h"
#include "prov.h"

struct pmv_hello_kept {
	struct pmv_hello_kept *next;
	struct fid *handle;
	struct pmv_hello hello;
};

static struct pmv_hello_kept *unlink_kept(struct pmv_fabric *fabric, struct fid *handle)
{
	struct pmv_hello_kept *kept = NULL;

	for (struct pmv_hello_kept **at = &fabric->hellos; *at; at = &(*at)->next) {
		if ((*at)->handle == handle) {
			kept = *at;
			*at = kept->next;
			break;
		}
	}
	return kept;
}

void pmv_hello_keep(struct pmv_fabric *fabric, struct fid *handle, const struct pmv_hello *hello)
{
	struct pmv_hello_kept *kept;

	pthread_mutex_lock(&fabric->hello_lock);
	kept = unlink_kept(fabric, handle);
	if (!kept)
		kept = malloc(sizeof(*kept));
	/* Without memory the peer is one that has said nothing. */
	if (kept) {
		*kept = (struct pmv_hello_kept){fabric->hellos, handle, *hello};
		fabric->hellos = kept;
	}
	pthread_mutex_unlock(&fabric->hello_lock);
}

void pmv_hello_take(struct pmv_fabric *fabric, struct fid *handle, struct pmv_ep *ep)
{
	struct pmv_hello_kept *kept;

	pthread_mutex_lock(&fabric->hello_lock);
	kept = unlink_kept(fabric, handle);
	pthread_mutex_unlock(&fabric->hello_lock);
	if (kept && ep)
		pmv_link_connect(ep, &kept->hello);
	free(kept);
}

void pmv_hello_forget_all(struct pmv_fabric *fabric)
{
	struct pmv_hello_kept *kept;

	while ((kept = fabric->hellos)) {
		fabric->hellos = kept->next;
		free(kept);
	}
}

int pmv_hello_append(struct pmv_ep *ep, const void *param, size_t len, struct pmv_cm_data *out)
{
	size_t room = sizeof(out->data);
	size_t optlen = sizeof(room);
	int ret;

	if (pmv_getopt(&ep->core_fid->fid, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, &room, &optlen) ||
	    room > sizeof(out->data) - PMV_HELLO_SIZE)
		room = sizeof(out->data) - PMV_HELLO_SIZE;
	if (len > room) {
		PMV_WARN(EP_CTRL, "%zu bytes of CM data are more than FI_OPT_CM_DATA_SIZE, %zu\n",
			 len, room);
		return -FI_EINVAL;
	}
	out->len = len;
	if (len)
		memcpy(out->data, param, len);
	/* Where keys say nothing of the memory nobody commits. */
	if (!ep->domain->keyed)
		return 0;
	ret = pmv_link_open(ep);
	if (ret) {
		PMV_WARN(EP_CTRL,
			 "no memory could be registered for commits by an agent (%s): they "
			 "will be refused on this connection\n",
			 fi_strerror(-ret));
		/* It is as if the peer had said nothing, either. */
		pmv_link_connect(ep, &(struct pmv_hello){0});
		return 0;
	}
	pmv_link_hello(ep, out->data + len);
	out->len += PMV_HELLO_SIZE;
	return 0;
}

int pmv_getopt(struct fid *core_fid, int level, int optname, void *optval, size_t *optlen)
{
	int ret = fi_getopt(core_fid, level, optname, optval, optlen);
	size_t *size = optval;

	if (!ret && level == FI_OPT_ENDPOINT && optname == FI_OPT_CM_DATA_SIZE)
		*size = *size > PMV_HELLO_SIZE ? *size - PMV_HELLO_SIZE : 0;
	return ret;
}
