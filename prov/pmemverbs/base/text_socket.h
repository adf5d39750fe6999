/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * text_socket.h -- a socket of this process in a directory, from which others read a text
 *
 * It is DIRECTORY/PROGRAM.PID.sock.  Whoever connects gets the text, as it is then, and the end of
 * the file.  A thread waits for that; nobody else does, and it can keep nobody waiting: it gives up
 * a reader that takes nothing for a second.
 *
 * The socket has its name only when it listens (it is made under another one).  So if nobody
 * listens, the process is gone, and the socket may be removed.  A new process does that with the
 * sockets of processes that were killed.
 *
 * The socket's mode is 0660: its owner and its group may connect, if the directory lets them in.
 */
#ifndef PMV_TEXT_SOCKET_H
#define PMV_TEXT_SOCKET_H

#include <stdio.h>

/*
 * pmv_text_socket_open -- make it, and start the thread; once in a process.  write: the text.  0,
 * or a positive errno.
 */
int pmv_text_socket_open(const char *directory, void (*write)(FILE *text));

/* pmv_text_socket_remove -- the process ends; takes no lock, and frees nothing */
void pmv_text_socket_remove(void);

#endif /* PMV_TEXT_SOCKET_H */
