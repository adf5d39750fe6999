/* SPDX-License-Identifier: BSD-2-Clause */
/* provider.c -- what libfabric loads: the provider with its functions */
#include "objects/fabric.h"

#include <rdma/providers/fi_prov.h>

#include "agent/agent.h"
#include "base/log.h"
#include "base/setting.h"
#include "base/text_socket.h"

/*
 * cleanup -- the process ends
 *
 * A signal handler may have called exit().  Then the code that it interrupted may hold
 * any lock, malloc's too.  So nothing here takes a lock or frees memory, and nothing
 * waits for a thread without a limit.
 */
static void cleanup(void)
{
	pmv_agent_stop_all();
	pmv_text_socket_remove();
}

/* libfabric calls it once.  It may not call fi_getinfo, which would wait for libfabric's lock. */
__attribute__((visibility("default"))) struct fi_provider *fi_prov_ini(void);

struct fi_provider *fi_prov_ini(void)
{
	/* libfabric hides a provider that declares an older API from newer applications. */
	pmv_prov.fi_version = fi_version();
	pmv_prov.getinfo = pmv_getinfo;
	pmv_prov.fabric = pmv_fabric_open;
	pmv_prov.cleanup = cleanup;
	pmv_setting_read();
	pmv_core_check();
	pmv_rdm_start();
	return &pmv_prov;
}
