/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * admit.h -- FI_PMEMVERBS_KEYS where connections are made (auth/admission.h has the format)
 *
 * A connection request of nobody known is rejected where the core's event is read, so the
 * application does not hear of it.  What a known peer has sent is kept under the request's handle,
 * beside the handshake (handshake.h), until the acceptance is made.
 *
 * An endpoint that connects can't be posted to before its peer has proved its key
 * (PMV_SLOW_UNKNOWN).  If it does not, the connection is shut down where the core's FI_CONNECTED is
 * read.  The application reads an error in its place, and no other event of that connection.
 *
 * Without the setting, these functions do nothing, and nobody is refused.
 */
#ifndef PMV_ADMIT_H
#define PMV_ADMIT_H

#include "auth/admission.h"
#include "objects/eq.h"

struct pmv_ep;

/* Behind *len bytes of CM data: what an endpoint proves when it connects, and when it accepts. */
int pmv_admit_connect(struct pmv_ep *ep, const void *addr, uint8_t *data, size_t *len);
int pmv_admit_accept(struct pmv_ep *ep, uint8_t *data, size_t *len);

/* What is said of a peer that is not connected to, and of one that asked: once a second. */
void pmv_admit_warn_target(const struct sockaddr *addr, const char *why);
void pmv_admit_warn_source(const struct sockaddr *addr, const char *why);

/*
 * pmv_admit_connreq -- may the core's event become the application's?  False: it was rejected, and
 * is gone.  What proved the key is taken off; the caller has *admission, perhaps NULL.
 */
bool pmv_admit_connreq(struct pmv_pep *pep, struct pmv_event *event,
		       struct pmv_admission **admission);

/* pmv_admit_take -- an endpoint is made for a request that was admitted; NULL: without the setting
 */
void pmv_admit_take(struct pmv_ep *ep, struct pmv_admission *admission);

/* pmv_admit_connected -- the same of FI_CONNECTED; false: the connection was shut down */
bool pmv_admit_connected(struct pmv_ep *ep, struct pmv_event *event);

/* pmv_admit_failed -- an endpoint has an error in the place of a connection, or NULL has: which key
 * may be missing */
void pmv_admit_failed(const struct pmv_ep *ep, const struct fi_eq_err_entry *error);

/* pmv_admit_getopt -- whose key the peer has proved; other options are the core's */
int pmv_admit_getopt(struct fid *fid, int level, int optname, void *optval, size_t *optlen);

#endif /* PMV_ADMIT_H */
