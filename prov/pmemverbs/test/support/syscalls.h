/* SPDX-License-Identifier: BSD-2-Clause */
/* syscalls.h -- a test answers system calls in the kernel's place */
#ifndef SYSCALLS_H
#define SYSCALLS_H

/*
 * syscalls_answer -- what the test says to a call by syscall(): 0: ask the kernel;
 * else syscall() fails with this errno.  A test that links syscalls.c has one.
 */
int syscalls_answer(long number, const long *args);

#endif /* SYSCALLS_H */
