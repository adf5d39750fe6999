# SPDX-License-Identifier: BSD-2-Clause
# local.mk -- connections, for all programs on libfabric's public API; %D% is this directory

noinst_LTLIBRARIES += libconnection.la
libconnection_la_SOURCES = \
	%D%/connection.c %D%/connection.h \
	%D%/explain.c %D%/explain.h \
	%D%/node.c \
	%D%/versions.h
libconnection_la_CFLAGS = $(AM_CFLAGS) -fvisibility=hidden
libconnection_la_LIBADD = $(LIBFABRIC_LIBS)
