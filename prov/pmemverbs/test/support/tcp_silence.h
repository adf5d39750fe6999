/* SPDX-License-Identifier: BSD-2-Clause */
/* tcp_silence.h -- for a test: how long nothing has come on any TCP connection of this process */
#ifndef TCP_SILENCE_H
#define TCP_SILENCE_H

#include <stdint.h>

extern uint32_t silent_ms;

#endif /* TCP_SILENCE_H */
