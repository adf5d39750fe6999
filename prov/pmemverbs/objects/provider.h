/* SPDX-License-Identifier: BSD-2-Clause */
/* provider.h -- what libfabric loads */
#ifndef PMV_PROVIDER_H
#define PMV_PROVIDER_H

#include <rdma/providers/fi_prov.h>

/* fi_prov_ini -- libfabric calls it once, under its lock */
__attribute__((visibility("default"))) struct fi_provider *fi_prov_ini(void);

#endif /* PMV_PROVIDER_H */
