/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * acks.h -- a log of numbered records, each of which is acknowledged on standard
 * output, and what is left of it after a power failure
 *
 * For programs whose memory somebody else makes durable: fabtests/power/plug cuts
 * the power and has them compare both.
 */
#ifndef PMEM_ACKS_H
#define PMEM_ACKS_H

#include <stdint.h>

#define ACKS_LOG_SIZE (32 << 20)
#define ACKS_RECORD_SIZE 256
#define ACKS_RECORDS (ACKS_LOG_SIZE / ACKS_RECORD_SIZE)

/* acks_record -- what record `number` (1, 2, ...) consists of, and where it is */
void acks_record(char record[ACKS_RECORD_SIZE], uint64_t number);
uint64_t acks_offset(uint64_t number);

/* acks_say -- the record is there for good */
void acks_say(uint64_t number);

/*
 * acks_check -- compare the log with the output of whoever wrote it; standard
 * output gets the verdict as fabtests/power/plug wants it.  0, or 1 if that failed.
 */
int acks_check(const char *log, const char *output);

#endif /* PMEM_ACKS_H */
