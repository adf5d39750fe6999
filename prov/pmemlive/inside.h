/* SPDX-License-Identifier: BSD-2-Clause */
/* inside.h -- libfabric's own code in the simulation */
#ifndef INSIDE_H
#define INSIDE_H

/* inside_start -- once, before anything else */
void inside_start(void);

#endif /* INSIDE_H */
